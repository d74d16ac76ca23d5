"""The demo's report: what was compared, what came out, and everything needed to doubt it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from headrace.demo.drawings import headlines, loop_time, ready_batches, segment_spans, waits
from headrace.demo.meter import CpuSample
from headrace.demo.premise import premise_line
from headrace.demo.result import DemoResult, tables
from headrace.report import plots
from headrace.report.blocks import Block, Facts, Figure, Page, Prose
from headrace.report.units import bytes_, percent, ratio, seconds

HOST_WORK, TRAINER, AGENTS = "host work", "trainer", "agents"


def report_page(result: DemoResult) -> Page:
    """Return the whole report."""
    main_table, off_table = tables(result)
    return Page(
        title="headrace demo: one training loop, fed twice",
        lead=_lead(result),
        blocks=(
            headlines(result.main),
            Prose(text=f"Premise: {premise_line(result.premise)}."),
            main_table,
            waits(result.main),
            *_where_time_went(result),
            ready_batches(result.main),
            _cpus(result),
            off_table,
            _facts(result),
        ),
    )


def _lead(result: DemoResult) -> str:
    baseline, headrace = result.main.baseline, result.main.headrace
    return (
        f"The same {baseline.steps} steps, first with {result.baseline_name}, then with headrace, "
        "whose agents prepare the samples of the coming steps on the storage side. The loop waited "
        f"{percent(baseline.stall_share)} of its time for data before and "
        f"{percent(headrace.stall_share)} with headrace. Every batch is the same, bit by bit."
        if not result.unequal
        else "The batches of the two loaders DIFFER; no other figure on this page counts."
    )


def _where_time_went(result: DemoResult) -> Sequence[Block]:
    baseline, headrace = result.main.baseline, result.main.headrace
    on_trainer, on_storage = ("on the trainer", plots.BASELINE), ("on storage", plots.OURS)
    cpu = (
        plots.Bar(
            label="baseline", parts=((*on_trainer, 1e3 * baseline.trainer_cpu_s_per_sample),)
        ),
        plots.Bar(
            label="headrace",
            parts=(
                (*on_trainer, 1e3 * headrace.trainer_cpu_s_per_sample),
                (*on_storage, 1e3 * _storage_cpu_s(result)),
            ),
        ),
    )
    return (
        loop_time(result.main),
        Figure(
            title="Where the CPU time of loading was spent",
            svg=plots.bars(cpu, x_label="CPU time per sample [ms]"),
            caption="headrace moves the work to where CPUs are idle; it does not make it vanish. "
            "Storage time is all that the agents spent, on warm-up steps and on samples prepared "
            "ahead that no step asked for any more when a segment ended too.",
        ),
    )


def _storage_cpu_s(result: DemoResult) -> float:
    """Return the agents' CPU time over the main comparison, per sample delivered [s]."""
    segments = result.main.segments
    begin, end = segments[0].steps[0].begin_s, segments[-1].steps[-1].end_s
    delivered = sum(
        step.samples for one in segments if one.plan.mode == "headrace" for step in one.steps
    )
    return spent_between(result.cpu, AGENTS, begin, end) / delivered


def spent_between(samples: Sequence[CpuSample], group: str, begin_s: float, end_s: float) -> float:
    """Return the CPU time [s] that a group of processes spent in a stretch of time."""
    total = 0.0
    for before, sample in pairwise(samples):
        inside = min(sample.at_s, end_s) - max(before.at_s, begin_s)
        total += max(0.0, inside) * sample.of.get(group, 0.0)
    return total


def _cpus(result: DemoResult) -> Figure:
    begin = result.segments[0].steps[0].begin_s
    samples = [sample for sample in result.cpu if sample.at_s >= begin]
    origin = samples[0].at_s
    at = [sample.at_s - origin for sample in samples]
    trainer_cpus = len(result.premise.cpus.trainer)
    storage_cpus = len(result.premise.cpus.storage)
    host = [_share(sample, HOST_WORK, trainer_cpus) for sample in samples]
    loading = [_share(sample, TRAINER, trainer_cpus) for sample in samples]
    agents = [_share(sample, AGENTS, storage_cpus) for sample in samples]
    trainer = (
        plots.Series(label="host work", colour=plots.NEUTRAL, x=at, y=host),
        plots.Series(label="training process", colour=plots.BASELINE, x=at, y=loading),
        plots.Series(
            label="other", colour=plots.MUTED, x=at, y=_rest(samples, "trainer", host, loading)
        ),
    )
    storage = (
        plots.Series(label="agents", colour=plots.OURS, x=at, y=agents),
        plots.Series(label="other", colour=plots.MUTED, x=at, y=_rest(samples, "storage", agents)),
    )
    return Figure(
        title="CPU of both sides over time",
        svg=plots.areas(
            [("Trainer's CPUs", trainer), ("Storage's CPUs", storage)],
            segment_spans(result.segments, origin_s=origin),
            x_label="time [s]",
            y_label="busy",
        ),
        caption="The last two segments have the premise turned off. Between segments trainer "
        "processes start; other: this demo itself, and whatever else ran on the machine.",
    )


def _share(sample: CpuSample, group: str, cpus: int) -> float:
    return min(1.0, sample.of.get(group, 0.0) / cpus)


def _rest(samples: Sequence[CpuSample], side: str, *known: Sequence[float]) -> list[float]:
    return [
        max(0.0, sample.busy[side] - sum(values))
        for sample, *values in zip(samples, *known, strict=True)
    ]


def _facts(result: DemoResult) -> Facts:
    dataset = result.dataset
    plan = result.main.segments[0].plan
    substituted = {
        sample: reason
        for segment in result.segments
        for sample, reason in segment.end.substituted.items()
    }
    return Facts(
        title="How to doubt this",
        items=(
            *result.provenance.facts(),
            ("premise", premise_line(result.premise)),
            ("premise off", premise_line(result.premise_off)),
            (
                "step time",
                f"calibrated: storage's CPUs prepare a batch in {seconds(result.prepare_batch_s)}",
            ),
            ("baseline", f"{result.baseline_name} ({result.tuning})"),
            (
                "batches",
                f"{plan.batch_size} samples; {plan.warmup_steps} warm-up steps per segment are "
                "left out for both loaders; segments run in turns",
            ),
            ("stall, per pair", ", ".join(ratio(one.stall) for one in result.main.repeats)),
            (
                "trainer CPU, per pair",
                ", ".join(ratio(one.trainer_cpu) for one in result.main.repeats),
            ),
            (
                "dataset",
                f"{dataset.samples} samples, {bytes_(dataset.size_bytes)}. {dataset.origin}",
            ),
            ("substituted", "; ".join(f"{n}: {why}" for n, why in substituted.items()) or "none"),
            ("pipeline", result.pipeline),
        ),
    )
