"""What each rank was at when: waiting, computing, with checkpoints, reading and preparing data."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from headrace.analysis.columns import Columns, Ints
from headrace.analysis.stretches import Stretches, Union, united
from headrace.trace.events import Kind


class Activity(StrEnum):
    """What a rank can be at; several at a time."""

    DATA = "data"
    """The loop waits for a batch."""

    CHECKPOINT_READ = "checkpoint_read"
    CHECKPOINT_SAVE = "checkpoint_save"
    BARRIER = "barrier"
    COMPUTE = "compute"
    STEP = "step"
    IO = "io"
    """Batches are prepared, or storage is read or written; in the background, as a rule."""


IDLE_CAUSES = (
    Activity.CHECKPOINT_READ,
    Activity.CHECKPOINT_SAVE,
    Activity.DATA,
    Activity.BARRIER,
)
"""A moment with several is counted to the first of them."""

_KINDS = {
    Activity.DATA: (Kind.WAIT,),
    Activity.CHECKPOINT_READ: (Kind.CHECKPOINT_READ,),
    Activity.CHECKPOINT_SAVE: (Kind.CHECKPOINT_SAVE,),
    Activity.BARRIER: (Kind.BARRIER,),
    Activity.COMPUTE: (Kind.COMPUTE,),
    Activity.STEP: (Kind.STEP,),
    Activity.IO: (
        Kind.LOAD,
        Kind.REQUEST,
        Kind.CHECKPOINT_READ,
        Kind.CHECKPOINT_SAVE,
        Kind.LOGITS_WRITE,
    ),
}
_OF_LOOP = (Activity.DATA, Activity.COMPUTE, Activity.STEP, Activity.BARRIER)
"""Only what trains has these; agents and workers of loaders have not."""


class ActivityUnions:
    """Unites, for each activity, the time of each place (a rank, or a process without one).

    Events that stand for several operations are left out: when these ran is not known.
    """

    def __init__(self) -> None:
        self._unions = {activity: Union() for activity in Activity}

    def add(self, columns: Columns) -> None:
        """Take in events."""
        for activity, kinds in _KINDS.items():
            events = columns.of(*kinds).single()
            if len(events):
                self._unions[activity].add(events.places, events.begins, events.ends)

    def result(self) -> Activities:
        """Return all of them."""
        return Activities({name: union.whole() for name, union in self._unions.items()})

    @property
    def closed_s(self) -> float:
        """Time by which unions may be too long, since memory is bounded [s]."""
        return sum(union.closed_s for union in self._unions.values())


class Activities:
    """The time of every place in every activity."""

    def __init__(self, stretches: dict[Activity, Stretches]) -> None:
        self._stretches = stretches

    def of(self, activity: Activity) -> Stretches:
        """Return when places were at it."""
        return self._stretches[activity]

    @property
    def knows_compute(self) -> bool:
        """Whether compute was recorded itself; else it is the rest of each step."""
        return bool(self.of(Activity.COMPUTE).keys.size)

    @property
    def places(self) -> Ints:
        """Places that train."""
        return np.unique(np.concatenate([self.of(one).keys for one in _OF_LOOP]))

    def of_trainers(self, activity: Activity) -> Stretches:
        """Return when those that train were at it."""
        return self.of(activity).of_any(self.places)

    def causes(self) -> Stretches:
        """Return when those that train stood still, or would have without compute beside it."""
        return united(*map(self.of_trainers, IDLE_CAUSES))
