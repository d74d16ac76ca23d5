"""What a journal does not hold yet: the newest of each key. Thread-safe, no I/O.

It stays within twice what is known at once, however long the journal cannot be written: of a row
that came and went meanwhile nothing is left.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Literal

Table = Literal["host", "agent", "quota", "entry", "decision", "lease", "replication", "transfer"]
Key = tuple[Table, str]

Changes = Mapping[Key, bytes | None]
"""Key → the row, encoded; None: it is to be deleted."""


class Unwritten:
    """Changes on their way to a journal.

    Args:
        stored: Keys of the rows that it holds.
    """

    def __init__(self, stored: Iterable[Key] = ()) -> None:
        self._lock = threading.Lock()
        self._stored = set(stored)
        self._changes: dict[Key, bytes | None] = {}
        self._under_way: dict[Key, bytes | None] = {}
        self._changed = self._taken = self._written = 0

    def __len__(self) -> int:
        """Return how many changes are neither written nor being written."""
        with self._lock:
            return len(self._changes)

    @property
    def changed(self) -> int:
        """How many changes there were up to now, those that are written included."""
        with self._lock:
            return self._changed

    def holds(self, changed: int) -> bool:
        """Return whether so many changes, the first ones, are all written."""
        with self._lock:
            return self._written >= changed

    def put(self, key: Key, row: bytes) -> None:
        """Add a row, or replace it."""
        with self._lock:
            self._changed += 1
            self._changes[key] = row

    def drop(self, key: Key) -> None:
        """Delete a row."""
        with self._lock:
            self._changed += 1
            if key in self._stored or key in self._under_way:
                self._changes[key] = None
            else:
                self._changes.pop(key, None)

    def take(self) -> Changes:
        """Return what is to be written now; ``written`` or ``failed`` must follow."""
        with self._lock:
            self._taken = self._changed
            self._under_way, self._changes = self._changes, {}
            return self._under_way

    def written(self) -> None:
        """What was taken is in the journal."""
        with self._lock:
            self._written = self._taken
            for key, row in self._under_way.items():
                if row is None:
                    self._stored.discard(key)
                else:
                    self._stored.add(key)
            self._under_way = {}

    def failed(self) -> None:
        """What was taken is not in the journal: it is to be written with what came since."""
        with self._lock:
            merged = self._under_way | self._changes
            self._changes = {
                key: row for key, row in merged.items() if row is not None or key in self._stored
            }
            self._under_way = {}
