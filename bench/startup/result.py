"""The report: load times, what they are against the baseline and against the links' bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from bench.measuring import Report, Spread, quotients, spread
from bench.startup.bound import FORMULA, Bound
from bench.startup.experiments import Found, Measured
from bench.startup.scale import Scale
from headrace.report.blocks import Table
from headrace.report.units import bytes_, ratio, seconds

GOALS = {"load_time": "≤ 0.25 (original 0.592)", "vs_bandwidth_bound": "≤ 1.3"}


def report_of(scale: Scale, bound: Bound, found: Found) -> Report:
    """Return the report."""
    walls = [one.wall_s for one in found.ours]
    return Report(
        name="startup",
        settings={
            "scale": msgspec.to_builtins(scale),
            "bound": {**msgspec.to_builtins(bound), "seconds": bound.seconds, "formula": FORMULA},
            "baseline": found.best,
        },
        baseline=_side(found.baseline),
        headrace=_side(found.ours),
        ratios={
            "load_time": quotients(walls, [one.wall_s for one in found.baseline]),
            "vs_bandwidth_bound": spread([wall / bound.seconds for wall in walls]),
        },
        goals=GOALS,
        table=_table(scale, bound, found),
        repeats=scale.repeats,
        further={
            "tuning_s": {
                name: None if math.isinf(wall) else wall for name, wall in found.tuning.items()
            },
            "ablations": found.ablations,
            "ample_links": found.ample,
        },
        further_tables=(_tuning(found), *_others(found)),
    )


def premise_line(scale: Scale, bound: Bound) -> str:
    """State the premise in one line."""
    return (
        f"{bound.hosts * scale.ranks_per_host} ranks on {bound.hosts} hosts at "
        f"{bytes_(bound.host_bytes_per_s)}/s, {bound.datanodes} DataNodes at "
        f"{bytes_(bound.datanode_bytes_per_s)}/s each; {bytes_(bound.own_bytes)} of shards, and "
        f"{bytes_(bound.shared_bytes)} that every rank reads, on 3 DataNodes; at least "
        f"{bytes_(bound.crossing_bytes)} have to cross, in {seconds(bound.seconds)}"
    )


def _side(loads: Sequence[Measured]) -> dict[str, Any]:
    slowest = [max(one.sent_bytes) / max(1.0, sum(one.sent_bytes)) for one in loads]
    found: dict[str, Spread] = {
        "load_s": spread([one.wall_s for one in loads]),
        "cpu_s": spread([one.cpu_s for one in loads]),
        "sent_bytes": spread([float(sum(one.sent_bytes)) for one in loads]),
        "busiest_datanode_share": spread(slowest),
    }
    if any(one.copies for one in loads):
        found["ready_s"] = spread([one.ready_s for one in loads])
        found["copies"] = spread([float(one.copies) for one in loads])
        found["ready_and_load_s"] = spread([one.ready_s + one.wall_s for one in loads])
    described: dict[str, Any] = msgspec.to_builtins(found)
    return described


def _table(scale: Scale, bound: Bound, found: Found) -> Table:
    rows = [_row(f"baseline: DCP over fsspec, {found.best}", found.baseline)]
    rows += [_row("headrace: announced", found.ours)]
    rows += [_row(f"headrace: {name}", [one]) for name, one in found.ablations.items()]
    return Table(
        title="loading a checkpoint behind a barrier",
        columns=("", "load", "made ready in", "copies", "sent by DataNodes", "CPU of ranks"),
        rows=tuple(rows),
        note=premise_line(scale, bound),
        emphasis=frozenset({1}),
    )


def _row(name: str, loads: Sequence[Measured]) -> tuple[str, ...]:
    side = _side(loads)
    announced = "ready_s" in side
    return (
        name,
        seconds(side["load_s"]["median"]),
        seconds(side["ready_s"]["median"]) if announced else "",
        f"{side['copies']['median']:.0f}" if announced else "",
        bytes_(side["sent_bytes"]["median"]),
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


def _others(found: Found) -> tuple[Table, ...]:
    if not found.ample:
        return ()
    walls = {name: one.wall_s for name, one in found.ample.items()}
    return (
        Table(
            title="the premise turned off: links that do not bound, one rank per host",
            columns=("baseline", "headrace", "headrace / baseline"),
            rows=(
                (
                    seconds(walls["baseline"]),
                    seconds(walls["headrace"]),
                    ratio(walls["headrace"] / walls["baseline"]),
                ),
            ),
        ),
    )
