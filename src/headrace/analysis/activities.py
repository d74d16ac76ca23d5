"""What a rank can be at: waiting, computing, with checkpoints, reading and preparing data."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from headrace.analysis.stretches import Stretches
from headrace.trace.events import Kind


class Activity(StrEnum):
    """What a rank is at; several at a time."""

    DATA = "data"
    """The loop waits for a batch."""

    CHECKPOINT_READ = "checkpoint_read"
    CHECKPOINT_SAVE = "checkpoint_save"
    BARRIER = "barrier"
    COMPUTE = "compute"
    STEP = "step"
    IO = "io"
    """Batches are prepared, or storage is read or written; in the background, as a rule."""


CHECKPOINTS = (Activity.CHECKPOINT_READ, Activity.CHECKPOINT_SAVE)

IDLE_CAUSES = (*CHECKPOINTS, Activity.DATA, Activity.BARRIER)
"""A moment with several is counted to the first of them."""

OF_LOOP = (Activity.DATA, Activity.COMPUTE, Activity.STEP, Activity.BARRIER)
"""Only what trains has these; agents and workers of loaders have not."""

KINDS = {
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
"""Of events that tell an activity."""

Parts: TypeAlias = dict[Activity, Stretches]
"""When each place (a rank, or a process without one) was at what; those of one are united."""


def blocking(parts: Parts) -> Parts:
    """Return them without checkpoints during which a wait for a batch begins.

    These were read or saved in the background: the loop went on.
    """
    waits = parts[Activity.DATA]
    kept = {
        activity: parts[activity].where(
            parts[activity].moments_within(waits.keys, waits.begins) <= 0
        )
        for activity in CHECKPOINTS
    }
    return parts | kept
