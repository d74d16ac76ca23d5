"""The benchmark's report as a page: what was compared, what came out, and how to doubt it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.offload.counters import AGENTS, BACKGROUND, DATANODES, TRAINER
from bench.offload.premise import premise_line
from bench.offload.result import (
    BASELINE,
    CACHES,
    OURS,
    Result,
    cost_table,
    main_table,
    others_tables,
    premise_told,
)
from bench.offload.trial import Trial, side
from headrace.demo.drawings import loop_time, ready_batches, segment_spans, waits
from headrace.demo.meter import CpuSample
from headrace.report import plots
from headrace.report.blocks import Block, Facts, Figure, Headline, Headlines, Page, Prose
from headrace.report.provenance import provenance
from headrace.report.units import bytes_, percent, ratio, seconds, significant


def report_page(result: Result, cpu: Sequence[CpuSample]) -> Page:
    """Return the whole report.

    Args:
        result: What was measured.
        cpu: Samples of the hosts' CPU over the whole run.
    """
    main = result.measured.main
    sweep = (_sweep(result),) if result.measured.sweep else ()
    blocks: tuple[Block, ...] = (
        _headlines(main),
        Prose(text=premise_told(result)),
        main_table(result),
        waits(main.comparison),
        _latencies(main),
        loop_time(main.comparison),
        _cpu_per_sample(main),
        ready_batches(main.comparison),
        _cpu_over_time(main, cpu),
        *others_tables(result),
        *sweep,
        cost_table(result),
        _facts(result),
    )
    return Page(title="headrace offload: an emulated cluster", lead=_lead(result), blocks=blocks)


def _lead(result: Result) -> str:
    if result.unequal:
        return "The batches of the two loaders DIFFER; no other figure on this page counts."
    baseline, ours = side(result.measured.main.of(BASELINE)), side(result.measured.main.of(OURS))
    return (
        f"One trainer host reads {result.stored.samples} photographs and clips from HDFS on three "
        f"storage hosts. With a {result.baseline_name}, it waited "
        f"{percent(baseline.stall_share.median)} of its time for data; with headrace, whose agents "
        f"prepare samples beside the DataNodes, {percent(ours.stall_share.median)}. Every batch is "
        "the same, bit by bit."
    )


def _headlines(trial: Trial) -> Headlines:
    """Return the four ratios as the table tells them: medians over the pairs of segments."""
    baseline, ours, ratios = side(trial.of(BASELINE)), side(trial.of(OURS)), trial.ratios()
    told: tuple[tuple[str, str, str, Callable[[float], str]], ...] = (
        ("stall", "time waiting for data", "stall_share", percent),
        ("p99", "P99 wait per step", "wait_p99_s", seconds),
        ("trainer_cpu", "trainer CPU per sample", "trainer_cpu_s_per_sample", seconds),
        ("throughput", "samples per second", "samples_per_s", significant),
    )
    return Headlines(
        items=tuple(
            Headline(
                value=f"× {ratio(ratios[name].median)}",
                label=label,
                detail=f"{tell(getattr(baseline, key).median)} → {tell(getattr(ours, key).median)}",
            )
            for name, label, key, tell in told
        )
    )


def _latencies(trial: Trial) -> Figure:
    """Draw which part of the steps waited how long at most."""
    series = [
        plots.Series(
            label=label, colour=colour, x=_sorted_waits(trial, mode), y=_shares(trial, mode)
        )
        for label, colour, mode in (
            ("baseline", plots.BASELINE, BASELINE),
            ("headrace", plots.OURS, OURS),
        )
    ]
    return Figure(
        title="How many steps waited how long",
        svg=plots.shares_of_durations(series, x_label="wait for the batch", y_label="steps"),
        caption="Share of the counted steps that waited no longer than this; the axis is "
        "logarithmic.",
    )


def _sorted_waits(trial: Trial, mode: str) -> list[float]:
    return sorted(step.wait_s for segment, _ in trial.of(mode) for step in segment.counted)


def _shares(trial: Trial, mode: str) -> list[float]:
    count = len(_sorted_waits(trial, mode))
    return [(number + 1) / count for number in range(count)]


def _cpu_per_sample(trial: Trial) -> Figure:
    bars = []
    for label, mode in (("baseline", BASELINE), ("headrace", OURS)):
        found = side(trial.of(mode))
        on_storage = found.storage_cpu_s_per_sample
        parts = (
            ("trainer", plots.BASELINE, 1e3 * found.trainer_cpu_s_per_sample.median),
            ("DataNodes", plots.NEUTRAL, 1e3 * on_storage[DATANODES].median),
            ("agents", plots.OURS, 1e3 * on_storage[AGENTS].median),
        )
        bars.append(plots.Bar(label=label, parts=parts))
    return Figure(
        title="Where the CPU time of loading was spent",
        svg=plots.bars(bars, x_label="CPU time per sample [ms]"),
        caption="headrace moves the work to where CPUs are idle; it does not make it vanish. "
        "Agents also work ahead: a part of what they spend meanwhile is for later steps.",
    )


def _cpu_over_time(trial: Trial, cpu: Sequence[CpuSample]) -> Figure:
    segments = trial.comparison.segments
    origin, end = segments[0].steps[0].begin_s, segments[-1].steps[-1].end_s
    samples = [sample for sample in cpu if origin <= sample.at_s <= end]
    quotas = trial.premise.quotas
    trainer = _areas(samples, [("trainer host", plots.BASELINE, TRAINER)], cores=quotas.trainer)
    storage = _areas(
        samples,
        [
            ("background", plots.NEUTRAL, BACKGROUND),
            ("DataNodes", plots.ALARM, DATANODES),
            ("agents", plots.OURS, AGENTS),
        ],
        cores=quotas.all_storage,
    )
    return Figure(
        title="CPU of both sides over time",
        svg=plots.areas(
            [("Trainer host, of its quota", trainer), ("Storage hosts, of their quotas", storage)],
            segment_spans(segments, origin_s=origin),
            x_label="time [s]",
            y_label="used",
        ),
        caption="The main comparison. Between segments the next trainer process starts, for which "
        "the trainer host's quota is lifted.",
    )


def _areas(
    samples: Sequence[CpuSample], groups: Sequence[tuple[str, str, str]], *, cores: float
) -> list[plots.Series]:
    """Return an area for each (label, colour, group): the part of ``cores`` that it used."""
    return [
        plots.Series(
            label=label,
            colour=colour,
            x=[sample.at_s - samples[0].at_s for sample in samples],
            y=[min(1.0, sample.of.get(group, 0.0) / cores) for sample in samples],
        )
        for label, colour, group in groups
    ]


def _sweep(result: Result) -> Figure:
    measured = result.measured
    trials = sorted((measured.main, *measured.sweep), key=lambda trial: trial.premise.step_s)
    series = [
        plots.Series(
            label=label,
            colour=colour,
            x=[trial.premise.step_s for trial in trials],
            y=[side(trial.of(mode)).stall_share.median for trial in trials],
        )
        for label, colour, mode in (
            ("baseline", plots.BASELINE, BASELINE),
            ("headrace", plots.OURS, OURS),
        )
    ]
    return Figure(
        title="Where offloading stops to matter",
        svg=plots.points(series, x_label="step time [s]", y_label="time spent waiting"),
        caption="Share of the loop's time spent waiting for data, over the accelerator's time per "
        "step. Short steps are more than storage's idle CPU can feed; with long ones the trainer "
        "keeps up by itself.",
    )


def _facts(result: Result) -> Facts:
    measured = result.measured
    main = measured.main
    ratios = main.comparison.repeats
    tried = "; ".join(
        f"{workers} x {depth}: {seconds(step_s)} a step"
        for (workers, depth), step_s in measured.tuning.tried.items()
    )
    return Facts(
        title="How to doubt this",
        items=(
            *provenance().facts(),
            ("premise", premise_line(main.premise)),
            *((name, premise_line(trial.premise)) for name, trial in result.others.items()),
            ("baseline", f"{result.baseline_name}. Tried, workers x batches ahead: {tried}"),
            (
                "batches",
                f"{result.scale.batch} samples; the first {result.scale.warmup_steps} steps of a "
                "segment do not count, for either loader; they take turns over the same steps",
            ),
            ("page cache", CACHES),
            ("stall, per pair", ", ".join(ratio(one.stall) for one in ratios)),
            ("P99, per pair", ", ".join(ratio(one.p99) for one in ratios)),
            ("trainer CPU, per pair", ", ".join(ratio(one.trainer_cpu) for one in ratios)),
            ("throughput, per pair", ", ".join(ratio(one.throughput) for one in ratios)),
            (
                "dataset",
                f"{result.stored.samples} samples, {bytes_(result.stored.size_bytes)}. "
                f"{result.stored.origin}",
            ),
        ),
    )
