"""When each sample is read next, by any job of this agent: exact, from the jobs' schedules.

A permutation can be inverted, so the next visit of a sample is computed and not looked for,
however far ahead it is. One computation costs a millisecond whatever the number of samples, so
it is made for all of a step's samples at once.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.agent.jobs import ServedJob, ServedSource
from headrace.core.job import SourceSpec
from headrace.policy.nextuse import Use
from headrace.schedule.schedule import Schedule

STEPS_KEPT = 256
"""Most steps whose samples' next uses are remembered: more than tasks are started for at once."""

Ids = npt.NDArray[np.int64]


class Key(NamedTuple):
    """One sample of one dataset."""

    dataset: int
    row: int


Uses: TypeAlias = dict[Key, list[Use]]
"""Each sample's next use by every job that has one, the soonest first."""


class Progress(Protocol):
    """How far jobs are, and when they will be further."""

    def over(self, job: str) -> int:
        """Return the last step that a job will not read for again."""
        ...

    def due_at(self, job: str, step: int) -> float:
        """Return when a job's step is expected [s]; infinite if the job is gone or may be."""
        ...


@dataclass(frozen=True, slots=True)
class _Reader:
    """One job's way through one dataset."""

    job: str
    schedule: Schedule
    start: int
    """Sample id of the dataset's first row."""


class Timetable:
    """The jobs of an agent and what they read. Not thread-safe.

    Jobs read ahead of what they are asked for, so how far one is does not tell which samples it
    has read: that is noted.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._jobs: dict[str, ServedJob] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._readers: dict[int, list[_Reader]] = {}
        self._known: OrderedDict[tuple[str, int], Uses] = OrderedDict()
        self._read: dict[str, dict[Key, int]] = {}

    def add(self, name: str, job: ServedJob) -> None:
        """Take in a job, or that it changed."""
        self.remove(name)
        self._jobs[name] = job
        for source, dataset in enumerate(self._datasets_of(job)):
            start = job.open.source_range(source).start
            reader = _Reader(name, job.open.schedule, start)
            self._readers.setdefault(dataset, []).append(reader)

    def remove(self, name: str) -> None:
        """Forget a job."""
        self._jobs.pop(name, None)
        self._read.pop(name, None)
        self._known.clear()
        for dataset, readers in list(self._readers.items()):
            self._readers[dataset] = [reader for reader in readers if reader.job != name]
            if not self._readers[dataset]:
                del self._readers[dataset]

    def knows(self, name: str) -> bool:
        """Return whether a job was taken in and not forgotten."""
        return name in self._jobs

    def dataset(self, spec: SourceSpec, source: ServedSource) -> int:
        """Return the number of the dataset that a source reads: where it is, and its index."""
        name = source.place.url, spec.index_digest
        return self._numbers.setdefault(name, len(self._numbers))

    def note_read(self, use: Use, key: Key) -> None:
        """Note that a job reads a sample for a step now: that is no next use any more."""
        read = self._read.setdefault(use.job, {})
        read[key] = max(use.step, read.get(key, use.step))

    def forget_reads(self) -> None:
        """Forget reads for steps that are over anyway; to be called every few seconds."""
        for name, read in self._read.items():
            over = self._progress.over(name)
            self._read[name] = {key: step for key, step in read.items() if step > over}

    def is_over(self, use: Use, key: Key) -> bool:
        """Return whether a job has read a sample for a step, or will not any more."""
        over = use.step <= self._progress.over(use.job)
        return over or use.step <= self._read.get(use.job, {}).get(key, -1)

    def after(self, name: str, step: int, key: Key) -> Use | None:
        """Return who reads a sample next after a job has read it for a step; None: nobody.

        Visits that lie close together may be read in another order than that of their steps.

        Raises:
            KeyError: the job is not known.
        """
        known = self._known.get((name, step))
        if known is None:
            known = self._foresee(name, step)
        if key not in known:
            known |= self._uses(name, key.dataset, np.array([key.row]), step)
        uses = (use for use in known[key] if not self.is_over(use, key))
        return next(uses, None) or self.next_of(key.dataset, [key.row])[0]

    def next_of(self, dataset: int, rows: Sequence[int]) -> list[Use | None]:
        """Return who reads each row of a dataset next, as far as the jobs are now."""
        ids = np.array(rows, dtype=np.int64)
        found = [
            (reader, self._next_steps(reader, dataset, ids, self._progress.over(reader.job)))
            for reader in self._awaited(dataset)
        ]
        return [uses[0] if uses else None for uses in self._by_time(found, len(rows))]

    def _datasets_of(self, job: ServedJob) -> list[int]:
        pairs = zip(job.open.spec.sources, job.sources, strict=True)
        return [self.dataset(spec, source) for spec, source in pairs]

    def _foresee(self, name: str, step: int) -> Uses:
        """Remember the next uses of all samples of a step that fall to this agent."""
        self._forget_steps()
        job = self._jobs[name]
        ids = np.array([visit.sample for visit in job.plan.due(step)], dtype=np.int64)
        known = self._known[name, step] = {}
        for source, dataset in enumerate(self._datasets_of(job)):
            span = job.open.source_range(source)
            rows = ids[(ids >= span.start) & (ids < span.stop)] - span.start
            if rows.size:
                known |= self._uses(name, dataset, rows, step)
        return known

    def _forget_steps(self) -> None:
        """Forget next uses of steps that are over: 450 B a sample."""
        for name, step in list(self._known):
            if step <= self._progress.over(name):
                del self._known[name, step]
        if len(self._known) >= STEPS_KEPT:
            self._known.popitem(last=False)

    def _uses(self, name: str, dataset: int, rows: Ids, step: int) -> Uses:
        found = []
        for reader in self._awaited(dataset):
            after = step if reader.job == name else self._progress.over(reader.job)
            found.append((reader, self._next_steps(reader, dataset, rows, after)))
        keys = [Key(dataset, row) for row in rows.tolist()]
        return dict(zip(keys, self._by_time(found, rows.size), strict=True))

    def _awaited(self, dataset: int) -> Iterator[_Reader]:
        """Iterate over those who are expected to read on: a job that was killed says nothing."""
        for reader in self._readers.get(dataset, ()):
            following = self._progress.over(reader.job) + 1
            if self._progress.due_at(reader.job, following) < math.inf:
                yield reader

    def _next_steps(self, reader: _Reader, dataset: int, rows: Ids, after: int) -> Ids:
        """Return the next step that a job reads each row for and has not read it yet; -1: none."""
        ids = rows + reader.start
        steps = reader.schedule.next_use(ids, after)
        read = self._read.get(reader.job)
        if read:
            lasts = np.array([read.get(Key(dataset, row), -1) for row in rows.tolist()])
            ahead = (steps >= 0) & (steps <= lasts)
            for last in np.unique(lasts[ahead]).tolist():
                chosen = np.flatnonzero(ahead & (lasts == last))
                steps[chosen] = reader.schedule.next_use(ids[chosen], last)
        return steps

    def _by_time(self, found: Sequence[tuple[_Reader, Ids]], count: int) -> list[list[Use]]:
        """Return several readers' uses of each sample, the soonest first."""
        timed: list[list[tuple[float, Use]]] = [[] for _ in range(count)]
        for reader, steps in found:
            for place, step in enumerate(steps.tolist()):
                at = self._progress.due_at(reader.job, step) if step >= 0 else math.inf
                if at < math.inf:
                    timed[place].append((at, Use(reader.job, step)))
        return [[use for _, use in sorted(uses)] for uses in timed]
