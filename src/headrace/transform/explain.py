"""Says what each op costs, what it does to the bytes, and where it will run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headrace.core.draws import SampleKey
from headrace.core.errors import CorruptSampleError
from headrace.core.record import Record, record_bytes
from headrace.transform.op import BatchOp
from headrace.transform.program import Program
from headrace.transform.split import KindProfile, Premise, SplitPlan, Step, plan_split

Place = Literal["storage", "trainer", "trainer, per batch", "-"]

_KEY = SampleKey(0, 0, 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One op on one kind of sample."""

    position: int
    op: str
    place: Place
    """``-`` where the op does not act on this kind."""

    cpu_s: float
    """CPU time per sample [s]; 0 where ``joined``."""

    joined: bool
    """Computed together with the op above, whose time includes it."""

    bytes_in: float
    bytes_out: float
    """Mean length of the sample before and after the op [bytes]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """What a running job measured of one kind, and where it is cut by that."""

    cut: int
    """Number of leading ops that storage runs now."""

    measured: bool
    """Samples came at this cut; else what follows is what other cuts let expect."""

    storage_s: float
    """CPU time of one sample on storage [s]."""

    trainer_s: float
    """CPU time of one sample on the trainer, up to where whole batches are worked on [s]."""

    wire_bytes: float
    """Bytes of one sample that cross the network."""

    bandwidth: float | None
    """Of the network, where samples had to be waited for [B/s]."""

    why: str
    """Why it is cut there, in words for a person."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedRun:
    """All ops on one sample."""

    cpu_s: tuple[float, ...]
    """CPU time of each [s]; of ops that are computed together, at the first of them."""

    nbytes: tuple[float, ...]
    """Length of the record before each op and after the last [bytes]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KindExplanation:
    """What happens to the samples of one kind."""

    kind: str
    samples: int
    cut: int
    """Number of leading ops that storage runs."""

    measured_on: int
    """Real samples that times and bytes were measured on; 0 for estimates from the headers."""

    rows: tuple[Row, ...]
    """Each op, and where it was planned to run."""

    running: Running | None = None
    """What was measured since the job runs, and what became of the plan; None: nothing yet."""

    learned: float | None = None
    """What samples of the kind that are foreseen to take 10 ms or more lately took, reading
    included, over what their headers told: by this much their costs are corrected; None: none
    was made yet."""

    def places(self) -> tuple[Place, ...]:
        """Return where each op runs now."""
        if self.running is None:
            return tuple(row.place for row in self.rows)
        return tuple(_moved(row, self.running.cut) for row in self.rows)

    @property
    def storage_s(self) -> float:
        """CPU time of one sample on storage [s]."""
        return sum(row.cpu_s for row in self.rows if row.place == "storage")

    @property
    def trainer_s(self) -> float:
        """CPU time of one sample on the trainer [s]."""
        return sum(row.cpu_s for row in self.rows if row.place.startswith("trainer"))

    @property
    def wire_bytes(self) -> float:
        """Bytes of one sample that cross the network."""
        shipped = [row.bytes_out for row in self.rows[: self.cut]]
        return shipped[-1] if shipped else self.rows[0].bytes_in


def explain(
    program: Program, profiles: Sequence[KindProfile], premise: Premise | None = None
) -> tuple[KindExplanation, ...]:
    """Return what will happen to each kind, estimated from its profile."""
    plan = plan_split(program, profiles, premise)
    return tuple(_explained(plan, profile) for profile in profiles if program.ops)


def measured(
    program: Program, estimated: KindExplanation, records: Iterable[Record]
) -> KindExplanation:
    """Return the explanation with times and bytes measured on real samples.

    Ops are timed by the process's CPU time, cut by cut; samples that cannot be decoded are
    left out. Without a sample that works, the estimate is returned as it is.
    """
    runs = [run for record in records if (run := _warm_run(program, record)) is not None]
    if not runs:
        return estimated
    cpu_s, sizes = np.mean([run.cpu_s for run in runs], 0), np.mean([run.nbytes for run in runs], 0)
    rows = tuple(
        Row(
            position=row.position,
            op=row.op,
            place=row.place,
            cpu_s=float(cpu_s[row.position]),
            joined=row.joined,
            bytes_in=float(sizes[row.position]),
            bytes_out=float(sizes[row.position + 1]),
        )
        if row.position < program.sample_ops
        else row
        for row in estimated.rows
    )
    return KindExplanation(
        kind=estimated.kind,
        samples=estimated.samples,
        cut=estimated.cut,
        measured_on=len(runs),
        rows=rows,
    )


def timed_run(program: Program, record: Record, key: SampleKey = _KEY) -> TimedRun:
    """Run all ops on a sample, and time them by this thread's CPU time, cut by cut.

    Ops between two cuts are one unit: its time and its change of size go to its first op.

    Args:
        program: The pipeline.
        record: The encoded sample.
        key: Decides its randomness.

    Raises:
        CorruptSampleError: the sample cannot be decoded.
    """
    cpu_s, sizes = [0.0] * program.sample_ops, [record_bytes(record)]
    for start, stop in zip(program.cuts, program.cuts[1:], strict=False):
        first = _first_acting(program, record, start, stop)
        before_s = time.thread_time()
        record = program.run(record, key, start=start, stop=stop)
        cpu_s[first] = time.thread_time() - before_s
        sizes += [sizes[-1]] * (first - start) + [record_bytes(record)] * (stop - first)
    return TimedRun(cpu_s=tuple(cpu_s), nbytes=tuple(sizes))


def _explained(plan: SplitPlan, profile: KindProfile) -> KindExplanation:
    cut = plan.cuts[profile.kind]
    return KindExplanation(
        kind=profile.kind,
        samples=profile.samples,
        cut=cut,
        measured_on=0,
        rows=tuple(_row(step, cut) for step in plan.steps[profile.kind]),
    )


def _row(step: Step, cut: int) -> Row:
    return Row(
        position=step.position,
        op=step.op.name,
        place=_place(step, cut),
        cpu_s=step.cpu_s,
        joined=step.joined,
        bytes_in=step.bytes_before,
        bytes_out=step.bytes_after,
    )


def _moved(row: Row, cut: int) -> Place:
    if row.place not in ("storage", "trainer"):
        return row.place
    return "storage" if row.position < cut else "trainer"


def _place(step: Step, cut: int) -> Place:
    if not step.acts:
        return "-"
    if isinstance(step.op, BatchOp):
        return "trainer, per batch"
    return "storage" if step.position < cut else "trainer"


def _warm_run(program: Program, record: Record) -> TimedRun | None:
    """Return the second of two timed runs: the first also pays for imports and fresh memory."""
    try:
        timed_run(program, record)
        return timed_run(program, record)
    except CorruptSampleError:
        return None


def _first_acting(program: Program, record: Record, start: int, stop: int) -> int:
    acting = (p for p in range(start, stop) if any(map(program.ops[p].acts_on, record)))
    return next(acting, start)
