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

CHANGED_S = 600.0
"""So long an object that was seen to change is asked for every time: longer than a read may take,
so that none of the older version is still under way [s]."""


class Known:
    """Descriptions of objects by path. Thread-safe."""

    def __init__(self, believed_s: float, now: Callable[[], float] = time.monotonic) -> None:
        """Believe what was said for so long [s]."""
        self._believed_s = believed_s
        self._now = now
        self._lock = threading.Lock()
        self._said: OrderedDict[str, tuple[float, FileInfo | None]] = OrderedDict()
        """Until when it holds, and what was said; None: answers differed."""

    def get(self, path: str) -> FileInfo | None:
        """Return what was said of an object of late; None: ask."""
        with self._lock:
            until, info = self._said.get(path, (0.0, None))
            return info if self._now() < until else None

    def note(self, info: FileInfo) -> None:
        """Keep what the store said just now.

        Answers may be noted in another order than they were given. So where two differ neither is
        believed: the older would vouch for bytes of the newer.
        """
        with self._lock:
            now = self._now()
            until, known = self._said.get(info.path, (0.0, None))
            if now >= until or known == info:
                self._keep(info.path, (now + self._believed_s, info))
            elif known is not None:
                self._keep(info.path, (now + CHANGED_S, None))

    def forget(self, *paths: str) -> None:
        """Drop what is known of objects that were changed, or turned out different."""
        with self._lock:
            for path in paths:
                self._said.pop(path, None)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._said.clear()

    def _keep(self, path: str, said: tuple[float, FileInfo | None]) -> None:
        self._said[path] = said
        self._said.move_to_end(path)
        if len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
