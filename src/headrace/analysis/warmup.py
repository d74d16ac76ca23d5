"""The first steps of each rank, which are to be left out as warm-up."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from headrace.analysis.columns import NULL, Columns, Ints
from headrace.analysis.figures import NO_JOB
from headrace.core.errors import CallerError
from headrace.trace.events import Kind


class WarmUp:
    """Finds, in a first pass over a trace, the first steps of each rank of each job."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._seen: dict[str, Ints] = {}
        self._going_on: set[str] = set()
        """Jobs of which a rank has further steps."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in events."""
        for named, events in Columns(batch).of(Kind.STEP, Kind.WAIT).by("job"):
            job, numbers = named or NO_JOB, events.numbers("step")
            pairs = np.column_stack((events.places, numbers))[numbers != NULL]
            seen = self._seen.get(job, np.empty((0, 2), np.int64))
            pairs = np.unique(np.concatenate((seen, pairs)), axis=0)
            self._seen[job] = _first(pairs, self._steps)
            if len(pairs) > len(self._seen[job]):
                self._going_on.add(job)

    def require_further_steps(self, jobs: Iterable[str]) -> None:
        """Refuse to leave out whatever there is.

        Args:
            jobs: Those that are analysed, :data:`NO_JOB` for what names none.

        Raises:
            CallerError: no rank of them has a step after its warm-up.
        """
        if not self._going_on.isdisjoint(jobs):
            return
        steps = max((_most_steps(self._seen[job]) for job in jobs if job in self._seen), default=0)
        if not steps:
            raise CallerError("no step of the trace has a number; analyse it without --skip")
        raise CallerError(
            f"--skip {self._steps} leaves out all steps: no rank has more than {steps}; skip fewer"
        )

    def kept(self, job: str | None, columns: Columns) -> Columns:
        """Return a job's events but those that name a step of its warm-up."""
        seen = self._seen.get(job or NO_JOB)
        if seen is None or not seen.size:
            return columns
        places, lasts = _lasts(seen)
        row = np.minimum(np.searchsorted(places, columns.places), places.size - 1)
        steps = columns.numbers("step")
        is_known = places[row] == columns.places
        return columns.where(~(is_known & (steps != NULL) & (steps <= lasts[row])))


def _first(pairs: Ints, steps: int) -> Ints:
    """Return the least ``steps`` numbers of each place; pairs are of place and step, sorted."""
    begins = np.searchsorted(pairs[:, 0], pairs[:, 0])
    kept: Ints = pairs[np.arange(len(pairs)) - begins < steps]
    return kept


def _lasts(seen: Ints) -> tuple[Ints, Ints]:
    """Return places, sorted, and the last step of each one's warm-up."""
    places, firsts = np.unique(seen[:, 0], return_index=True)
    return places, seen[np.append(firsts[1:], len(seen)) - 1, 1]


def _most_steps(seen: Ints) -> int:
    """Return how many steps the place has that has most."""
    return int(np.unique(seen[:, 0], return_counts=True)[1].max(initial=0))
