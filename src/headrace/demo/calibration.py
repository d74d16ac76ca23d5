"""Finds out what this machine can do, so that no figure of the demo is written into its code."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from headrace.demo.outcome import Segment
from headrace.demo.protocol import SegmentPlan
from headrace.demo.segments import SegmentRunner
from headrace.report.units import seconds

WORKERS_PER_CPU = (1, 2)
"""What is tried for the baseline; the fastest is kept."""

NAME = "calibration"


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What was measured before the comparison."""

    prepare_batch_s: float
    """Time in which the storage side's CPUs prepare one batch at full speed [s]."""

    tried: dict[int, float]
    """Workers of the baseline → mean time per batch, without host work [s]."""

    @property
    def best_workers(self) -> int:
        """The number of workers that made a batch in the shortest time."""
        return min(self.tried, key=lambda workers: self.tried[workers])

    def told(self) -> str:
        """Return what was tried, in words."""
        tried = ", ".join(f"{count} → {seconds(time)}" for count, time in self.tried.items())
        return f"tried, without host work: {tried} a batch"


def calibration_plans(template: SegmentPlan, storage_cpus: tuple[int, ...]) -> list[SegmentPlan]:
    """Return what to run: first on the storage side, then the baseline's candidates."""
    flat_out = msgspec.structs.replace(template, step_s=0.0, first_step_s=0.0, nice=0, model=False)
    candidates = [
        msgspec.structs.replace(flat_out, workers=per_cpu * len(template.cpus))
        for per_cpu in WORKERS_PER_CPU
    ]
    storage = msgspec.structs.replace(
        flat_out, mode="local", cpus=storage_cpus, workers=len(storage_cpus)
    )
    return [storage, *candidates]


def calibrate(
    template: SegmentPlan, storage_cpus: tuple[int, ...], runner: SegmentRunner
) -> Calibration:
    """Measure how fast a batch is prepared on either side, each on its own CPUs.

    Args:
        template: A plan of the baseline on the trainer's CPUs.
        storage_cpus: CPUs of the storage side.
        runner: Runs the plans; steps are shown as ``calibration``.
    """
    storage, *candidates = calibration_plans(template, storage_cpus)
    measured = runner.run(storage, NAME)
    tried = {plan.workers: batch_s(runner.run(plan, NAME)) for plan in candidates}
    return Calibration(prepare_batch_s=batch_s(measured), tried=tried)


def batch_s(segment: Segment) -> float:
    """Return the mean time per counted batch of a segment without a step's time [s]."""
    return segment.counted_s / len(segment.counted)
