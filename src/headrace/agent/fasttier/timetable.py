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
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.agent.jobs import ServedJob, ServedSource
from headrace.core.job import SourceSpec
from headrace.policy.nextuse import Use
from headrace.schedule.schedule import Schedule

STEPS_KEPT = 256
"""Steps whose samples' next uses are remembered: more than tasks are started for at once."""

Ids = npt.NDArray[np.int64]
Uses: TypeAlias = dict[int, Use | None]
"""Sample → its next use."""


class Progress(Protocol):
    """How far jobs are, and when they will be further."""

    def over(self, job: str) -> int:
        """Return the last step that a job will not read for again."""
        ...

    def due_at(self, job: str, step: int) -> float:
        """Return when a job's step is expected [s]; infinite for a job that is gone."""
        ...


@dataclass(frozen=True, slots=True)
class _Reader:
    """One job's way through one dataset."""

    job: str
    schedule: Schedule
    start: int
    """Sample id of the dataset's first row."""


class Timetable:
    """The jobs of an agent and what they read. Not thread-safe."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._jobs: dict[str, ServedJob] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._readers: dict[int, list[_Reader]] = {}
        self._known: OrderedDict[tuple[str, int], Uses] = OrderedDict()

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

    def after(self, name: str, step: int, sample: int) -> Use | None:
        """Return who reads a sample next after a job has read it for a step; None: nobody.

        Raises:
            KeyError: the job is not known.
        """
        known = self._known.get((name, step))
        if known is None:
            known = self._foresee(name, step)
        if sample not in known:
            known.update(self._uses(name, np.array([sample]), step))
        return known[sample]

    def next_of(self, dataset: int, rows: Sequence[int]) -> list[Use | None]:
        """Return who reads each row of a dataset next, as far as the jobs are now."""
        ids = np.array(rows, dtype=np.int64)
        return self._soonest(
            [(r, r.schedule.next_use(ids + r.start, self._progress.over(r.job)))
             for r in self._readers.get(dataset, ())],
            len(rows),
        )  # fmt: skip

    def _datasets_of(self, job: ServedJob) -> list[int]:
        pairs = zip(job.open.spec.sources, job.sources, strict=True)
        return [self.dataset(spec, source) for spec, source in pairs]

    def _foresee(self, name: str, step: int) -> Uses:
        """Remember the next uses of all samples of a step that fall to this agent."""
        planned = self._jobs[name].plan.due(step)
        ids = np.array([visit.sample for visit in planned], dtype=np.int64)
        known = self._known[name, step] = self._uses(name, ids, step)
        if len(self._known) > STEPS_KEPT:
            self._known.popitem(last=False)
        return known

    def _uses(self, name: str, ids: Ids, step: int) -> Uses:
        job = self._jobs[name]
        uses: Uses = {}
        for source, dataset in enumerate(self._datasets_of(job)):
            span = job.open.source_range(source)
            own = ids[(ids >= span.start) & (ids < span.stop)]
            if own.size:
                following = list(self._following(name, dataset, own - span.start, step))
                uses.update(zip(own.tolist(), self._soonest(following, own.size), strict=True))
        return uses

    def _following(
        self, name: str, dataset: int, rows: Ids, step: int
    ) -> Iterator[tuple[_Reader, Ids]]:
        for reader in self._readers[dataset]:
            after = step if reader.job == name else self._progress.over(reader.job)
            yield reader, reader.schedule.next_use(rows + reader.start, after)

    def _soonest(self, found: Sequence[tuple[_Reader, Ids]], count: int) -> list[Use | None]:
        """Return the earliest of several readers' uses of each sample."""
        best: list[Use | None] = [None] * count
        times = [math.inf] * count
        for reader, steps in found:
            for place, step in enumerate(steps.tolist()):
                at = self._progress.due_at(reader.job, step) if step >= 0 else math.inf
                if at < times[place]:
                    times[place], best[place] = at, Use(reader.job, step)
        return best
