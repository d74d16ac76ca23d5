"""A finished demo as one value, and the two forms it is told in: JSON and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from headrace.demo.comparison import Comparison
from headrace.demo.dataset import DemoDataset
from headrace.demo.meter import CpuSample
from headrace.demo.outcome import (
    GOALS,
    Figures,
    Ratio,
    Segment,
    compared_steps,
    missed_goals,
    unequal_steps,
)
from headrace.demo.premise import Premise
from headrace.report.blocks import Table
from headrace.report.provenance import Provenance
from headrace.report.units import bytes_, percent, seconds, significant
from headrace.report.units import ratio as ratio_text


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoResult:
    """Everything a demo found out."""

    provenance: Provenance
    dataset: DemoDataset
    pipeline: str
    baseline_name: str
    """What the baseline is, in words."""

    tuning: str
    """What was tried for the baseline, and how fast it was."""

    premise: Premise
    main: Comparison
    premise_off: Premise
    off: Comparison
    """The premise turned off."""

    cpu: tuple[CpuSample, ...]
    agents: int
    prepare_batch_s: float
    """Calibrated time in which the storage side's CPUs prepare one batch [s]."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments of both comparisons."""
        return self.main.segments + self.off.segments

    @property
    def unequal(self) -> list[int]:
        """Steps whose batches differed between loaders; empty as it must be."""
        return unequal_steps(self.segments)


def result_document(result: DemoResult) -> dict[str, Any]:
    """Return the object that BENCHMARKS describes, under the name ``demo``."""
    made_at = result.provenance
    return {
        "name": "demo",
        "date": made_at.date,
        "machine": made_at.machine,
        "commit": made_at.commit,
        "command": made_at.command,
        "settings": _settings(result),
        **_comparison_json(result.main),
        "premise_off": _comparison_json(result.off),
        "digests": {"compared": compared_steps(result.segments), "unequal": result.unequal},
        "goals_missed": missed_goals(result.main.ratio),
    }


def _settings(result: DemoResult) -> dict[str, Any]:
    plan = result.main.segments[0].plan
    return {
        "premise": result.premise,
        "premise_off": result.premise_off,
        "baseline": f"{result.baseline_name} ({result.tuning})",
        "batch_size": plan.batch_size,
        "baseline_workers": plan.workers,
        "seed": plan.seed,
        "warmup_steps_per_segment": plan.warmup_steps,
        "agents": result.agents,
        "prepare_batch_s": result.prepare_batch_s,
        "dataset_samples": result.dataset.samples,
        "dataset_bytes": result.dataset.size_bytes,
        "dataset_origin": result.dataset.origin,
        "pipeline": msgspec.Raw(result.pipeline.encode()),
    }


def _comparison_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "baseline": comparison.baseline,
        "headrace": comparison.headrace,
        "ratio": _finite(comparison.ratio),
        "repeats": [_finite(one) for one in comparison.repeats],
    }


def _finite(measured: Ratio) -> dict[str, float | None]:
    values: dict[str, float] = msgspec.structs.asdict(measured)
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def tables(result: DemoResult) -> Sequence[Table]:
    """Return the comparison, and the one with the premise off, for people."""
    main = _table(
        f"The same {result.main.baseline.steps} steps, without and with headrace",
        result.main,
        goals=True,
        note=f"Baseline: {result.baseline_name} ({result.tuning}). {_note(result)}",
    )
    off = _table(
        "Premise off: no host work, no accelerator time, equal CPU",
        result.off,
        goals=False,
        note=f"Same samples; {result.off.baseline.steps} steps as fast as they come.",
    )
    return main, off


def _note(result: DemoResult) -> str:
    compared, unequal = compared_steps(result.segments), result.unequal
    equal = (
        f"All {compared} batches that both loaders made are bit-identical."
        if not unequal
        else f"Batches of {len(unequal)} of {compared} steps DIFFER: {unequal[:8]}."
    )
    warmup = result.main.segments[0].plan.warmup_steps
    return (
        f"{equal} The first {warmup} steps of every segment, of which the very first lasts longer, "
        f"are not counted, for either loader.{_busy(result)}"
    )


def _busy(result: DemoResult) -> str:
    """Say so when something else than the demo kept the storage side's CPUs from its agents."""
    busy = result.main.headrace.raw_reasons.get("busy", 0)
    if not busy:
        return ""
    return (
        f" Agents sent {busy} samples raw because other work kept their CPUs busy: run again on "
        "an idle machine to see them all prepared."
    )


_Told = Callable[[Figures], str]

_ROWS: tuple[tuple[str, _Told, str], ...] = (
    ("loop's time spent waiting for data", lambda f: percent(f.stall_share), "stall"),
    ("wait per step, median", lambda f: seconds(f.wait_p50_s), ""),
    ("wait per step, P99", lambda f: seconds(f.wait_p99_s), "p99"),
    ("trainer CPU per sample", lambda f: seconds(f.trainer_cpu_s_per_sample), "trainer_cpu"),
    ("samples per second", lambda f: significant(f.samples_per_s), "throughput"),
    ("bytes on the wire", lambda f: bytes_(f.wire_bytes), ""),
    ("samples prepared by agents", lambda f: str(f.samples_prepared), ""),
    ("samples decoded on the trainer", lambda f: str(f.samples_local), ""),
    ("samples sent raw", lambda f: str(f.samples_raw), ""),
    ("samples hedged", lambda f: str(f.samples_hedged), ""),
    ("samples substituted (corrupt)", lambda f: str(f.samples_substituted), ""),
)
"""Label, how a figure is told, and the ratio that belongs to it."""


def _goal(name: str, measured: float) -> str:
    if name not in GOALS:
        return ""
    return f"≤ {GOALS[name]:.2f} {'met' if measured <= GOALS[name] else 'missed'}"


def _table(title: str, comparison: Comparison, *, goals: bool, note: str) -> Table:
    ratios = msgspec.structs.asdict(comparison.ratio)
    baseline, headrace = comparison.baseline, comparison.headrace
    rows = [
        (
            label,
            told(baseline),
            told(headrace),
            ratio_text(ratios[name]) if name else "",
            _goal(name, ratios[name]) if name else "",
        )
        for label, told, name in _ROWS
    ]
    columns = ("", "baseline", "headrace", "ratio", "goal")
    shown = len(columns) if goals else len(columns) - 1
    return Table(
        title=title,
        columns=columns[:shown],
        rows=tuple(row[:shown] for row in rows),
        note=note,
        emphasis=frozenset({2}),
    )
