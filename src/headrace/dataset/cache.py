"""What was made with effort, kept up to a number of bytes; each thing is made only once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheStatistics:
    """What a cache did since it was made."""

    hits: int
    misses: int
    entries: int
    bytes: int


class BoundedCache(Generic[T]):
    """Keeps the values used last. Thread-safe.

    Threads that ask for the same value at the same time wait for one of them to make it.
    A value larger than the whole bound is returned and not kept.
    """

    def __init__(self, bound: int, size_of: Callable[[T], int]) -> None:
        self._bound = bound
        self._size_of = size_of
        self._lock = threading.Lock()
        self._making: dict[Hashable, Future[T]] = {}
        self._kept: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._bytes = self._hits = self._misses = 0

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of ``key``; ``make`` is called if there is none. Its errors pass."""
        with self._lock:
            if key in self._kept:
                self._hits += 1
                self._kept.move_to_end(key)
                return self._kept[key][0]
            making = self._making.get(key)
            if making is None:
                self._misses += 1
                mine = self._making[key] = Future[T]()
        return making.result() if making is not None else self._make(key, make, mine)

    def statistics(self) -> CacheStatistics:
        """Return counts and the bytes kept now."""
        with self._lock:
            return CacheStatistics(
                hits=self._hits, misses=self._misses, entries=len(self._kept), bytes=self._bytes
            )

    def clear(self) -> None:
        """Forget everything that is kept."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def _make(self, key: Hashable, make: Callable[[], T], future: Future[T]) -> T:
        try:
            value = make()
        except BaseException as error:
            with self._lock:
                del self._making[key]
            future.set_exception(error)
            raise
        with self._lock:
            del self._making[key]
            self._keep(key, value)
        future.set_result(value)
        return value

    def _keep(self, key: Hashable, value: T) -> None:
        size = self._size_of(value)
        if size > self._bound:
            return
        self._kept[key] = (value, size)
        self._bytes += size
        while self._bytes > self._bound:
            _, (_, freed) = self._kept.popitem(last=False)
            self._bytes -= freed
