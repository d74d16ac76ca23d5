"""One store's thread: looks at its hot files, and asks it for copies, one thing after another.

A store that hangs holds up no other. That all is done in one thread is what makes it sure that
a file's number of copies is never read before, and told after, it was changed here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from headrace.controller.hotspots.carrier import Carrier
from headrace.core.errors import HeadraceError
from headrace.policy.hotspot.events import (
    CopiesNotSet,
    Event,
    FiguresSeen,
    HotFile,
    SetCopies,
    StoredFile,
)

log = logging.getLogger("headrace.controller.hotspots")

BUSY_S = 0.5
"""A store is looked at so often while copies are made [s]."""

QUIET_S = 10.0
"""And so often while they are only held [s]."""

_REST = 4.0
"""After a look that took long, rest this many times as long: looking costs the store work."""


class Desk(Protocol):
    """Who decides, and keeps records. Thread-safe."""

    def tell(self, event: Event) -> None:
        """Take an event; orders that follow from it are given to their keepers."""
        ...

    def to_look_at(self, store: str) -> list[HotFile]:
        """Return the files that are to be looked at, in order."""
        ...

    def is_settled(self, store: str) -> bool:
        """Return whether all copies that are wanted are there."""
        ...

    def unwritten(self) -> str:
        """Wait until all records are written; return why they are not."""
        ...

    def retire(self, keeper: StoreKeeper) -> bool:
        """Let a keeper go that has nothing to do; False: it has."""
        ...


class StoreKeeper:
    """Carries out the orders for one store, in a thread that ends when there is nothing to do.

    Args:
        store: URL of its root.
        desk: Who decides.
        opened: Opens the store.
    """

    def __init__(self, store: str, desk: Desk, opened: Callable[[str], Carrier]) -> None:
        self.store = store
        self.orders: deque[SetCopies] = deque()
        self._desk = desk
        self._open = opened
        self._carrier: Carrier | None = None
        self._files: dict[StoredFile, HotFile] = {}
        self._wake = threading.Event()
        self._ending = False
        self._said = ""
        self._thread = threading.Thread(target=self._run, name=f"hotspots {store}", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def order(self, order: SetCopies) -> None:
        """Carry an order out, soon."""
        self.orders.append(order)
        self._wake.set()

    def wake(self) -> None:
        """Look at the store now."""
        self._wake.set()

    def end(self) -> None:
        """Stop soon; what is being asked of the store is not waited for."""
        self._ending = True
        self._wake.set()

    def _run(self) -> None:
        try:
            while not self._ending and not self._desk.retire(self):
                took_s = self._turn()
                rest_s = BUSY_S if not self._desk.is_settled(self.store) else QUIET_S
                self._wake.wait(0.0 if self.orders else max(rest_s, _REST * took_s))
                self._wake.clear()
        finally:
            if self._carrier is not None:
                self._carrier.close()

    def _turn(self) -> float:
        """Do what was ordered, and look; return how long looking took [s]."""
        self._carry_out()
        began = time.monotonic()
        try:
            self._look()
        except HeadraceError as error:
            self._say(str(error))
        else:
            self._said = ""
        return time.monotonic() - began

    def _look(self) -> None:
        carrier = self._opened()
        files = self._desk.to_look_at(self.store)
        self._files = {one.file: one for one in files}
        for file in files:
            if self._ending:
                return
            self._desk.tell(carrier.look(file))
            self._carry_out()
        # After the files: copies that are made meanwhile are then not taken for missing ones.
        self._desk.tell(FiguresSeen(store=self.store, figures=carrier.figures()))
        self._carry_out()

    def _carry_out(self) -> None:
        while self.orders and not self._ending:
            self._desk.tell(self._answer(self.orders.popleft()))

    def _answer(self, order: SetCopies) -> Event:
        try:
            if order.is_raise and (reason := self._desk.unwritten()):
                return CopiesNotSet(file=order.file, reason=reason)
            return self._opened().set_copies(order, self._file(order.file))
        except HeadraceError as error:
            self._say(str(error))
            return CopiesNotSet(file=order.file, reason=str(error))
        except BaseException:
            # This thread ends with it, and the next one must not wait for its answer.
            self._desk.tell(CopiesNotSet(file=order.file, reason="the controller failed"))
            raise

    def _file(self, file: StoredFile) -> HotFile:
        """Return what is known of a file; one that was not looked at is only to be lowered."""
        nothing = HotFile(file=file, size=0, hot_bytes=0, readers=0)
        return self._files.get(file, nothing)

    def _opened(self) -> Carrier:
        if self._carrier is None:
            self._carrier = self._open(self.store)
        return self._carrier

    def _say(self, trouble: str) -> None:
        if trouble != self._said:
            log.warning("hotspots of %s: %s; it is tried again", self.store, trouble)
            self._said = trouble
