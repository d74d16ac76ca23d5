"""Warns of trouble that many samples share, without a line for each of them."""

from __future__ import annotations

import logging
import threading

from headrace.core.clock import Clock, SystemClock
from headrace.report.printable import printable

logger = logging.getLogger("headrace.client")

EVERY_S = 30.0
"""Least time between two warnings of one kind [s]."""


class Complaints:
    """Says the first of each kind at once, and then one in a while. Thread-safe."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._said_at: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def warn(self, kind: str, message: str) -> None:
        """Log a warning, unless one of its kind was logged a moment ago.

        Args:
            kind: What is the same about all of them.
            message: What happened this time.
        """
        now = self._clock.now()
        with self._lock:
            if now - self._said_at.get(kind, -EVERY_S) < EVERY_S:
                self._unsaid[kind] = self._unsaid.get(kind, 0) + 1
                return
            self._said_at[kind] = now
            others = self._unsaid.pop(kind, 0)
        logger.warning("%s%s", printable(message), f" (and {others} more before)" if others else "")
