"""Runs segments: starts a trainer, listens to it, samples the CPUs meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from headrace.core.errors import ProtocolError
from headrace.demo.children import Start, Trainer, listen, start_here, trainers
from headrace.demo.meter import CpuSample
from headrace.demo.outcome import Segment
from headrace.demo.protocol import Imported, SegmentEnd, SegmentPlan, Stepped
from headrace.demo.view import View

TRAINER = "trainer"
"""Name of the trainers' group of processes in CPU samples."""


class Meter(Protocol):
    """Samples CPUs and groups of processes; see :class:`headrace.demo.meter.CpuMeter`."""

    def watch(self, group: str, pids: Iterable[int]) -> None:
        """Count these processes as ``group`` from now on."""
        ...

    def forget(self, group: str) -> None:
        """Count the group no longer."""
        ...

    def sample(self) -> CpuSample | None:
        """Take a sample if one is due."""
        ...


class SegmentRunner:
    """Runs trainers one after another, or side by side, and shows how they do.

    Args:
        view: Is shown every step.
        meter: Samples CPUs meanwhile.
        start: Starts a trainer, on another host perhaps.
        imported: Called when a trainer has done its imports and begins with its loader.
    """

    def __init__(
        self,
        view: View,
        meter: Meter,
        *,
        start: Start = start_here,
        imported: Callable[[], None] = lambda: None,
    ) -> None:
        self._view = view
        self._meter = meter
        self._start = start
        self._imported = imported

    def run(self, plan: SegmentPlan, name: str) -> Segment:
        """Run one segment; its steps are shown under ``name``."""
        return self.run_together([plan], [name])[0]

    def run_together(self, plans: Sequence[SegmentPlan], names: Sequence[str]) -> list[Segment]:
        """Run segments side by side and return them in the order of the plans.

        Raises:
            SegmentFailedError: one of them failed; the others have ended too.
        """
        with trainers(plans, self._start) as running:
            self._meter.watch(TRAINER, [trainer.pid for trainer in running])
            try:
                return self._listen(running, names)
            finally:
                self._meter.forget(TRAINER)

    def _listen(self, running: Sequence[Trainer], names: Sequence[str]) -> list[Segment]:
        shown = dict(zip(running, names, strict=True))
        steps: dict[Trainer, list[Stepped]] = {trainer: [] for trainer in running}
        ends: dict[Trainer, SegmentEnd] = {}
        for trainer, message in listen(running, meanwhile=self.look):
            if isinstance(message, Imported):
                self._imported()
            elif isinstance(message, Stepped):
                steps[trainer].append(message)
                self._view.stepped(shown[trainer], message)
            elif isinstance(message, SegmentEnd):
                ends[trainer] = message
        return [_segment(trainer.plan, steps[trainer], ends[trainer]) for trainer in running]

    def look(self) -> None:
        """Take a CPU sample if one is due."""
        sample = self._meter.sample()
        if sample is not None:
            self._view.cpu(sample)


def _segment(plan: SegmentPlan, steps: list[Stepped], end: SegmentEnd) -> Segment:
    if len(steps) != plan.warmup_steps + plan.steps:
        raise ProtocolError(
            f"the trainer process reported {len(steps)} steps of "
            f"{plan.warmup_steps + plan.steps} and then its end"
        )
    return Segment(plan=plan, steps=tuple(steps), end=end)
