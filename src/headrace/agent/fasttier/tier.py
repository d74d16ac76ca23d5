"""Decides which encoded samples are kept on the fast tier, and knows where they lie.

What is read from where a dataset lies passes by here: it is kept if it is needed again before
something that would have to go for it. All state is in memory; of the file's bytes nothing
outlives the agent. Memory and a fast disk make one cache: memory is filled first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.agent.arena import Extent
from headrace.agent.fasttier.file import FastFile, FastFiles
from headrace.agent.fasttier.records import OVERHEAD_BYTES, Kept, Stored
from headrace.agent.fasttier.space import Spaces, rounded
from headrace.agent.fasttier.statistics import FastTierStatistics
from headrace.agent.fasttier.through import Errand, Passage
from headrace.agent.fasttier.timetable import Key, Progress, Timetable
from headrace.agent.jobs import ServedJob
from headrace.agent.tiers import CACHE_TIER, MEMORY_TIER
from headrace.core.media import TierName
from headrace.policy.lookahead_events import Visit
from headrace.policy.nextuse import NextUseCache, Use
from headrace.prepare.job import Place

log = logging.getLogger("headrace.agent.fasttier")

LARGEST_SHARE = 8
"""A sample that takes more than one part in so many of the fast tier is not kept."""

LARGEST_BYTES = 256 << 20
"""Nor is one that is larger than this: it is read as a whole to be kept [bytes]."""

MOST_PIECES = 3
"""Samples may lie in so many pieces on average."""

LOOSE_SHARE = 16
"""Where they lie in more, one part in so many stays free: holes grow together then. In a full space
each sample takes the holes of several: after 60,000 nearly each block was a piece of its own."""

LOOKED_AT = 2000
"""Samples of which it is looked, at each tidying, whether their next use was passed over."""


@dataclass(slots=True)
class Record:
    """Where a sample lies, or is being written to."""

    extents: tuple[Extent, ...]
    version: str
    """Of the file that the sample is part of."""

    stored: Stored | None = None
    """None while it is written."""

    users: int = 0
    """Reads and writes going on: the extents are not given to others before they end."""

    gone: bool = False
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it was written, or will not be."""


@dataclass(frozen=True, slots=True)
class Trip:
    """One read that passes by the fast tier."""

    errand: Errand
    key: Key
    record: Record | None
    then: Use | None
    """When the sample is read next after this."""

    nbytes: int
    """Encoded size of the sample [bytes]."""


