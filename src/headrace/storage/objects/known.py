"""What the last answers of a store said of its objects, believed for a while.

Every answer to a read describes the object that its bytes are of, so whoever compares it with
what was indexed need not ask once more.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from headrace.storage.port import FileInfo

REMEMBERED = 16_384
"""Objects that are known, the last ones."""


class Known:
    """Descriptions of objects by path. Thread-safe."""

    def __init__(self, believed_s: float, now: Callable[[], float] = time.monotonic) -> None:
        """Believe what was said for so long [s]."""
        self._believed_s = believed_s
        self._now = now
        self._lock = threading.Lock()
        self._said: OrderedDict[str, tuple[float, FileInfo]] = OrderedDict()

    def get(self, path: str) -> FileInfo | None:
        """Return what was said of an object of late; None: ask."""
        with self._lock:
            said_at, info = self._said.get(path, (0.0, None))
            return info if info is not None and self._now() - said_at < self._believed_s else None

    def note(self, info: FileInfo) -> None:
        """Keep what the store said just now."""
        with self._lock:
            self._said[info.path] = (self._now(), info)
            self._said.move_to_end(info.path)
            if len(self._said) > REMEMBERED:
                self._said.popitem(last=False)

    def forget(self, *paths: str) -> None:
        """Drop what is known of objects that were changed, or turned out different."""
        with self._lock:
            for path in paths:
                self._said.pop(path, None)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._said.clear()
