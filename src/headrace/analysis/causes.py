"""Why time was lost, and what headrace has against each cause.

Causes that live health reports know as well (:data:`headrace.policy.reservation.events.Mode`)
have the same names here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """Why accelerators stood still."""

    TRANSFORM_BOUND = "transform-bound"
    """Samples are decoded and changed slower than the loop takes them."""

    STORAGE_BANDWIDTH_BOUND = "storage-bandwidth-bound"
    """Storage, or the way to it, gives all it has for the job, and that is not enough."""

    METADATA_BOUND = "metadata-bound"
    """Finding out where bytes lie takes longer than the loop waits."""

    RTT_BOUND = "rtt-bound"
    """Requests are so small that round trips take the time, not bytes."""

    STRAGGLER = "straggler"
    """Few hosts load much slower than the others, and all ranks wait for these."""

    COLD_START = "cold-start"
    """After a start queues and caches have to fill."""

    THRASH = "thrash"
    """A cache loses again what it used to hold."""

    CONGESTION = "congestion"
    """Others take part of what the job reads through, for a time."""

    CHECKPOINT_STORM = "checkpoint-storm"
    """Many ranks read or save a checkpoint at the same moment."""

    NONE = "none"
    """Hardly anything was lost."""

    UNEXPLAINED = "unexplained"
    """Time was lost, and nothing in the trace tells why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What headrace does about a cause."""

    text: str
    command: str
    gain: float | None = None
    """Share of the lost time that it took away where that was measured, 0 to 1."""

    basis: str = ""
    """Where the gain was measured."""


ANSWERS: Mapping[Cause, Answer] = {
    Cause.TRANSFORM_BOUND: Answer(
        text="agents prepare samples on CPUs that are not the trainer's, just in time",
        command="headrace agent --root DATASET",
        gain=0.960,
        basis="bench.offload: the stall was 0.040 of a tuned DataLoader's",
    ),
    Cause.STORAGE_BANDWIDTH_BOUND: Answer(
        text="agents beside storage keep on a fast disk what is needed again, and merge reads",
        command="headrace agent --root DATASET --cache FAST_DISK --cache-bytes 200GiB "
        "--reorder always",
    ),
    Cause.METADATA_BOUND: Answer(
        text="an index says where each sample lies, so that nothing is listed or looked up",
        command="headrace index DATASET",
    ),
    Cause.RTT_BOUND: Answer(
        text="agents beside storage read there, and send whole samples in few answers",
        command="headrace agent --storage URL",
    ),
    Cause.STRAGGLER: Answer(
        text="agents prepare heavy samples on all hosts, and what is late is asked for elsewhere",
        command="headrace agent --root DATASET",
        gain=0.960,
        basis="bench.offload: the 99th percentile of waits was 0.040 of a tuned DataLoader's",
    ),
    Cause.COLD_START: Answer(
        text="the controller has a job's first batches prepared from the moment it registers",
        command="headrace controller --tier hdd=600MB",
        gain=0.997,
        basis="bench.reservation, simulated: 0.003 of the failures of static quotas",
    ),
    Cause.THRASH: Answer(
        text="the agents' cache knows from the schedule what is needed again, and keeps that",
        command="headrace agent --root DATASET --cache FAST_DISK --cache-bytes 200GiB",
        gain=0.998,
        basis="bench.reservation, simulated: 0.002 of the failures of static quotas",
    ),
    Cause.CONGESTION: Answer(
        text="the controller gives bandwidth to the jobs that would wait",
        command="headrace controller --tier hdd=600MB",
        gain=0.819,
        basis="bench.reservation, simulated: 0.181 of the failures of static quotas",
    ),
    Cause.CHECKPOINT_STORM: Answer(
        text="hot files are copied before ranks read them, and ranks of a host read once",
        command="headrace announce CHECKPOINT --world-size RANKS",
        gain=0.829,
        basis="bench.startup: loading took 0.171 of DCP over fsspec",
    ),
    Cause.NONE: Answer(text="nothing to do", command=""),
    Cause.UNEXPLAINED: Answer(
        text="record what loads did meanwhile",
        command="headrace trace run -- python train.py",
    ),
}
"""For every cause. What is written large in a command is the user's to fill in."""

REMOTE_CHECKPOINT = Answer(
    text="checkpoints are copied to the site that evaluates them while they are saved",
    command="headrace replicate SOURCE DESTINATION",
    gain=0.952,
    basis="bench.evaluation: with the copy, loading took 0.048 of DCP over fsspec",
)
"""Against round trips in the reading of checkpoints."""

BESIDES_LOADING = Answer(
    text="look at what is neither read nor transformed: starts of workers, locks, sockets",
    command="",
)
"""Against waits that nothing explains though the trace tells what loading consists of."""

CHECKPOINT_UNTOLD = Answer(
    text="record the requests that reads and saves of checkpoints consist of",
    command="headrace trace run -- python train.py",
)
"""Against time at checkpoints that nothing explains where the trace tells no requests."""

CHECKPOINT_PLAN = Answer(
    text="look at which bytes each rank reads: it is neither many ranks at once nor round trips",
    command="headrace checkpoint plan CHECKPOINT --world-size RANKS",
)
"""The same where it does."""

SAVING = Answer(
    text="ranks save in few large pieces, at the rate that the controller leaves them",
    command="headrace controller --tier hdd=600MB",
)
"""Against storms of saves."""
