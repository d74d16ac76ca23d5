"""``python -m bench.analyse``: the same files through headrace and through other analysers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from bench.analyse import tools
from bench.analyse.data import real_traces, write_dftracer, write_kineto
from bench.analyse.tools import Run, Tool
from bench.measuring import Options, Report, end_with, options, publish, quotients, spread
from headrace.report.blocks import Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How much is measured."""

    dftracer_copies: int = 56
    """Of a trace of 18,039 events."""

    kineto_copies: int = 20
    """Of a profile of 44,665 events."""

    repeats: int = 3


QUICK = Scale(dftracer_copies=1, kineto_copies=1, repeats=1)


@dataclass(frozen=True, slots=True)
class Matter:
    """One trace, once short and once long, and who analyses it."""

    short: Path
    long: Path
    events: int
    """In the long one."""

    baseline: Tool


@dataclass(frozen=True, slots=True)
class Measured:
    """Runs over one trace; ``short`` ones are single and warm the disk's cache."""

    events: int
    short: Mapping[str, Run]
    long: Mapping[str, Sequence[Run]]


def main(given: Options) -> None:
    """Measure and report."""
    scale = QUICK if given.quick else Scale()
    real = real_traces()
    with tempfile.TemporaryDirectory() as folder:
        publish(measure(matters(real, Path(folder), scale), scale), given.json)


def matters(real: Path, folder: Path, scale: Scale) -> dict[str, Matter]:
    """Install the baselines and write the traces."""
    baselines = {"dfanalyzer": tools.dfanalyzer(), "hta": tools.hta()}
    pfw, profile = folder / "pfw", folder / "profile"
    write_dftracer(real, pfw / "short", 1)
    write_kineto(real, profile / "short.json", 1)
    return {
        "dfanalyzer": Matter(
            pfw / "short",
            pfw / "long",
            write_dftracer(real, pfw / "long", scale.dftracer_copies),
            baselines["dfanalyzer"],
        ),
        "hta": Matter(
            profile / "short.json",
            profile / "long.json",
            write_kineto(real, profile / "long.json", scale.kineto_copies),
            baselines["hta"],
        ),
    }


def measure(found: Mapping[str, Matter], scale: Scale) -> Report:
    """Run headrace and the baselines in turn."""
    return _report({name: _measured(one, scale.repeats) for name, one in found.items()}, scale)


def _measured(matter: Matter, repeats: int) -> Measured:
    contenders = {"baseline": matter.baseline, "headrace": tools.headrace()}
    short = {name: _run(tool, matter.short) for name, tool in contenders.items()}
    long: dict[str, list[Run]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, tool in contenders.items():
            long[name].append(_run(tool, matter.long))
    return Measured(matter.events, short, long)


def _run(tool: Tool, trace: Path) -> Run:
    """Run a tool on files of its own: what it leaves beside them is no help to the next run."""
    with tempfile.TemporaryDirectory(dir=trace.parent) as folder:
        copy = Path(folder, trace.name)
        files = trace.iterdir() if trace.is_dir() else [trace]
        for file in files:
            place = copy / file.name if trace.is_dir() else copy
            place.parent.mkdir(exist_ok=True)
            os.link(file, place)
        written = Path(folder, "written")
        written.mkdir()
        return tools.run(tool, copy, written)


def _report(found: Mapping[str, Measured], scale: Scale) -> Report:
    return Report(
        name="analyse",
        settings={
            **msgspec.to_builtins(scale),
            "events": {name: one.events for name, one in found.items()},
            "baselines": {"dfanalyzer": tools.DFANALYZER, "hta": tools.HTA},
        },
        baseline={name: _figures(one, "baseline") for name, one in found.items()},
        headrace={name: _figures(one, "headrace") for name, one in found.items()},
        ratios={
            f"vs_{name}{what}": quotients(
                [getattr(run, field) for run in one.long["baseline"]],
                [getattr(run, field) for run in one.long["headrace"]],
            )
            for name, one in found.items()
            for what, field in (("", "wall_s"), ("_cpu", "cpu_s"))
        },
        goals={f"vs_{name}": "≥ 5" for name in found},
        table=_table(found),
        repeats=scale.repeats,
    )


def _figures(measured: Measured, side: str) -> dict[str, Any]:
    runs = measured.long[side]
    return {
        "events_per_s": spread([measured.events / run.wall_s for run in runs]),
        "wall_s": spread([run.wall_s for run in runs]),
        "cpu_s": spread([run.cpu_s for run in runs]),
        "peak_bytes": max(run.peak_bytes for run in runs),
        "told_events": runs[0].events,
        "short_wall_s": measured.short[side].wall_s,
        "short_cpu_s": measured.short[side].cpu_s,
    }


def _table(found: Mapping[str, Measured]) -> Table:
    return Table(
        title="Import and analysis",
        columns=("trace", "by", "events / s", "time [s]", "CPU [s]", "memory [MB]", "short [s]"),
        rows=tuple(
            (
                f"{one.events:,} events",
                name if side == "baseline" else "headrace",
                f"{one.events / median(run.wall_s for run in runs):,.0f}",
                f"{median(run.wall_s for run in runs):.1f}",
                f"{median(run.cpu_s for run in runs):.1f}",
                f"{max(run.peak_bytes for run in runs) / 1e6:,.0f}",
                f"{one.short[side].wall_s:.1f}",
            )
            for name, one in found.items()
            for side, runs in one.long.items()
        ),
        note="short: the same trace once; most of it is what a program takes to start",
    )


if __name__ == "__main__":
    end_with(lambda: main(options()), "bench.analyse")
