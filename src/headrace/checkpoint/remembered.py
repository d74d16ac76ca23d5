"""What was learned of files, for those who look at the same ones again and again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from headrace.storage.port import FileInfo, Storage

T = TypeVar("T")


class Remembered(Generic[T]):
    """Facts about versions of files; the ones that were used last are kept. Thread-safe.

    Args:
        most: How many.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._facts: OrderedDict[tuple[str, str, int, str], T] = OrderedDict()

    def of(self, storage: Storage, file: FileInfo, learn: Callable[[], T]) -> T:
        """Return what is known of a file; it is learned if this very version is not known yet.

        Args:
            storage: Where it is.
            file: The file, its path relative to the storage's root.
            learn: Returns what is to be known; what it raises is not remembered.
        """
        key = (storage.url, file.path, file.size, file.version)
        with self._lock:
            if key in self._facts:
                self._facts.move_to_end(key)
                return self._facts[key]
        fact = learn()
        with self._lock:
            self._facts[key] = fact
            while len(self._facts) > self._most:
                self._facts.popitem(last=False)
        return fact
