"""Watches the two roots of one replication, and the signals that lie at its source."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from headrace.controller.replicating.lock import DestinationLock
from headrace.controller.replicating.way import Way
from headrace.core.clock import Clock
from headrace.core.errors import ConfigError, HeadraceError, NotFoundError
from headrace.policy.replication.events import EvaluationStarted, Event, LinkChanged, Signalled
from headrace.wire.replication import MOST_SIGNAL_BYTES, SIGNAL_S, SIGNALS, SignalSent

log = logging.getLogger("headrace.controller.replicating")

_REST = 10.0
"""Looking takes no more than one part in this many of the time."""

_LONGEST_S = 60.0
"""Longest time between two looks, however long one takes [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchPeriods:
    """How often roots are looked at."""

    busy_s: float = 2.0
    """While something is on its way [s]."""

    idle_s: float = 5.0
    """Otherwise [s]."""

    def __post_init__(self) -> None:
        if not 0 < self.busy_s <= self.idle_s:
            raise ConfigError(
                f"watch.busy_s={self.busy_s:g} must be above 0 and at most idle_s={self.idle_s:g}"
            )


class Watch:
    """The thread that looks at both roots of a way, from ``start`` until ``stop``.

    Args:
        way: The two roots.
        tell: Takes what is seen; called by the thread.
        is_busy: Tells whether something is on its way.
        periods: How often it looks.
        clock: Monotonic time.
    """

    def __init__(
        self,
        way: Way,
        tell: Callable[[Event], None],
        is_busy: Callable[[], bool],
        periods: WatchPeriods,
        clock: Clock,
    ) -> None:
        self._way = way
        self._tell = tell
        self._is_busy = is_busy
        self._periods = periods
        self._clock = clock
        self._hurry = threading.Event()
        self._lock = DestinationLock(way.destination, way.source.url)
        self._ending = threading.Event()
        self._heard: set[str] = set()
        self._readers: frozenset[tuple[str, str]] = frozenset()
        self._is_tidy = False
        self._thread = threading.Thread(target=self._run, name="replicate-watch", daemon=True)
        self.failures = 0
        """Looks in a row that failed."""

    def take(self) -> None:
        """Take the destination.

        Raises:
            CallerError: another process copies to it.
            StorageError: it does not answer.
        """
        self._lock.hold()

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def hurry(self) -> None:
        """Look at once."""
        self._hurry.set()

    def end(self) -> None:
        """Look no more, and let others have the destination, soon."""
        self._ending.set()
        self._hurry.set()

    def stop(self, timeout_s: float) -> None:
        """Look no more, and let others have the destination; wait until it is so."""
        self.end()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            self._look_on()
        finally:
            self._lock.release()

    def _look_on(self) -> None:
        while True:
            self._hurry.clear()
            if self._ending.is_set():  # what ends this sets both, in this order
                return
            began = self._clock.now()
            try:
                self._look()
            except (HeadraceError, OSError) as error:
                self._failed(str(error))
            except Exception as error:
                log.exception("a look at %s ended with a defect of headrace's", self._way.name)
                self._failed(repr(error))
            took_s = self._clock.now() - began
            period_s = self._periods.busy_s if self._is_busy() else self._periods.idle_s
            self._hurry.wait(max(period_s, min(took_s * _REST, _LONGEST_S)))

    def _look(self) -> None:
        self._lock.hold()
        listed = self._way.look(self._clock.now())
        listed = replace(listed, pointed=self._way.point())
        self._hear()
        if self.failures:
            self.failures = 0
            log.warning("replication %s: both stores answer again", self._way.name)
            self._tell(LinkChanged(replication=self._way.name, up=True))
        if not self._is_tidy:
            listed = replace(listed, staged=self._way.tidy())
            self._is_tidy = True
        self._tell(listed)
        self._look_for_readers()

    def _failed(self, reason: str) -> None:
        if not self.failures:
            log.warning("replication %s waits: %s", self._way.name, reason)
        self.failures += 1
        self._tell(LinkChanged(replication=self._way.name, up=False, reason=reason))

    def _look_for_readers(self) -> None:
        readers = self._way.readers()
        if not readers <= self._readers:
            self._tell(EvaluationStarted(replication=self._way.name))
        self._readers = readers

    def _hear(self) -> None:
        """Look for signals that lie at the source; nobody else tells this process of them."""
        try:
            infos = [info for info in self._way.source.list(SIGNALS) if info.path.endswith(".json")]
        except NotFoundError:
            return
        new = [info for info in infos if info.path not in self._heard]
        self._heard = {info.path for info in infos}
        for info in new:
            if info.size <= MOST_SIGNAL_BYTES:
                self._hear_one(info.path)

    def _hear_one(self, path: str) -> None:
        try:
            sent = msgspec.json.decode(self._way.source.read(path), type=SignalSent)
        except (NotFoundError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.warning("%s/%s is no signal: %s", self._way.source.url, path, error)
            return
        if abs(time.time() - sent.sent_at) <= SIGNAL_S:
            self._tell(Signalled(kind=sent.kind, step=sent.step, replication=self._way.name))
