"""What the segments of a demo add up to: figures, ratios, equality of bytes. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from headrace.demo.protocol import SegmentEnd, SegmentPlan, Stepped
from headrace.demo.stall import stall_of

GOALS = {"stall": 0.10, "p99": 0.05, "trainer_cpu": 0.04}
"""Largest headrace / baseline ratio that is to be shown; throughput has no goal of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """One trainer process, from its first step to its last."""

    plan: SegmentPlan
    steps: tuple[Stepped, ...]
    end: SegmentEnd

    @property
    def counted(self) -> tuple[Stepped, ...]:
        """The steps after warm-up."""
        return tuple(step for step in self.steps if step.counted)

    @property
    def counted_s(self) -> float:
        """Time the counted steps took [s]."""
        return self.counted[-1].end_s - self.counted[0].begin_s

    @property
    def counted_cpu_s(self) -> float:
        """CPU time spent on loading during the counted steps [s]."""
        before = self.steps[len(self.steps) - len(self.counted) - 1 :][0]
        begin = 0.0 if before.counted else before.loading_cpu_s
        return self.steps[-1].loading_cpu_s - begin


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """How one loader did, over its segments."""

    steps: int
    samples: int
    stall_share: float
    """Share of the loop's time spent waiting for data."""

    wait_p50_s: float
    wait_p99_s: float
    wait_mean_s: float
    trainer_cpu_s_per_sample: float
    """CPU time of the trainer process spent on loading, per sample [s]."""

    samples_per_s: float
    wire_bytes: int
    """Received from agents, warm-up included [bytes]."""

    samples_prepared: int
    samples_raw: int
    raw_reasons: dict[str, int]
    samples_hedged: int
    samples_local: int
    samples_substituted: int
    read_s_per_sample: float
    """Time a sample's bytes were read for, wherever that was [s]."""

    transform_s_per_sample: float
    """Time a sample was transformed for, wherever that was; more where a CPU is shared [s]."""


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """headrace / baseline."""

    stall: float
    p99: float
    trainer_cpu: float
    throughput: float


def figures(segments: Sequence[Segment]) -> Figures:
    """Add up segments of one loader; waits are pooled."""
    steps = [step for segment in segments for step in segment.counted]
    stall = stall_of([segment.counted for segment in segments])
    total_s = sum(segment.counted_s for segment in segments)
    samples = sum(step.samples for step in steps)
    delivered = sum(step.samples for segment in segments for step in segment.steps)
    raw = sum((Counter(segment.end.samples_raw) for segment in segments), Counter[str]())
    return Figures(
        steps=len(steps),
        samples=samples,
        stall_share=stall.share,
        wait_p50_s=stall.wait_s.p50,
        wait_p99_s=stall.wait_s.p99,
        wait_mean_s=stall.wait_s.mean,
        trainer_cpu_s_per_sample=sum(segment.counted_cpu_s for segment in segments) / samples,
        samples_per_s=samples / total_s,
        wire_bytes=sum(segment.end.wire_bytes for segment in segments),
        samples_prepared=sum(segment.end.samples_prepared for segment in segments),
        samples_raw=raw.total(),
        raw_reasons=dict(raw),
        samples_hedged=sum(segment.end.samples_hedged for segment in segments),
        samples_local=sum(segment.end.samples_local for segment in segments),
        samples_substituted=sum(len(segment.end.substituted) for segment in segments),
        read_s_per_sample=sum(segment.end.read_s for segment in segments) / delivered,
        transform_s_per_sample=sum(segment.end.transform_s for segment in segments) / delivered,
    )


def ratio(baseline: Figures, headrace: Figures) -> Ratio:
    """Compare two loaders; NaN where the baseline's figure is 0."""
    return Ratio(
        stall=_divided(headrace.stall_share, baseline.stall_share),
        p99=_divided(headrace.wait_p99_s, baseline.wait_p99_s),
        trainer_cpu=_divided(headrace.trainer_cpu_s_per_sample, baseline.trainer_cpu_s_per_sample),
        throughput=_divided(headrace.samples_per_s, baseline.samples_per_s),
    )


def missed_goals(measured: Ratio) -> dict[str, float]:
    """Return the goals that were missed, with what was measured instead."""
    values = {name: float(getattr(measured, name)) for name in GOALS}
    return {name: value for name, value in values.items() if not value <= GOALS[name]}


def unequal_steps(segments: Iterable[Segment]) -> list[int]:
    """Return the steps whose batches were not the same bytes in all segments that ran them."""
    seen: dict[int, str] = {}
    unequal = set()
    for segment in segments:
        for step in segment.steps:
            if seen.setdefault(step.step, step.digest) != step.digest:
                unequal.add(step.step)
    return sorted(unequal)


def compared_steps(segments: Iterable[Segment]) -> int:
    """Return how many steps ran more than once, so that their batches could be compared."""
    runs: dict[int, int] = {}
    for segment in segments:
        for step in segment.steps:
            runs[step.step] = runs.get(step.step, 0) + 1
    return sum(count > 1 for count in runs.values())


def _divided(value: float, by: float) -> float:
    return value / by if by else math.nan
