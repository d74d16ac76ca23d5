"""The hotspots of an estate: takes announcements, keeps leases, and sees that they end.

Thread-safe. The planner decides, under a lock; reading checkpoints and asking stores is done in
threads of their own, so that nobody who asks here waits for them. A record is written before any
copy is made, and forgotten after all is given back: whoever opens the journal next goes on, or
lowers what nobody holds any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import msgspec

from headrace.controller.hotspots.carrier import Carrier
from headrace.controller.hotspots.checks import check_asked, check_lease
from headrace.controller.hotspots.keeper import StoreKeeper
from headrace.controller.hotspots.leases import LeaseBook
from headrace.controller.hotspots.rows import LeaseRow
from headrace.controller.hotspots.trial import try_out
from headrace.controller.hotspots.views import Moment, ended_view, planned_view, view
from headrace.controller.journal import ANSWER_S, Journal
from headrace.core.backoff import Backoff
from headrace.core.clock import Clock, SystemClock
from headrace.core.errors import HeadraceError, RemoteError
from headrace.policy.hotspot.events import (
    Action,
    Announced,
    Ended,
    Event,
    ForgetFile,
    HotFile,
    KeepFile,
    Planned,
    Released,
    Renewed,
    SetCopies,
    StoredFile,
    Tick,
)
from headrace.policy.hotspot.limits import HotspotLimits
from headrace.policy.hotspot.planner import Planner
from headrace.wire.hotspots import HotspotAsked, Hotspots, HotspotView

log = logging.getLogger("headrace.controller.hotspots")

MOST_READINGS = 4
"""Checkpoints that are read at the same time."""

FIRST_RETRY_S, LONGEST_RETRY_S = 0.5, 10.0
"""Longest pauses before a checkpoint is read again whose store did not answer [s]."""

WRITE_S = 10.0
"""Longest wait for the journal before a raise is put off [s]."""

GIVE_BACK_S = 20.0
"""Longest wait for copies to be given back when nobody else would do it later [s]."""


class HotspotDesk:
    """All hotspots of one controller, or of one command without a controller.

    Args:
        journal: Where records are kept; it begins with what is there.
        read: Returns the hot files of what is announced; may take long, may raise.
        opened: Opens a store to have copies made.
        limits: What the planner goes by.
        clock: Monotonic time.
        wall: Time since 1970 [s].
    """

    def __init__(
        self,
        journal: Journal,
        *,
        read: Callable[[HotspotAsked], tuple[HotFile, ...]],
        opened: Callable[[str], Carrier],
        limits: HotspotLimits | None = None,
        clock: Clock | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._journal = journal
        self._read = read
        self._open = opened
        self._clock: Clock = clock or SystemClock()
        self._wall = wall
        self._lock = threading.RLock()
        self._planner = Planner(limits)
        self._book = LeaseBook(journal, wall)
        self._keepers: dict[str, StoreKeeper] = {}
        self._readings = threading.Semaphore(MOST_READINGS)
        self._ending = threading.Event()
        self._go_on()

    # What is asked

    def announce(self, asked: HotspotAsked) -> HotspotView:
        """Take an announcement; its checkpoint is read, and its copies made, soon.

        Raises:
            CallerError: it makes no sense, or there are too many.
        """
        check_asked(asked)
        with self._lock:
            row = self._book.begin(asked)
            self._begin_reading(row)
        return self._written_view(row.id)

    def plan(self, asked: HotspotAsked) -> HotspotView:
        """Return what would be done, and do nothing; waits for the store.

        Raises:
            HeadraceError: the checkpoint, or its store, cannot be read.
        """
        check_asked(asked)
        files = self._read(asked)
        wanted = try_out(
            files,
            originals=self._original,
            opened=self._open,
            eta_s=asked.eta_s,
            limits=self._planner.limits,
        )
        return planned_view(self._book.new_row(asked), tuple(wanted), files)

    def renew(self, name: str, lease_s: float) -> HotspotView:
        """Let a lease go on.

        Raises:
            CallerError: the time makes no sense.
            NotFoundError: there is no such lease, or it is over.
        """
        check_lease(lease_s)
        with self._lock:
            self._book.renew(name, lease_s)
            self.tell(Renewed(lease=name, lease_s=lease_s))
        return self._written_view(name)

    def release(self, name: str) -> HotspotView:
        """End a lease; its copies are given back soon. Not an error a second time.

        Raises:
            NotFoundError: there never was such a lease, or it is long over.
        """
        self._release(name)
        return self._written_view(name)

    def view(self, name: str) -> HotspotView:
        """Show one announcement, also one that is over.

        Raises:
            NotFoundError: it is not known.
        """
        with self._lock:
            kept = self._journal.is_kept and not self._journal.view().degraded
            moment = Moment(self._clock.now(), self._wall(), kept)
            if (over := self._book.over.get(name)) is not None:
                return ended_view(over, self._planner, moment)
            trouble = self._book.troubles.get(name, "")
            return view(self._book[name], self._planner, moment, trouble)

    def views(self) -> Hotspots:
        """Show all that hold copies, are about to, or have some to give back; without files."""
        with self._lock:
            held = [self.view(name) for name in self._book.rows]
            over = [self.view(name) for name in self._book.over]
        shown = (*held, *(one for one in over if one.state == "lowering"))
        newest = sorted(shown, key=lambda one: -one.announced_at)
        return Hotspots(hotspots=tuple(msgspec.structs.replace(one, files=()) for one in newest))

    def is_idle(self) -> bool:
        """Return whether nothing is held, and nothing of what was is still unsure."""
        with self._lock:
            return not self._book.rows and not self._planner.files

    # Time and end

    def tick(self) -> None:
        """Let time pass: leases end, and keepers that failed are replaced."""
        with self._lock:
            self.tell(Tick())
            unplanned = [row for name, row in self._book.rows.items() if self._is_unread(name)]
            for row in unplanned:
                if self._book.left_s(row) <= 0:
                    self._book.end(row.id, "gone", "its time was over before it was read")
            for store in self._planner.stores():
                self._keeper(store)

    def close(self) -> None:
        """Let go of stores. Without a journal nobody could later: all is given back first."""
        if not self._journal.is_kept:
            self.give_back()
        self._ending.set()
        with self._lock:
            keepers = list(self._keepers.values())
        for keeper in keepers:
            keeper.end()

    def give_back(self, timeout_s: float = GIVE_BACK_S) -> bool:
        """End all leases, and wait until files have their own numbers of copies.

        Returns:
            Whether all have.
        """
        with self._lock:
            for name in list(self._book.rows):
                self._release(name)
        until = self._clock.now() + timeout_s
        while (raised := self._is_raised()) and self._clock.now() < until:
            self.tick()
            time.sleep(0.05)
        return not raised

    def _is_raised(self) -> bool:
        with self._lock:
            return any(not one.has_own for one in self._planner.files.values())

    # The desk of keepers

    def tell(self, event: Event) -> None:
        """Take an event, and see to what follows from it."""
        with self._lock:
            for action in self._planner.handle(event, self._clock.now()):
                self._carry_out(action)

    def to_look_at(self, store: str) -> list[HotFile]:
        """Return the files that are to be looked at, in order."""
        with self._lock:
            return self._planner.to_look_at(store)

    def is_settled(self, store: str) -> bool:
        """Return whether all copies that are wanted are there."""
        with self._lock:
            return self._planner.is_settled(store)

    def unwritten(self) -> str:
        """Wait until all records are written; return why they are not."""
        if not self._journal.is_kept or self._journal.sync(WRITE_S):
            return ""
        why = self._journal.view().degraded or "it is busy"
        return f"the journal cannot be written ({why}), and nothing is raised without a record"

    def retire(self, keeper: StoreKeeper) -> bool:
        """Let a keeper go that has nothing to do; False: it has."""
        with self._lock:
            if keeper.orders or keeper.store in self._planner.stores():
                return False
            if self._keepers.get(keeper.store) is keeper:
                del self._keepers[keeper.store]
            return True

    # Inside

    def _go_on(self) -> None:
        """Go on with what the journal has."""
        with self._lock:
            self.tell(self._book.restored())
            for row in list(self._book.rows.values()):
                if row.wanted is None:
                    self._begin_reading(row)
            self.tick()

    def _release(self, name: str) -> None:
        with self._lock:
            if name not in self._book.over:
                self._book.end(self._book[name].id, "gone", "released")
                self.tell(Released(lease=name))

    def _written_view(self, name: str) -> HotspotView:
        """Show an announcement once what was answered would survive this process."""
        self._journal.sync(ANSWER_S)
        return self.view(name)

    def _carry_out(self, action: Action) -> None:
        match action:
            case KeepFile():
                self._book.keep_file(action.kept)
            case ForgetFile():
                self._book.forget_file(action.file)
                log.info("%s: %s", action.file.path, action.reason)
            case SetCopies():
                log.info("%s: %d copies are asked for", action.file.path, action.copies)
                self._keeper(action.file.store).order(action)
            case Planned():
                files = self._planner.leases[action.lease].files
                self._book.plan(action.lease, files, action.wanted)
            case Ended():
                self._book.end(action.lease, "gone", action.reason)

    def _keeper(self, store: str) -> StoreKeeper:
        """Return a store's keeper, a new one if there is none that works."""
        keeper = self._keepers.get(store)
        if keeper is None or not keeper.is_alive:
            keeper = self._keepers[store] = StoreKeeper(store, self, self._open)
        return keeper

    def _original(self, file: StoredFile) -> int | None:
        with self._lock:
            raised = self._planner.files.get(file)
            return None if raised is None else raised.original

    def _is_unread(self, name: str) -> bool:
        return name not in self._planner.leases

    # Reading what was announced

    def _begin_reading(self, row: LeaseRow) -> None:
        name = f"hotspot {row.id}"
        threading.Thread(target=self._take_in, args=(row,), name=name, daemon=True).start()

    def _take_in(self, row: LeaseRow) -> None:
        """Read what was announced, and let the planner know; while the store is away, again."""
        backoff = Backoff(first_s=FIRST_RETRY_S, longest_s=LONGEST_RETRY_S)
        while self._is_wanted(row):
            try:
                with self._readings:
                    files = self._read(row.asked)
            except RemoteError as error:
                self._book.note(row.id, str(error))
                self._ending.wait(backoff.failed())
                continue
            except HeadraceError as error:
                self._fail(row, str(error))
                return
            except BaseException:
                self._fail(row, "the controller failed while it read the checkpoint")
                raise
            with self._lock:
                if self._is_wanted(row):
                    self._announce(self._book[row.id], files)
            return

    def _is_wanted(self, row: LeaseRow) -> bool:
        return not self._ending.is_set() and row.id in self._book.rows

    def _fail(self, row: LeaseRow, reason: str) -> None:
        log.info("hotspot %s of %s: %s", row.id, row.asked.url, reason)
        with self._lock:
            self._book.end(row.id, "failed", reason)

    def _announce(self, row: LeaseRow, files: tuple[HotFile, ...]) -> None:
        self.tell(
            Announced(
                lease=row.id,
                files=files,
                eta_s=self._book.eta_s(row),
                lease_s=self._book.left_s(row),
            )
        )
        for store in sorted({one.file.store for one in files}):
            self._keeper(store).wake()
