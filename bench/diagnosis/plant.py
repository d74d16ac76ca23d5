"""What all ranks share: metadata server, disks with a page cache, links, and their hosts' cores."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from bench.diagnosis.engine import Pool, Process, Server
from bench.diagnosis.setting import Setting, Spell

MEMORY_BYTES_PER_S = 4e9
"""At which a page cache answers."""

SCAN_S = 0.5
"""A scan enters the page cache in steps of so long."""

_DRAWS = 4096


class Read(NamedTuple):
    """One request."""

    end_s: float
    queued_s: float


class Plant:
    """The hardware; its generators are parts of processes."""

    def __init__(self, setting: Setting, rng: np.random.Generator) -> None:
        self._setting = setting
        self._disks = [Server(setting.on_disks) for _ in range(setting.disks)]
        self._link = Server(setting.on_link)
        self._metadata = Server()
        self._cores = [Pool(setting.cores, setting.on_cores) for _ in range(setting.hosts)]
        self._cache: OrderedDict[int, None] = OrderedDict()
        self._first_left = setting.first_bytes
        trips = setting.round_trip_s * rng.lognormal(0.0, setting.jitter, _DRAWS)
        self._trips = _endless(trips.tolist())

    def warm(self, places: Iterable[int]) -> None:
        """Have read all of these before."""
        for place in places:
            self.is_cached(place)

    def look_up(self, now: float) -> Generator[float | None, float, float]:
        """Ask the metadata server once; return when the answer is there."""
        trip = next(self._trips)
        now = yield now + trip / 2
        served, _ = self._metadata.serve(now, self._setting.lookup_s)
        return (yield served + trip / 2)

    def read(
        self, now: float, host: int, place: int, nbytes: float, *, cached: bool = False
    ) -> Generator[float | None, float, Read]:
        """Read some bytes of a file."""
        setting, trip = self._setting, next(self._trips) * self._freshness(nbytes)
        now = yield now + trip / 2
        queued = 0.0
        if cached:
            now += nbytes / MEMORY_BYTES_PER_S
        else:
            service = setting.seek_s + nbytes / setting.disk_bytes_per_s
            served, queued = self._disks[place % setting.disks].serve(now, service)
            now = yield served
        served, waited = self._link.serve(now, nbytes / setting.link_bytes_per_s)
        slower = setting.slow_link if host == setting.hosts - 1 else 1.0
        late = (slower - 1.0) * (trip + nbytes / setting.disk_bytes_per_s)
        now = yield served + trip / 2 + late
        return Read(now, queued + waited)

    def write(self, now: float, place: int, nbytes: float) -> Generator[float | None, float, float]:
        """Write some bytes of a file."""
        served, _ = self._link.serve(now, nbytes / self._setting.link_bytes_per_s)
        now = yield served
        disk = self._disks[place % self._setting.disks]
        served, _ = disk.serve(now, nbytes / self._setting.disk_bytes_per_s)
        return (yield served + next(self._trips))

    def transform(self, now: float, host: int, work_s: float) -> float:
        """Return when a sample that needs so much of a core is done."""
        slower = self._setting.slow_host if host == self._setting.hosts - 1 else 1.0
        return self._cores[host].serve(now, work_s * slower)

    def scan(self, spell: Spell) -> Process:
        """Read others' files through the page cache, of which a part stays."""
        now = yield 0.0
        while now < spell.end_s:
            keep = int(self._setting.cache_samples * spell.left)
            while len(self._cache) > keep:
                self._cache.popitem(last=False)
            now = yield now + SCAN_S

    def is_cached(self, place: int) -> bool:
        """Tell whether the page cache holds a sample; it does from now on."""
        cached = place in self._cache
        self._cache[place] = None
        self._cache.move_to_end(place)
        if len(self._cache) > self._setting.cache_samples:
            self._cache.popitem(last=False)
        return cached

    def _freshness(self, nbytes: float) -> float:
        if self._first_left <= 0:
            return 1.0
        self._first_left -= nbytes
        return self._setting.first_reads


def _endless(values: list[float]) -> Iterator[float]:
    while True:
        yield from values
