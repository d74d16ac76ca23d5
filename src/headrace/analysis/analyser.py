"""Turns a trace into figures, batch by batch; memory does not grow with the trace."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from headrace.analysis.columns import Columns
from headrace.analysis.figures import NO_JOB, Analysis, Finding, JobFigures
from headrace.analysis.job import JobSums
from headrace.analysis.timekeeping import MOST_STRETCHES
from headrace.analysis.warmup import WarmUp
from headrace.core.errors import CallerError, CorruptDataError
from headrace.trace.importer import Notes

MOST_JOBS = 1_000
"""Jobs that are told apart; further ones are not analysed, and that is said."""

_NEEDS = {
    "ranks": "no event names its rank",
    "hosts": "no event names its host",
    "steps": "no event is a step",
    "loading": "no event is the loading of a batch or a sample",
    "requests": "no event is a request to storage",
    "checkpoint_read": "no event is the reading of a checkpoint",
    "checkpoint_save": "no event is the saving of a checkpoint",
    "accelerators": "no event tells when ranks waited or computed",
    "overlap": "no event tells when ranks computed, or when data was read",
}
"""Figure of a job → why it is missing."""

_RUNS = "nothing happened for most of the time: if these are several runs, analyse each by itself"
_LONG_PAUSE_S = 10.0


class Analyser:
    """Takes in the batches of a trace, in any order. For one thread."""

    def __init__(
        self,
        *,
        job: str | None = None,
        warm_up: WarmUp | None = None,
        price_per_hour: float | None = None,
    ) -> None:
        """Make one.

        Args:
            job: The only job to analyse, else all.
            warm_up: First steps to leave out, else none.
            price_per_hour: Of one accelerator, in any currency.
        """
        self._job = job
        self._warm_up = warm_up
        self._price_per_hour = price_per_hour
        self._jobs: dict[str, JobSums] = {}
        self._names: set[str] = set()
        self._further_events = 0
        self._impossible_events = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in events with the columns of the schema."""
        columns = Columns(batch)
        possible = columns.possible()
        self._impossible_events += len(columns) - len(possible)
        for named, events in possible.by("job"):
            job = named or NO_JOB
            self._names.add(job)
            if self._job not in (None, job):
                continue
            if job not in self._jobs and len(self._jobs) == MOST_JOBS:
                self._further_events += len(events)
                continue
            kept = events if self._warm_up is None else self._warm_up.kept(named, events)
            self._sums_of(job).add(kept)

    def _sums_of(self, job: str) -> JobSums:
        if job not in self._jobs:
            self._jobs[job] = JobSums()
            for sums in self._jobs.values():
                sums.keep_at_most(MOST_STRETCHES // len(self._jobs))
        return self._jobs[job]

    def result(self, *, format_name: str, notes: Notes) -> Analysis:
        """Return the figures of all that was taken in.

        Args:
            format_name: Of the trace.
            notes: What its reading left to say.

        Raises:
            CallerError: the trace has no event, none of the job asked for, or no step that is
                left after the warm-up.
            CorruptDataError: none could be read.
        """
        self._require_events(notes)
        if self._warm_up is not None:
            self._warm_up.require_further_steps(self._jobs)
        jobs = tuple(
            sums.result(job, price_per_hour=self._price_per_hour)
            for job, sums in sorted(self._jobs.items())
        )
        return Analysis(
            format=format_name,
            events=sum(job.events for job in jobs),
            span_s=max(job.span_s for job in jobs),
            jobs=jobs,
            findings=self._findings(jobs),
            unknown=self._unknown(jobs) | notes.unknown,
            problems=(*notes.problems, *self._problems()),
            further_problems=notes.further_problems,
            lost_events=notes.lost_events,
            left_out=tuple(notes.left_out),
            further_left_out=notes.further_left_out,
            relative_times=notes.is_relative,
        )

    def _problems(self) -> Iterator[str]:
        if self._impossible_events:
            yield f"{self._impossible_events:,} events are of impossible times and left out"

    def _findings(self, jobs: tuple[JobFigures, ...]) -> tuple[Finding, ...]:
        found = [one for job in jobs for one in self._jobs[job.job].findings(job)]
        return tuple(sorted(found, key=lambda one: -one.lost_s))

    def _require_events(self, notes: Notes) -> None:
        if self._jobs:
            return
        if self._job is not None and self._names:
            named = ", ".join(sorted(self._names)[:10])
            raise CallerError(f"the trace has no job {self._job}; it has {named}")
        if notes.problems:
            raise CorruptDataError(f"no event of the trace can be read: {notes.problems[0]}")
        raise CallerError("the trace holds no event; run longer, or name another")

    def _unknown(self, jobs: tuple[JobFigures, ...]) -> dict[str, str]:
        """Say which figures are missing or rough, and why."""
        missing = {
            name: why
            for name, why in _NEEDS.items()
            if all(getattr(job, name) is None for job in jobs)
        }
        rough = {name: why for sums in self._jobs.values() for name, why in sums.rough().items()}
        further = f"{self._further_events} events are of further jobs than {MOST_JOBS}"
        told = missing | rough | ({"jobs": further} if self._further_events else {})
        return told | ({"runs": _RUNS} if any(map(_is_mostly_a_pause, jobs)) else {})


def _is_mostly_a_pause(job: JobFigures) -> bool:
    return job.longest_pause_s > max(job.span_s / 2, _LONG_PAUSE_S)
