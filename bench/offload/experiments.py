"""Carries out the measurements on a cluster that is up, one after another."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from msgspec.structs import replace as changed

from bench.measuring import Spread, quotients
from bench.offload.counters import AGENTS
from bench.offload.meter import ClusterMeter
from bench.offload.premise import (
    Premise,
    Quotas,
    even_quotas,
    just_in_time_step,
    premise_line,
)
from bench.offload.readers import RunningReader, plain_reader
from bench.offload.rig import Rig
from bench.offload.scale import SEED, Scale
from bench.offload.trial import Trial
from headrace.demo.comparison import Comparison
from headrace.demo.outcome import Segment, figures
from headrace.demo.protocol import Mode, SegmentPlan
from headrace.demo.run import demo_pipeline
from headrace.demo.segments import SegmentRunner
from headrace.demo.view import View
from headrace.report.units import seconds

BACKGROUND = 0.25
"""Share of the storage hosts' CPU that the named load takes: the original saw 20 to 30 %."""

OVERLOAD = 0.95
FULL_SPEED = 1.0
"""CPU of the trainer host while a batch's cost is measured [cores]."""

OWN_THREADS = 2
"""Decoding threads of headrace on the trainer: for what agents send raw."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """What was tried for the baseline."""

    tried: dict[tuple[int, int], float]
    """(Worker processes, batches per worker under way) → mean time per step [s]."""

    @property
    def best(self) -> tuple[int, int]:
        """The quickest."""
        return min(self.tried, key=lambda setting: self.tried[setting])


@dataclass(frozen=True, kw_only=True, slots=True)
class DataNodeCost:
    """What plain readers of HDFS get, beside agents."""

    idle: tuple[float, ...]
    """While agents have nothing to do [B/s]."""

    beside: tuple[float, ...]
    """While agents transform for a job [B/s]."""

    prepared: int
    """Samples that agents prepared meanwhile."""

    raw: int
    """Samples that they sent raw meanwhile."""

    @property
    def kept(self) -> Spread:
        """Return which part of their throughput readers keep."""
        return quotients(self.beside, self.idle)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """Everything that was measured."""

    idle_agent_cores: float
    """CPU of one agent without a job [cores]."""

    batch_cpu_s: float
    """CPU to read and prepare one batch, at full speed [s]."""

    tuning: Tuning
    main: Trial
    busy: Trial | None = None
    """Storage hosts overloaded. This and what follows is left out of a short run."""

    even: Trial | None = None
    """Equal CPU on both sides."""

    sweep: tuple[Trial, ...] = ()
    """Other step times, ascending."""

    reading: DataNodeCost | None = None


class Experiments:
    """Runs segments on a cluster; each method is one measurement.

    Args:
        rig: The cluster.
        scale: How much is measured.
        view: Is shown what happens.
    """

    def __init__(self, rig: Rig, scale: Scale, view: View) -> None:
        self._rig = rig
        self._scale = scale
        self._view = view
        self._quotas = rig.quotas
        self.meter = ClusterMeter(rig.counters, lambda: rig.quotas)
        self._runner = SegmentRunner(
            view, self.meter, start=rig.start_trainer, imported=rig.trainer_imported
        )
        self._next_step = 0
        self._pipeline = demo_pipeline().to_json()

    def run(self) -> Measured:
        """Measure all that the scale asks for."""
        idle, batch_cpu_s = self._idle_agents(), self._batch_cpu()
        premise = Premise(
            quotas=self._quotas,
            background=BACKGROUND,
            step_s=just_in_time_step(batch_cpu_s, self._quotas, BACKGROUND),
            rate_mbit_per_s=self._rig.rate_mbit_per_s,
        )
        with self._rig.background(BACKGROUND):
            tuning = self._tune(premise)
            main = self._main(premise, tuning)
            measured = Measured(
                idle_agent_cores=idle, batch_cpu_s=batch_cpu_s, tuning=tuning, main=main
            )
            if self._scale.short:
                return measured
            measured = replace(
                measured,
                sweep=tuple(self._at_other_step(premise, tuning, by) for by in self._scale.sweep),
                reading=self._plain_reading(premise),
                even=self._even(premise, tuning),
            )
        with self._rig.background(OVERLOAD):
            return replace(measured, busy=self._busy(premise, tuning))

    def _idle_agents(self) -> float:
        """Return the CPU of an agent that has no job [cores]."""
        begin_s = self.meter.look().at_s
        time.sleep(self._scale.idle_s)
        use = self.meter.use(begin_s, self.meter.look().at_s)
        return use.cores(AGENTS) / self._quotas.storage_hosts

    def _batch_cpu(self) -> float:
        """Return the CPU that one batch of the main comparison takes to prepare [s]."""
        plan = self._plan("local", self._scale.calibration_steps, step_s=0.0)
        with self._with_quotas(changed(self._quotas, trainer=FULL_SPEED)):
            segment = self._segment("calibration", plan, first_step=0)
        cpu_s = segment.counted_cpu_s / len(segment.counted)
        self._view.note(f"a batch of {self._scale.batch} takes {seconds(cpu_s)} of CPU to prepare")
        return cpu_s

    def _tune(self, premise: Premise) -> Tuning:
        """Try numbers of workers, then depths of prefetching, over the same steps."""
        tried = {}
        for workers in self._scale.workers:
            tried[workers, 4] = self._tried(premise, workers, 4)
        workers, _ = Tuning(tried=tried).best
        for depth in self._scale.prefetch:
            if (workers, depth) not in tried:
                tried[workers, depth] = self._tried(premise, workers, depth)
        return Tuning(tried=tried)

    def _tried(self, premise: Premise, workers: int, depth: int) -> float:
        plan = self._plan("torch", self._scale.tuning_steps, step_s=premise.step_s)
        plan = changed(
            plan,
            workers=workers,
            prefetch_factor=depth,
            warmup_steps=self._scale.tuning_warmup_steps,
            first_step_s=0.0,
        )
        name = f"baseline, {workers} x {depth}"
        segment = self._segment(name, plan, first_step=0)
        return segment.counted_s / len(segment.counted)

    def _main(self, premise: Premise, tuning: Tuning) -> Trial:
        scale = self._scale
        return self._trial("main", premise, tuning, steps=scale.steps, pairs=scale.pairs)

    def _at_other_step(self, premise: Premise, tuning: Tuning, by: float) -> Trial:
        other = changed(premise, step_s=by * premise.step_s)
        steps = max(self._scale.sweep_steps, math.ceil(self._scale.sweep_s / other.step_s))
        return self._trial(f"step x {by:g}", other, tuning, steps=steps, pairs=1)

    def _even(self, premise: Premise, tuning: Tuning) -> Trial:
        even = changed(premise, quotas=even_quotas(premise.quotas, premise.background), step_s=0.0)
        with self._with_quotas(even.quotas):
            return self._other("equal CPU", even, tuning)

    def _busy(self, premise: Premise, tuning: Tuning) -> Trial:
        return self._other("storage busy", changed(premise, background=OVERLOAD), tuning)

    def _other(self, name: str, premise: Premise, tuning: Tuning) -> Trial:
        scale = self._scale
        return self._trial(name, premise, tuning, steps=scale.other_steps, pairs=scale.other_pairs)

    def _plain_reading(self, premise: Premise) -> DataNodeCost:
        """Let a plain reader run while agents are idle, and while they work for a job."""
        plan = self._plan("headrace", self._scale.other_steps, step_s=premise.step_s)
        idle, beside, prepared, raw = [], [], 0, 0
        with plain_reader(self._rig.start_reader, self._rig.url) as reader:
            for _ in range(self._scale.other_pairs):
                idle.append(self._idle_rate(reader))
                segment = self._segment("beside a reader", plan, first_step=self._take_steps(plan))
                beside.append(reader.rate(segment.counted[0].begin_s, segment.counted[-1].end_s))
                found = figures([segment])
                prepared, raw = prepared + found.samples_prepared, raw + found.samples_raw
        return DataNodeCost(idle=tuple(idle), beside=tuple(beside), prepared=prepared, raw=raw)

    def _idle_rate(self, reader: RunningReader) -> float:
        begin_s = time.monotonic()
        time.sleep(self._scale.reading_s)
        return reader.rate(begin_s, time.monotonic())

    def _trial(
        self, name: str, premise: Premise, tuning: Tuning, *, steps: int, pairs: int
    ) -> Trial:
        """Run both loaders in turns over the same steps."""
        self._view.note(f"{name}: {premise_line(premise)}")
        workers, depth = tuning.best
        baseline = changed(
            self._plan("torch", steps, step_s=premise.step_s),
            workers=workers,
            prefetch_factor=depth,
        )
        ours = self._plan("headrace", steps, step_s=premise.step_s)
        segments = []
        for _ in range(pairs):
            first = self._take_steps(ours)
            segments.append(self._segment(f"{name}: baseline", baseline, first_step=first))
            segments.append(self._segment(f"{name}: headrace", ours, first_step=first))
        return Trial(
            premise=premise,
            comparison=Comparison(segments=tuple(segments)),
            use=tuple(
                self.meter.use(one.counted[0].begin_s, one.counted[-1].end_s) for one in segments
            ),
        )

    def _take_steps(self, plan: SegmentPlan) -> int:
        """Return the first of a run of steps that no segment had."""
        first = self._next_step
        self._next_step += plan.warmup_steps + plan.steps + self._scale.gap_steps
        return first

    def _segment(self, name: str, plan: SegmentPlan, *, first_step: int) -> Segment:
        self._rig.drop_caches()
        self._view.runs({name: plan.warmup_steps + plan.steps})
        return self._runner.run(changed(plan, first_step=first_step), name)

    def _plan(self, mode: Mode, steps: int, *, step_s: float) -> SegmentPlan:
        ours = mode == "headrace"
        return SegmentPlan(
            mode=mode,
            root=self._rig.url,
            pipeline=self._pipeline,
            batch_size=self._scale.batch,
            seed=SEED,
            first_step=0,
            warmup_steps=self._scale.warmup_steps,
            steps=steps,
            step_s=step_s,
            first_step_s=self._scale.first_step_s if step_s else 0.0,
            workers=OWN_THREADS,
            cpus=(),
            agents=self._rig.agents if ours else (),
            token=self._rig.token if ours else None,
        )

    @contextmanager
    def _with_quotas(self, quotas: Quotas) -> Iterator[None]:
        self._rig.set_quotas(quotas)
        try:
            yield
        finally:
            self._rig.set_quotas(self._quotas)
