"""What every place's time goes to, in a trace of any length."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.analysis.activities import KINDS, OF_LOOP, Activity, Parts, blocking
from headrace.analysis.columns import Columns, Ints
from headrace.analysis.figures import Timeline
from headrace.analysis.spans import Spans
from headrace.analysis.spent import NOTHING, Spent, added, spent
from headrace.analysis.stretches import NONE, Stretches, united
from headrace.analysis.timeline import Picture

MOST_STRETCHES = 1_048_576
"""Kept for all jobs, places and activities together."""


class Cuts(NamedTuple):
    """Until when places' time was added up."""

    places: Ints
    """Sorted."""

    moments: Ints
    """[ns]"""

    def late(self, events: Columns) -> int:
        """Count the events that begin before."""
        if not self.places.size:
            return 0
        row = np.searchsorted(self.places, events.places).clip(max=self.places.size - 1)
        is_cut = self.places[row] == events.places
        return int((is_cut & (events.begins < self.moments[row])).sum())

    def moved(self, other: Cuts) -> Cuts:
        """Return the later ones of both."""
        places, row = np.unique(np.concatenate((self.places, other.places)), return_inverse=True)
        moments = np.full(places.size, np.iinfo(np.int64).min)
        np.maximum.at(moments, row, np.concatenate((self.moments, other.moments)))
        return Cuts(places, moments)


class TimeSums:
    """Finds out what places (ranks, or processes without one) were at, and for how long.

    Stretches of time are kept until they are too many; then the older half of each place's is
    added up and forgotten. So a trace may be as long as it likes, if the events of a place come
    in the order of time, roughly. Events that stand for several operations are left out: when
    these ran is not known.
    """

    def __init__(self, most: int = MOST_STRETCHES) -> None:
        self.most = most
        """Stretches that are kept."""

        self.late = 0
        """Events of times that were added up before: what else happened then was forgotten."""

        self.trainers: Ints = np.empty(0, np.int64)
        """Places that train, sorted."""

        self.knows_compute = False
        """Whether compute was recorded; else it is the rest of each step."""

        self.spans = Spans()
        """Of activities but for I/O, which agents have as well."""

        self._kept: dict[Activity, list[Stretches]] = {activity: [] for activity in Activity}
        self._rows = 0
        self._cuts = Cuts(np.empty(0, np.int64), np.empty(0, np.int64))
        self._spent = NOTHING
        self._picture = Picture()

    def add(self, columns: Columns) -> None:
        """Take in events."""
        for activity, kinds in KINDS.items():
            events = columns.of(*kinds).single()
            if len(events):
                self._add(activity, events)
        if self._rows > self.most:
            self._make_room()

    def spent(self) -> Spent:
        """Return what the time of those that train went to."""
        self._settle(self._united())
        return self._spent.of(self.trainers)

    def timeline(self, origin_ns: int) -> Timeline | None:
        """Return what those that train were at since an origin; None where nothing is known."""
        self._settle(self._united())
        return self._picture.result(self.trainers, origin_ns, knows_compute=self.knows_compute)

    def _add(self, activity: Activity, events: Columns) -> None:
        self._kept[activity].append(Stretches(events.places, events.begins, events.ends))
        self._rows += len(events)
        self.late += self._cuts.late(events)
        self.knows_compute |= activity == Activity.COMPUTE
        if activity != Activity.IO:
            self.spans.add(events)
        if activity in OF_LOOP:
            self.trainers = np.union1d(self.trainers, events.places)

    def _make_room(self) -> None:
        """Bring stretches together, and add up the older half where they are still too many."""
        parts = self._united()
        if self._rows <= self.most // 2:
            return
        cuts = _middles(parts)
        halves = {activity: part.split(*cuts) for activity, part in parts.items()}
        self._settle({activity: before for activity, (before, _) in halves.items()})
        self._keep({activity: after for activity, (_, after) in halves.items()})
        self._cuts = self._cuts.moved(cuts)

    def _settle(self, parts: Parts) -> None:
        """Add up what places were at in all of some stretches, and forget these."""
        in_the_way = blocking(parts)
        self._spent = added(self._spent, spent(in_the_way))
        self._picture.paint(in_the_way, self.trainers)
        self._keep(dict.fromkeys(Activity, NONE))

    def _united(self) -> Parts:
        parts = {activity: united(*kept) for activity, kept in self._kept.items()}
        self._keep(parts)
        return parts

    def _keep(self, parts: Parts) -> None:
        self._kept = {activity: [part] for activity, part in parts.items()}
        self._rows = sum(part.keys.size for part in parts.values())


def _middles(parts: Parts) -> Cuts:
    """Return for each place the moment before which half of its stretches begin."""
    keys = np.concatenate([part.keys for part in parts.values()])
    begins = np.concatenate([part.begins for part in parts.values()])
    order = np.lexsort((begins, keys))
    places, firsts, sizes = np.unique(keys[order], return_index=True, return_counts=True)
    return Cuts(places, begins[order][firsts + sizes // 2])
