"""The finished benchmark as one value, and the two forms it is told in: JSON and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import msgspec

from bench.measuring import Report, Spread
from bench.offload.counters import AGENTS, DATANODES
from bench.offload.data import Stored
from bench.offload.experiments import DataNodeCost, Measured
from bench.offload.premise import premise_line
from bench.offload.scale import DATASET, SEED, Scale
from bench.offload.trial import Side, Trial, busy_share, side
from headrace.demo.outcome import GOALS, Segment, compared_steps, unequal_steps
from headrace.demo.premise import UTILISATION
from headrace.demo.run import demo_pipeline
from headrace.report.blocks import Table
from headrace.report.units import bytes_, percent, ratio, seconds, significant

NOT_WORSE = 0.95
"""Least throughput beside the baseline's where storage cannot help."""

READERS_KEEP = 0.95
IDLE_CORES = 0.01

BASELINE, OURS = "torch", "headrace"

CACHES = (
    "The page cache is dropped before every segment, so that both loaders read from the "
    "DataNodes' disks."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """Everything the benchmark found out."""

    scale: Scale
    stored: Stored
    measured: Measured

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All comparisons."""
        return (self.measured.main, *self.others.values())

    @property
    def others(self) -> dict[str, Trial]:
        """Comparisons under other premises, by what differs."""
        measured = self.measured
        named = {
            "storage hosts overloaded": measured.busy,
            "equal CPU on both sides": measured.even,
            **{f"step of {seconds(one.premise.step_s)}": one for one in measured.sweep},
        }
        return {name: trial for name, trial in named.items() if trial is not None}

    @property
    def segments(self) -> list[Segment]:
        """All segments of all comparisons."""
        return [segment for trial in self.trials for segment in trial.comparison.segments]

    @property
    def unequal(self) -> list[int]:
        """Steps whose batches differed between loaders; empty as it must be."""
        return unequal_steps(self.segments)

    @property
    def baseline_name(self) -> str:
        """What the baseline is, in words."""
        workers, depth = self.measured.tuning.best
        return (
            f"torch DataLoader with {workers} worker process{'es' if workers > 1 else ''}, "
            f"{depth} batches ahead each"
        )


def report_of(result: Result) -> Report:
    """Return what is printed and written as JSON."""
    measured = result.measured
    main = measured.main
    return Report(
        name="offload",
        settings=_settings(result),
        baseline=msgspec.structs.asdict(side(main.of(BASELINE))),
        headrace=msgspec.structs.asdict(side(main.of(OURS))),
        ratios=main.ratios(),
        goals={name: f"≤ {goal:.2f}" for name, goal in GOALS.items()},
        table=main_table(result),
        further_tables=(*others_tables(result), cost_table(result)),
        further={
            "busy": measured.busy and _trial(measured.busy),
            "even": measured.even and _trial(measured.even),
            "sweep": [_trial(trial) for trial in measured.sweep],
            "datanode_reads": measured.reading and _reading(measured.reading),
            "idle_agent_cores": measured.idle_agent_cores,
            "digests": {"compared": compared_steps(result.segments), "unequal": result.unequal},
            "goals_missed": missed(main),
        },
        repeats=result.scale.pairs,
    )


def missed(trial: Trial) -> dict[str, float]:
    """Return the goals that the median misses, with what was measured."""
    found = {name: one.median for name, one in trial.ratios().items()}
    return {name: found[name] for name, goal in GOALS.items() if not found[name] <= goal}


def _settings(result: Result) -> dict[str, Any]:
    measured = result.measured
    return {
        "scale": msgspec.to_builtins(result.scale),
        "premise": msgspec.to_builtins(measured.main.premise),
        "batch_cpu_s": measured.batch_cpu_s,
        "baseline": result.baseline_name,
        "baseline_tried": {
            f"{workers} x {depth}": step_s
            for (workers, depth), step_s in measured.tuning.tried.items()
        },
        "page_cache": CACHES,
        "dataset": msgspec.to_builtins(DATASET),
        "dataset_samples": result.stored.samples,
        "dataset_bytes": result.stored.size_bytes,
        "dataset_origin": result.stored.origin,
        "seed": SEED,
        "pipeline": msgspec.json.decode(demo_pipeline().to_json()),
    }


def _reading(cost: DataNodeCost) -> dict[str, Any]:
    return {
        "idle_bytes_per_s": cost.idle,
        "beside_bytes_per_s": cost.beside,
        "kept": cost.kept,
        "samples_prepared": cost.prepared,
        "samples_raw": cost.raw,
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "premise": trial.premise,
        "baseline": side(trial.of(BASELINE)),
        "headrace": side(trial.of(OURS)),
        "ratio": {name: one.median for name, one in trial.ratios().items()},
        "ratio_spread": trial.ratios(),
    }


# Tables

Told = Callable[[float], str]

_ROWS: tuple[tuple[str, str, Told, str], ...] = (
    ("loop's time spent waiting for data", "stall_share", percent, "stall"),
    ("stall per step, mean", "wait_mean_s", seconds, ""),
    ("loading latency, P50", "wait_p50_s", seconds, ""),
    ("loading latency, P99", "wait_p99_s", seconds, "p99"),
    ("loading latency, max", "wait_max_s", seconds, ""),
    ("trainer's data-loading CPU per sample", "trainer_cpu_s_per_sample", seconds, "trainer_cpu"),
    ("samples per second", "samples_per_s", significant, "throughput"),
    ("bytes into the trainer host per sample", "trainer_bytes_per_sample", bytes_, ""),
)
"""Label, field, how it is told, and the ratio that belongs to it."""

_CPU_ROWS = (
    ("storage CPU per sample: agents", AGENTS),
    ("storage CPU per sample: DataNodes", DATANODES),
)

_COUNTS: tuple[tuple[str, Callable[[Side], int]], ...] = (
    ("samples prepared by agents", lambda one: one.samples_prepared),
    (
        "samples sent raw by agents, decoded on the trainer",
        lambda one: sum(one.samples_raw.values()),
    ),
    ("samples asked for twice", lambda one: one.samples_hedged),
    ("samples read and decoded on the trainer", lambda one: one.samples_local),
    ("samples replaced, being corrupt", lambda one: one.samples_substituted),
)


def main_table(result: Result) -> Table:
    """Return the comparison under the premise."""
    main = result.measured.main
    return trial_table(
        f"The same {side(main.of(OURS)).steps} steps, without and with headrace",
        main,
        note=f"{_equality(result)} Baseline: {result.baseline_name}, the quickest of "
        f"{len(result.measured.tuning.tried)} settings. {CACHES} {_goals_told(main)}",
    )


def trial_table(title: str, trial: Trial, *, note: str) -> Table:
    """Return one comparison: medians over the pairs, with their range."""
    baseline, ours, ratios = side(trial.of(BASELINE)), side(trial.of(OURS)), trial.ratios()
    rows = [
        (
            label,
            _ranged(getattr(baseline, name), told),
            _ranged(getattr(ours, name), told),
            _ranged(ratios[found], ratio) if found else "",
        )
        for label, name, told, found in _ROWS
    ]
    rows += [
        (
            label,
            seconds(baseline.storage_cpu_s_per_sample[group].median),
            seconds(ours.storage_cpu_s_per_sample[group].median),
            "",
        )
        for label, group in _CPU_ROWS
    ]
    busy = [percent(busy_share(trial, mode)) for mode in (BASELINE, OURS)]
    rows.append(("storage hosts' CPU in use", busy[0], busy[1], ""))
    rows += [(label, str(count(baseline)), str(count(ours)), "") for label, count in _COUNTS]
    return Table(
        title=title,
        columns=("", "baseline", "headrace", "ratio"),
        rows=tuple(rows),
        note=note,
        emphasis=frozenset({2}),
    )


def others_tables(result: Result) -> tuple[Table, ...]:
    """Return what becomes of the ratios when the premise changes, if that was measured."""
    if not result.others:
        return ()
    named = {"as above": result.measured.main, **result.others}
    table = Table(
        title="Where the premise does not hold",
        columns=("", "stall, baseline", "stall, headrace", "P99", "trainer CPU", "throughput"),
        rows=tuple(_other_row(name, trial) for name, trial in named.items()),
        note="Stall: share of the loop's time. The others are headrace / baseline, the median of "
        f"the pairs. Throughput must be at least {NOT_WORSE} everywhere: "
        f"{_not_worse_told(named)}.",
        emphasis=frozenset({5}),
    )
    return (table,)


def _other_row(name: str, trial: Trial) -> tuple[str, ...]:
    ratios = trial.ratios()
    return (
        name,
        percent(side(trial.of(BASELINE)).stall_share.median),
        percent(side(trial.of(OURS)).stall_share.median),
        *(ratio(ratios[one].median) for one in ("p99", "trainer_cpu", "throughput")),
    )


def _not_worse_told(named: Mapping[str, Trial]) -> str:
    worse = [name for name, one in named.items() if one.ratios()["throughput"].median < NOT_WORSE]
    return f"missed for {', '.join(worse)}" if worse else "met"


def cost_table(result: Result) -> Table:
    """Return what agents cost the storage hosts."""
    idle, reading = result.measured.idle_agent_cores, result.measured.reading
    told = f"{percent(idle)} of a core"
    rows = [("an agent without a job", told, _met(idle < IDLE_CORES, "< 1 %"))]
    return Table(
        title="What agents cost the DataNodes",
        columns=("", "measured", "goal"),
        rows=tuple(rows + (_reading_rows(reading) if reading else [])),
        note=_reading_note(reading) if reading else "",
        emphasis=frozenset({1}),
    )


def _reading_rows(cost: DataNodeCost) -> list[tuple[str, str, str]]:
    kept = cost.kept
    return [
        ("plain HDFS readers, agents idle", f"{bytes_(fmean(cost.idle))}/s", ""),
        ("the same while agents transform, guard on", f"{bytes_(fmean(cost.beside))}/s", ""),
        ("readers keep", _ranged(kept, percent), _met(kept.median >= READERS_KEEP, "≥ 95 %")),
    ]


def _reading_note(cost: DataNodeCost) -> str:
    return (
        f"Readers take all they can get. Meanwhile agents prepared {cost.prepared} samples and "
        f"sent {cost.raw} raw."
    )


def _met(met: bool, goal: str) -> str:
    return f"{goal}, {'met' if met else 'missed'}"


def _ranged(one: Spread, told: Told) -> str:
    if one.min == one.max:
        return told(one.median)
    return f"{told(one.median)} ({told(one.min)} to {told(one.max)})"


def _equality(result: Result) -> str:
    compared, unequal = compared_steps(result.segments), result.unequal
    if unequal:
        return f"Batches of {len(unequal)} of {compared} steps DIFFER: {unequal[:8]}."
    return f"All {compared} batches that both loaders made are bit-identical."


def _goals_told(trial: Trial) -> str:
    """Say which goals are missed, and what the fall-backs were."""
    found = missed(trial)
    if not found:
        return "All goals are met."
    told = ", ".join(f"{name} {ratio(value)} > {GOALS[name]:.2f}" for name, value in found.items())
    return f"Missed: {told}."


def premise_told(result: Result) -> str:
    """State the premise and how the step time came about."""
    measured = result.measured
    return (
        f"Premise: {premise_line(measured.main.premise)}. A batch of {result.scale.batch} samples "
        f"takes {seconds(measured.batch_cpu_s)} of CPU to prepare; the step is as long as agents "
        f"need for it when the storage hosts are {percent(UTILISATION)} busy in all, below the "
        "80 % at which agents send raw bytes instead."
    )
