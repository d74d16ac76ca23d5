"""The first steps of each rank, which are to be left out as warm-up."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.analysis.columns import NULL, Columns, Ints
from headrace.trace.events import Kind

_JOB_LESS = ""


class WarmUp:
    """Finds, in a first pass over a trace, the first steps of each rank of each job."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._seen: dict[str, Ints] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in events."""
        for job, events in Columns(batch).of(Kind.STEP, Kind.WAIT).by("job"):
            numbers = events.numbers("step")
            pairs = np.column_stack((events.places, numbers))[numbers != NULL]
            seen = self._seen.get(job or _JOB_LESS, np.empty((0, 2), np.int64))
            self._seen[job or _JOB_LESS] = _first(np.concatenate((seen, pairs)), self._steps)

    def kept(self, job: str | None, columns: Columns) -> Columns:
        """Return a job's events but those that name a step of its warm-up."""
        seen = self._seen.get(job or _JOB_LESS)
        if seen is None or not seen.size:
            return columns
        places, lasts = _lasts(seen)
        row = np.minimum(np.searchsorted(places, columns.places), places.size - 1)
        steps = columns.numbers("step")
        is_known = places[row] == columns.places
        return columns.where(~(is_known & (steps != NULL) & (steps <= lasts[row])))


def _first(pairs: Ints, steps: int) -> Ints:
    """Return the least ``steps`` numbers of each place, sorted; pairs are of place and step."""
    pairs = np.unique(pairs, axis=0)
    begins = np.searchsorted(pairs[:, 0], pairs[:, 0])
    kept: Ints = pairs[np.arange(len(pairs)) - begins < steps]
    return kept


def _lasts(seen: Ints) -> tuple[Ints, Ints]:
    """Return places, sorted, and the last step of each one's warm-up."""
    places, firsts = np.unique(seen[:, 0], return_index=True)
    return places, seen[np.append(firsts[1:], len(seen)) - 1, 1]
