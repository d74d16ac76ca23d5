"""What the time of places (ranks, or processes without one) went to, added up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.analysis.activities import IDLE_CAUSES, Activity, Parts
from headrace.analysis.columns import Floats, Ints
from headrace.analysis.stretches import Stretches, united


class Spent(NamedTuple):
    """Arrays of seconds, a row for each place."""

    places: Ints
    """Sorted."""

    idle_s: Floats
    """``[places, causes]``, in the order of :data:`IDLE_CAUSES`; time in which it computed is
    not idle."""

    io_s: Floats
    compute_s: Floats
    hidden_s: Floats
    """I/O during compute."""

    work_s: Floats
    """Steps but for what stood still in them: taken for compute where that was not recorded."""

    hidden_by_work_s: Floats

    def of(self, places: Ints) -> Spent:
        """Return the rows of some places."""
        kept = np.isin(self.places, places)
        return Spent(self.places[kept], *(column[kept] for column in self[1:]))


NOTHING = Spent(np.empty(0, np.int64), np.empty((0, len(IDLE_CAUSES))), *[np.empty(0)] * 5)


def spent(parts: Parts) -> Spent:
    """Return what time went to in all of some stretches."""
    places = np.unique(np.concatenate([one.keys for one in parts.values()]))

    def seconds(*stretches: Stretches) -> Floats:
        return united(*stretches).seconds_of(places)

    io, compute = parts[Activity.IO], parts[Activity.COMPUTE]
    still = united(*(parts[cause] for cause in IDLE_CAUSES))
    in_steps = united(parts[Activity.STEP], still)
    return Spent(
        places=places,
        idle_s=_idle_s(parts, places),
        io_s=seconds(io),
        compute_s=seconds(compute),
        hidden_s=seconds(io) + seconds(compute) - seconds(io, compute),
        work_s=seconds(in_steps) - seconds(still),
        hidden_by_work_s=seconds(in_steps)
        - seconds(io, in_steps)
        - (seconds(still) - seconds(io, still)),
    )


def _idle_s(parts: Parts, places: Ints) -> Floats:
    """Return idle time by cause; a moment with several counts to the first."""
    so_far, columns = parts[Activity.COMPUTE], []
    for cause in IDLE_CAUSES:
        with_it = united(so_far, parts[cause])
        columns.append(with_it.seconds_of(places) - so_far.seconds_of(places))
        so_far = with_it
    return np.column_stack(columns)


def added(one: Spent, other: Spent) -> Spent:
    """Return the sums of both."""
    places, row = np.unique(np.concatenate((one.places, other.places)), return_inverse=True)

    def together(first: Floats, second: Floats) -> Floats:
        sums = np.zeros((places.size, *first.shape[1:]))
        np.add.at(sums, row, np.concatenate((first, second)))
        return sums

    columns = zip(one[1:], other[1:], strict=True)
    return Spent(places, *(together(first, second) for first, second in columns))
