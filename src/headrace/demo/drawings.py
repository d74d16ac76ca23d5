"""Plots and headlines of a comparison, for every report that has one. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.demo.comparison import Comparison
from headrace.demo.outcome import Segment
from headrace.report import plots
from headrace.report.blocks import Figure, Headline, Headlines
from headrace.report.units import percent, ratio, seconds

_FLOOR_S = 1e-5
"""Shortest wait that the logarithmic axis shows [s]."""


def headlines(comparison: Comparison) -> Headlines:
    """Return the four ratios, each with both loaders' figures."""
    baseline, headrace, measured = comparison.baseline, comparison.headrace, comparison.ratio

    def pair(before: str, after: str) -> str:
        return f"{before} → {after}"

    return Headlines(
        items=(
            Headline(
                value=f"× {ratio(measured.stall)}",
                label="time waiting for data",
                detail=pair(percent(baseline.stall_share), percent(headrace.stall_share)),
            ),
            Headline(
                value=f"× {ratio(measured.p99)}",
                label="P99 wait per step",
                detail=pair(seconds(baseline.wait_p99_s), seconds(headrace.wait_p99_s)),
            ),
            Headline(
                value=f"× {ratio(measured.trainer_cpu)}",
                label="trainer CPU per sample",
                detail=pair(
                    seconds(baseline.trainer_cpu_s_per_sample),
                    seconds(headrace.trainer_cpu_s_per_sample),
                ),
            ),
            Headline(
                value=f"× {ratio(measured.throughput)}",
                label="samples per second",
                detail=pair(f"{baseline.samples_per_s:.0f}", f"{headrace.samples_per_s:.0f}"),
            ),
        )
    )


def segment_spans(segments: Sequence[Segment], *, origin_s: float) -> list[plots.Span]:
    """Return when each segment ran, from ``origin_s`` on, in its loader's name and colour [s]."""
    return [
        plots.Span(
            begin=max(0.0, segment.steps[0].begin_s - origin_s),
            end=segment.steps[-1].end_s - origin_s,
            label="headrace" if segment.plan.mode == "headrace" else "baseline",
            colour=plots.OURS if segment.plan.mode == "headrace" else plots.BASELINE,
        )
        for segment in segments
    ]


@dataclass(frozen=True, slots=True)
class _Run:
    label: str
    colour: str
    segments: tuple[Segment, ...]


def _runs(comparison: Comparison) -> tuple[_Run, _Run]:
    ours = tuple(one for one in comparison.segments if one.plan.mode == "headrace")
    theirs = tuple(one for one in comparison.segments if one.plan.mode != "headrace")
    return _Run("baseline", plots.BASELINE, theirs), _Run("headrace", plots.OURS, ours)


def _breaks(comparison: Comparison) -> list[float]:
    """Return where one pair's counted steps end and the next pair's begin."""
    return [x[0] - 0.5 for x in _numbers(_runs(comparison)[0])[1:]]


def _numbers(run: _Run) -> list[list[int]]:
    """Number the counted steps of a run through, segment by segment."""
    numbers, first = [], 1
    for segment in run.segments:
        numbers.append(list(range(first, first + len(segment.counted))))
        first += len(segment.counted)
    return numbers


def waits(comparison: Comparison) -> Figure:
    """Draw how long every counted step waited."""
    series = [
        plots.Series(
            label=run.label,
            colour=run.colour,
            x=[x for numbers in _numbers(run) for x in numbers],
            y=[max(_FLOOR_S, step.wait_s) for segment in run.segments for step in segment.counted],
        )
        for run in _runs(comparison)
    ]
    return Figure(
        title="Wait for each step's batch",
        svg=plots.durations_on_log_scale(
            series, x_label="counted step", y_label="wait", breaks=_breaks(comparison)
        ),
        caption="One dot per counted step, on a logarithmic scale; both loaders run the same "
        "steps. The dashed line is where one pair of segments ends and the next begins.",
    )


def loop_time(comparison: Comparison) -> Figure:
    """Draw what a mean step consisted of, for both loaders."""
    both = (comparison.baseline, comparison.headrace)
    bars = [
        plots.Bar(
            label=run.label,
            parts=(
                ("accelerator step", plots.NEUTRAL, 1e3 * comparison.step_s),
                ("waiting for data", plots.ALARM, 1e3 * figures.wait_mean_s),
            ),
        )
        for run, figures in zip(_runs(comparison), both, strict=True)
    ]
    return Figure(
        title="Where the loop's time went",
        svg=plots.bars(bars, x_label="mean time per step [ms]"),
        caption="The accelerator's time is emulated by sleeping, so it costs no CPU.",
    )


def ready_batches(comparison: Comparison) -> Figure:
    """Draw how many batches lay ready at each step; a torch DataLoader does not tell."""
    series = [
        plots.Series(
            label=run.label,
            colour=run.colour,
            x=[x for numbers in _numbers(run) for x in (*numbers, numbers[-1] + 0.5)],
            y=[y for one in run.segments for y in (*_depths(one), math.nan)],
        )
        for run in _runs(comparison)
        if all(one.plan.mode != "torch" for one in run.segments)
    ]
    return Figure(
        title="Batches that lay ready",
        svg=plots.lines(
            series, x_label="counted step", y_label="batches", breaks=_breaks(comparison)
        ),
        caption="Depth of the prefetch queue when the loop asked for its next batch; at zero the "
        "loop waits.",
    )


def _depths(segment: Segment) -> list[int]:
    return [step.ready_batches for step in segment.counted]
