"""The report: load times against the baseline's, and how soon a checkpoint is at the far side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bench.evaluation.experiments import Found, Loaded
from bench.evaluation.scale import Scale
from bench.measuring import Report, Spread, quotients, spread
from headrace.report.blocks import Table
from headrace.report.units import bytes_, ratio, seconds
from testbed import Scenario

GOALS = {"with_copy": "≤ 0.05 (original 0.239)", "without_copy": "≤ 0.30"}


def report_of(scale: Scale, scenario: Scenario, found: Found) -> Report:
    """Return the report."""
    base = [one.wall_s for one in found.baseline]
    return Report(
        name="evaluation",
        settings={"scale": msgspec.to_builtins(scale), "baseline": found.best},
        baseline=_side(found.baseline),
        headrace={
            "without_copy": _side(found.without_copy),
            "with_copy": _side(found.with_copy),
        },
        ratios={
            "with_copy": quotients([one.wall_s for one in found.with_copy], base),
            "without_copy": quotients([one.wall_s for one in found.without_copy], base),
        },
        goals=GOALS,
        table=_loads(scale, scenario, found),
        repeats=scale.repeats,
        further={
            "tuning_s": {
                name: None if math.isinf(wall) else wall for name, wall in found.tuning.items()
            },
            "safetensors": _tensors(found),
            "replication": _replication(found),
            "urgent": _urgent(scale, found) if found.beside else None,
        },
        further_tables=(_tuning(found), _tensors_table(found), *_copies(scale, found)),
    )


def premise_line(scale: Scale, scenario: Scenario) -> str:
    """State the premise in one line."""
    assert scenario.wan is not None
    evaluators = next(group for group in scenario.hosts if group.prefix == "evaluator")
    return (
        f"{evaluators.count} hosts of {scale.ranks_per_host} ranks, each of which holds the whole "
        f"model of {scale.model.tensors} tensors; the line has "
        f"{bytes_(scenario.wan.rate_mbit_per_s * 1e6 / 8)}/s and a round trip of "
        f"{2 * scenario.wan.delay_ms:g} ms; the checkpoint was saved by {scale.saving_ranks} ranks "
        "with its optimizer's state, which is not loaded"
    )


def _side(loads: Sequence[Loaded]) -> dict[str, Any]:
    found: dict[str, Spread] = {
        "load_s": spread([one.wall_s for one in loads]),
        "cpu_s": spread([one.cpu_s for one in loads]),
        "line_bytes": spread([float(one.line_bytes) for one in loads]),
        "shared_bytes": spread([float(one.shared_bytes) for one in loads]),
    }
    described: dict[str, Any] = msgspec.to_builtins(found)
    return described


def _loads(scale: Scale, scenario: Scenario, found: Found) -> Table:
    rows: Mapping[str, Sequence[Loaded]] = {
        f"baseline: DCP over fsspec, {found.best}": found.baseline,
        "headrace, without the copy": found.without_copy,
        "headrace, with the copy": found.with_copy,
    }
    return Table(
        title="loading the model at the other site",
        columns=("", "load", "crossed the line", "shared in hosts", "CPU of ranks"),
        rows=tuple((name, *_cells(_side(loads))) for name, loads in rows.items()),
        note=premise_line(scale, scenario),
        emphasis=frozenset({1}),
    )


def _cells(side: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return (
        seconds(side["load_s"]["median"]),
        bytes_(side["line_bytes"]["median"]),
        bytes_(side["shared_bytes"]["median"]),
        seconds(side["cpu_s"]["median"]),
    )


def _tuning(found: Found) -> Table:
    return Table(
        title="the baseline, as it was tuned",
        columns=("cache of fsspec", "load"),
        rows=tuple(
            (name, "did not end in time" if math.isinf(wall) else seconds(wall))
            for name, wall in found.tuning.items()
        ),
    )


def _tensors(found: Found) -> dict[str, Any]:
    base, ours = found.tensors["fsspec"], found.tensors["headrace"]
    return {
        "fsspec": _side(base),
        "headrace": _side(ours),
        "load_ratio": msgspec.to_builtins(
            quotients([one.wall_s for one in ours], [one.wall_s for one in base])
        ),
    }


def _tensors_table(found: Found) -> Table:
    told = _tensors(found)
    return Table(
        title="the model as safetensors, through the line, by one rank",
        columns=("fsspec and safetensors", "headrace.safetensors", "headrace / fsspec"),
        rows=(
            (
                seconds(told["fsspec"]["load_s"]["median"]),
                seconds(told["headrace"]["load_s"]["median"]),
                ratio(told["load_ratio"]["median"]),
            ),
        ),
    )


def _replication(found: Found) -> dict[str, Any]:
    files = found.file_copies[found.best_workers]
    return {
        "file_copy_workers": found.best_workers,
        "file_copies": {str(n): msgspec.to_builtins(all_) for n, all_ in found.file_copies.items()},
        "headrace": msgspec.to_builtins(found.copies),
        "readable_ratio": msgspec.to_builtins(
            quotients([one.readable_s for one in found.copies], [one.readable_s for one in files])
        ),
    }


def _urgent(scale: Scale, found: Found) -> dict[str, Any]:
    pairs = zip(found.beside, found.alone, strict=True)
    busiest = [one.busiest_bytes_per_s for one in (*found.alone, *found.beside)]
    return {
        "alone": msgspec.to_builtins(found.alone),
        "beside_others": msgspec.to_builtins(found.beside),
        "beside_over_alone": msgspec.to_builtins(
            spread([one.readable_s / other.readable_s for one, other in pairs])
        ),
        "goal": "≤ 1.2",
        "budget_bytes_per_s": scale.budget_bytes_per_s,
        "busiest_second_over_budget": max(busiest) / scale.budget_bytes_per_s,
    }


def _copies(scale: Scale, found: Found) -> tuple[Table, ...]:
    told = _replication(found)
    files = found.file_copies[found.best_workers]
    copies = Table(
        title="from the save at home until it can be read away",
        columns=(f"file copy, {found.best_workers} workers", "headrace", "headrace / file copy"),
        rows=(
            (
                seconds(spread([one.readable_s for one in files]).median),
                seconds(spread([one.readable_s for one in found.copies]).median),
                ratio(told["readable_ratio"]["median"]),
            ),
        ),
    )
    return (copies, _urgent_table(scale, found)) if found.beside else (copies,)


def _urgent_table(scale: Scale, found: Found) -> Table:
    told = _urgent(scale, found)
    return Table(
        title="an urgent checkpoint, and the budget of all copies",
        columns=("alone", "beside others", "beside / alone", "busiest second / budget"),
        rows=(
            (
                seconds(spread([one.readable_s for one in found.alone]).median),
                seconds(spread([one.readable_s for one in found.beside]).median),
                ratio(told["beside_over_alone"]["median"]),
                ratio(told["busiest_second_over_budget"]),
            ),
        ),
        note=f"budget {bytes_(scale.budget_bytes_per_s)}/s, {scale.others} checkpoints of other "
        "jobs under way; goal of beside / alone ≤ 1.2; bytes on the line, headers and HDFS's "
        "checksums included",
    )