class FastTier:
    """Which samples are kept, and where. Used from the event loop's thread only.

    Args:
        progress: How far the jobs are.
        memory: The part in memory; None: there is none.
        disk: The part on a disk; None: there is none.
        disk_tier: Tier of that disk.
    """

    def __init__(
        self,
        progress: Progress,
        *,
        memory: FastFile | None = None,
        disk: FastFile | None = None,
        disk_tier: TierName = CACHE_TIER,
    ) -> None:
        self.timetable = Timetable(progress)
        self.off = ""
        """Why it is not used any more; empty while it is."""

        self.files = FastFiles(
            memory_fd=memory.fd if memory else -1,
            memory_bytes=memory.nbytes if memory else 0,
            disk_fd=disk.fd if disk else -1,
        )
        """Where what is kept is read and written."""

        self._disk_tier = disk_tier
        self._space = Spaces([file.nbytes if file else 0 for file in (memory, disk)])
        self._cache: NextUseCache[Key] = NextUseCache(
            self._space.nbytes, lambda use: progress.due_at(*use)
        )
        self._records: dict[Key, Record] = {}
        self._largest = min(self._space.nbytes // LARGEST_SHARE, LARGEST_BYTES)
        self._counts = dict.fromkeys(_COUNTS, 0)

    @property
    def budget(self) -> int:
        """Most bytes that are kept [bytes]."""
        return self._space.nbytes

    def key(self, job: ServedJob, source: int, sample: int) -> Key:
        """Return what names one of a job's samples here."""
        row = sample - job.open.source_range(source).start
        return Key(self.timetable.dataset(job.open.spec.sources[source], job.sources[source]), row)

    def next_of(self, job: ServedJob, source: int, rows: Sequence[int]) -> list[Use | None]:
        """Return when any job reads each row of one of a job's sources next."""
        dataset = self.timetable.dataset(job.open.spec.sources[source], job.sources[source])
        return self.timetable.next_of(dataset, rows)

    def tier_of(self, dataset: int, row: int) -> TierName | None:
        """Return where a sample would be read from the fast tier now; None: it would not."""
        record = self._records.get(Key(dataset, row))
        if record is None or record.stored is None:
            return None
        return self.tier_at(record.extents)

    def arriving(self, key: Key) -> asyncio.Event | None:
        """Return what is set once a copy that is being written is there; None: there is none."""
        record = self._records.get(key)
        return record.settled if record is not None and record.stored is None else None

    def tier_at(self, extents: Sequence[Extent]) -> TierName:
        """Return the tier of what is kept; on disk also where only a part is."""
        memory = all(self.files.is_memory(extent) for extent in extents)
        return MEMORY_TIER if memory else self._disk_tier

    def begin(self, name: str, job: ServedJob, visit: Visit, place: Place) -> Trip | None:
        """Return what a read has to do with the fast tier, to be ended; None: nothing."""
        if self.off or not self.timetable.knows(name):
            return None
        key = self.key(job, place.source, visit.sample)
        record = self._records.get(key)
        if record is not None and record.version != place.location.file_version:
            self._drop(key)  # the dataset was indexed anew
            record = None
        self.timetable.note_read(Use(name, visit.step), key)
        then = self.timetable.after(name, visit.step, key)
        length = place.location.length
        if record is None:
            record = self.admit(key, length, then, place.location.file_version)
            slot = () if record is None else record.extents
            return Trip(Errand(slot=slot), key, record, then, length)
        if record.stored is None:
            return Trip(Errand(), key, None, then, length)
        record.users += 1
        kept = Kept(
            extents=record.extents, nbytes=record.stored.nbytes, digest=record.stored.digest
        )
        return Trip(Errand(kept=kept), key, record, then, length)

    def end(self, trip: Trip, passage: Passage | None) -> None:
        """Take in what became of a read; None: it failed, or its worker did."""
        if passage is not None and passage.trouble:
            self._switch_off(passage.trouble)
        if passage is not None:
            self._count_read(trip, passage)
        if trip.record is None or self.off:
            return
        if trip.errand.kept is None:
            self.settle(trip.key, trip.record, passage.stored if passage else None)
        else:
            self._end_read(trip, trip.record, passage)

    def admit(self, key: Key, length: int, use: Use | None, version: str) -> Record | None:
        """Return where a sample of so many bytes is to be kept, to be settled; None: nowhere."""
        nbytes = rounded(length + OVERHEAD_BYTES)
        if use is None or nbytes > self._largest or key in self._records:
            return None
        self._cache.budget = self._room()
        victims = self._cache.offer(key, nbytes, use)
        if victims is None:
            self._counts["declined"] += 1
            return None
        self._counts["evicted"] += len(victims)
        for victim in victims:
            self._let_go(victim)
        try:
            extents = self._space.reserve(nbytes)
        except MemoryError:  # what went is still being read
            self._cache.remove(key)
            return None
        record = self._records[key] = Record(extents, version, users=1)
        return record

    def _room(self) -> int:
        """Return most bytes to keep, so that samples lie in few pieces."""
        nbytes = self._space.nbytes
        is_loose = self._space.pieces > MOST_PIECES * len(self._records)
        return nbytes - nbytes // LOOSE_SHARE if is_loose else nbytes

    def settle(self, key: Key, record: Record, stored: Stored | None) -> None:
        """Take in that a record was written, or that it was not."""
        if self.off:
            return
        record.users -= 1
        if stored is None and not record.gone:
            self._drop(key)
        elif record.gone:
            self._free_unused(record)
        else:
            record.stored = stored
            record.settled.set()
            self._count("stored", stored.nbytes if stored else 0)

    def count_run(self, nbytes: int, passages: Sequence[Passage] | None) -> None:
        """Count a long read and what was copied from it; None: it failed."""
        if passages is None:
            self._counts["runs_failed"] += 1
            return
        self._counts["runs"] += 1
        self._counts["run_bytes"] += nbytes
        self._counts["run_samples"] += sum(passage.stored is not None for passage in passages)
        trouble = next((passage.trouble for passage in passages if passage.trouble), "")
        if trouble:
            self._switch_off(trouble)

    def tidy(self) -> None:
        """Look at a part of what is kept: a next use that has passed is not one any more."""
        self.timetable.forget_reads()
        passed: dict[int, list[Key]] = {}
        for key, use in self._cache.rotate(LOOKED_AT):
            if use is None or self.timetable.is_over(use, key):
                passed.setdefault(key.dataset, []).append(key)
        for dataset, keys in passed.items():
            following = self.timetable.next_of(dataset, [key.row for key in keys])
            for key, use in zip(keys, following, strict=True):
                self._cache.move(key, use)

    def forget_job(self, name: str) -> None:
        """Keep nothing for a job that is gone, but what others read as well."""
        self.timetable.remove(name)
        by_dataset: dict[int, list[Key]] = {}
        for key in self._cache.kept_for(name):
            by_dataset.setdefault(key.dataset, []).append(key)
        for dataset, keys in by_dataset.items():
            following = self.timetable.next_of(dataset, [key.row for key in keys])
            for key, use in zip(keys, following, strict=True):
                self._cache.move(key, use)

    def statistics(self) -> FastTierStatistics:
        """Return what is kept and what was done since the start."""
        return FastTierStatistics(
            off=self.off,
            budget_bytes=self._space.nbytes,
            used_bytes=self._space.nbytes - self._space.free_bytes,
            memory_budget_bytes=self.files.memory_bytes,
            memory_used_bytes=self._space.used_bytes(0),
            samples=len(self._records),
            **self._counts,
        )

    def _end_read(self, trip: Trip, record: Record, passage: Passage | None) -> None:
        record.users -= 1
        if record.gone:
            self._free_unused(record)
        elif passage is None or not passage.hit:
            self._counts["corrupt"] += passage is not None
            self._drop(trip.key)
        elif trip.then is None:
            self._drop(trip.key)
        else:
            self._cache.move(trip.key, trip.then)

    def _drop(self, key: Key) -> None:
        self._cache.remove(key)
        self._let_go(key)

    def _let_go(self, key: Key) -> None:
        record = self._records.pop(key)
        record.gone = True
        record.settled.set()
        self._free_unused(record)

    def _free_unused(self, record: Record) -> None:
        if not record.users:
            self._space.free(record.extents)

    def _count_read(self, trip: Trip, passage: Passage) -> None:
        self._count("hits" if passage.hit else "misses", trip.nbytes)
        kept = trip.errand.kept
        if passage.hit and kept is not None and self.tier_at(kept.extents) == MEMORY_TIER:
            self._count("memory_hits", trip.nbytes)

    def _count(self, what: str, nbytes: int) -> None:
        self._counts[what] += 1
        self._counts[f"{_ONE[what]}_bytes"] += nbytes

    def _switch_off(self, why: str) -> None:
        """Do without the fast tier from now on; what is being read ends as it may."""
        if not self.off:
            log.warning(
                "the fast tier is not used any more, samples are read from where they lie: %s", why
            )
        self.off = why
        for key in list(self._records):
            self._drop(key)


_ONE = {"hits": "hit", "memory_hits": "memory_hit", "misses": "miss", "stored": "stored"}
_COUNTS = (
    "hits",
    "misses",
    "hit_bytes",
    "memory_hits",
    "memory_hit_bytes",
    "miss_bytes",
    "stored",
    "stored_bytes",
    "declined",
    "evicted",
    "corrupt",
    "runs",
    "run_bytes",
    "run_samples",
    "runs_failed",
)
