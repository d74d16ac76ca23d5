"""Stores that several jobs read through one object each: connections are dear, and kept apart."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from headrace.agent.roots import Located, open_located
from headrace.agent.threads import DaemonThreads
from headrace.core.errors import HeadraceError
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage

log = logging.getLogger("headrace.agent.storages")

MOST_OPEN = 16
"""Stores that are kept open although nobody uses them at the moment."""


class SharedStorages:
    """Opens each place once, however many use it, and closes it after the last. Thread-safe."""

    def __init__(self, open_place: Callable[[Located], Storage] = open_located) -> None:
        self._open_place = open_place
        self._lock = threading.Lock()
        self._open: dict[Located, Storage] = {}
        self._users: dict[Located, int] = {}

    def take(self, place: Located) -> Storage:
        """Return the storage of a place, to be given back; blocks while it is opened.

        Raises:
            HeadraceError: it cannot be opened; there is nothing to give back then.
        """
        with self._lock:
            if place in self._open:
                self._users[place] += 1
                return self._open[place]
        fresh = self._open_place(place)  # may wait for a store: nobody else is held up
        with self._lock:
            storage = self._open.setdefault(place, fresh)
            self._users[place] = self._users.get(place, 0) + 1
        if storage is not fresh:
            fresh.close()
        return storage

    def give_back(self, place: Located) -> None:
        """Do without what one ``take`` returned; nothing happens once all are closed."""
        with self._lock:
            if place not in self._open:
                return
            self._users[place] -= 1
            if self._users[place]:
                return
            del self._users[place]
            storage = self._open.pop(place)
        storage.close()

    def close(self) -> None:
        """Close what is still open; nothing is taken afterwards."""
        with self._lock:
            left, self._open, self._users = list(self._open.values()), {}, {}
        for storage in left:
            storage.close()


class OpenStores:
    """Stores of places, the last used ones kept open. Thread-safe; opening one may block."""

    def __init__(self, open_place: Callable[[Located], Storage] = open_located) -> None:
        self._shared = SharedStorages(open_place)
        self._lock = threading.Lock()
        self._recent: OrderedDict[Located, None] = OrderedDict()

    @contextmanager
    def opened(self, place: Located) -> Iterator[Storage]:
        """Open a place for a moment.

        Raises:
            HeadraceError: it cannot be opened.
        """
        storage = self._shared.take(place)
        try:
            self._keep(place)
            yield storage
        finally:
            self._shared.give_back(place)

    def close(self) -> None:
        """Close all."""
        self._shared.close()

    def _keep(self, place: Located) -> None:
        with self._lock:
            is_new, old = place not in self._recent, None
            self._recent[place] = None
            self._recent.move_to_end(place)
            if len(self._recent) > MOST_OPEN:
                old, _ = self._recent.popitem(last=False)
        if is_new:
            self._shared.take(place)
        if old is not None:
            self._shared.give_back(old)


async def warn_of_unreachable(urls: Sequence[str], threads: DaemonThreads) -> None:
    """Log which stores cannot be reached now: they may be started later than the agent."""
    for url in urls:
        try:
            (await threads.run(partial(open_storage, url))).close()
        except HeadraceError as error:
            log.warning("%s cannot be served for now, jobs are asked to try again: %s", url, error)
