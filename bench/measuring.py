"""What all benchmarks share: the command line, interleaved runs, spreads, the report.

Contenders run in turn, again and again in one process on the same data. What is compared
are ratios within one turn, so that a machine that others slow down slows both sides.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any, NoReturn

import msgspec
from rich.console import Console

from headrace.core.errors import HeadraceError
from headrace.demo.cputime import LoadingCpu
from headrace.report.blocks import Table
from headrace.report.console import print_table
from headrace.report.document import write_json
from headrace.report.provenance import program, provenance
from headrace.report.units import ratio

_LOAD_BEFORE = os.getloadavg()[0]
"""Read when this program starts, as the benchmark itself is a load."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The command line of a benchmark."""

    quick: bool
    """Fewer repeats and less data, the same method; ends within a minute."""

    json: Path | None
    """File for the report; in a directory it is called ``NAME.json``."""

    repeats: int = 1
    """How often everything is run, where the benchmark lets that be said."""

    minutes: float = 0.0
    """How long it runs, where the benchmark lets that be said."""

    switches: frozenset[str] = frozenset()
    """Those of the benchmark's own that were given."""


def end_with(main: Callable[[], int | None], name: str) -> NoReturn:
    """Run a benchmark and end the process: an error becomes one line and its own exit code.

    Args:
        main: Measures and reports; what it returns is the exit code.
        name: How messages begin, such as ``bench.offload``.
    """
    try:
        sys.exit(main())
    except HeadraceError as error:
        sys.stderr.write(f"{name}: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def options(
    arguments: Sequence[str] | None = None,
    *,
    switches: Mapping[str, str] = MappingProxyType({}),
    repeats: str = "",
    minutes: float = 0.0,
) -> Options:
    """Read the command line.

    Args:
        arguments: The words; None: this program's.
        switches: Name → what it does, of the benchmark's own.
        repeats: What is repeated, if the benchmark lets it be said how often.
        minutes: How long it runs unless said, if the benchmark lets that be said.
    """
    parser = argparse.ArgumentParser(prog=" ".join(program()))
    parser.add_argument("--quick", action="store_true", help="end within a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report here")
    for name, does in switches.items():
        parser.add_argument(f"--{name}", action="store_true", help=does)
    if repeats:
        parser.add_argument("--repeats", type=int, default=1, metavar="N", help=f"of {repeats}")
    if minutes:
        parser.add_argument(
            "--minutes", type=float, default=minutes, metavar="M", help="of running"
        )
    given = parser.parse_args(arguments)
    chosen = frozenset(name for name in switches if getattr(given, name))
    often = given.repeats if repeats else 1
    if often < 1:
        parser.error(f"--repeats {often} measures nothing; give it 1 or more")
    lasts = given.minutes if minutes else 0.0
    if minutes and not lasts > 0:
        parser.error(f"--minutes {lasts:g} measures nothing; give it more than 0")
    return Options(
        quick=given.quick, json=given.json, repeats=often, switches=chosen, minutes=lasts
    )


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """One figure over all repeats."""

    median: float
    min: float
    max: float


def spread(values: Sequence[float]) -> Spread:
    """Return median and range."""
    return Spread(median=median(values), min=min(values), max=max(values))


@dataclass(frozen=True, slots=True)
class Spent:
    """What one run took."""

    wall_s: float
    cpu_s: float
    """CPU of this process with all its threads, and of its children if they take part [s]."""


def spent_on(work: Callable[[], None], *, with_children: bool = False) -> Spent:
    """Run once and return what it took."""
    cpu, begin_s = LoadingCpu(with_children=with_children), time.perf_counter()
    work()
    return Spent(time.perf_counter() - begin_s, cpu.seconds())


def interleaved(
    contenders: Mapping[str, Callable[[], Spent]], repeats: int
) -> dict[str, list[Spent]]:
    """Run all contenders in turn, ``repeats`` times; a round before that does not count."""
    runs: dict[str, list[Spent]] = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, run in contenders.items():
            spent = run()
            if turn:
                runs[name].append(spent)
    return runs


def quotients(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Return the spread of the ratios within each turn."""
    return spread([a / b for a, b in zip(above, below, strict=True)])


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """One benchmark's result."""

    name: str
    settings: Mapping[str, Any]
    baseline: Mapping[str, Any]
    headrace: Mapping[str, Any]
    ratios: Mapping[str, Spread]
    """headrace / baseline, by the names that stay."""

    goals: Mapping[str, str]
    """Ratio → what it should be, in words."""

    table: Table
    repeats: int
    further: Mapping[str, Any] = field(default_factory=dict)
    """More of what was found, under keys of the benchmark's own."""

    further_tables: tuple[Table, ...] = ()
    load_before: float = _LOAD_BEFORE
    """Runnable processes before the run: how busy the machine was."""

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` writes."""
        origin = provenance()
        return {
            "name": self.name,
            "date": origin.date,
            "machine": msgspec.to_builtins(origin.machine),
            "commit": origin.commit,
            "command": origin.command,
            "load_average": self.load_before,
            "settings": dict(self.settings),
            "baseline": msgspec.to_builtins(dict(self.baseline)),
            "headrace": msgspec.to_builtins(dict(self.headrace)),
            "ratio": {name: found.median for name, found in self.ratios.items()},
            "ratio_spread": msgspec.to_builtins(dict(self.ratios)),
            "repeats": self.repeats,
            **msgspec.to_builtins(dict(self.further)),
        }


def publish(report: Report, target: Path | None) -> None:
    """Print the tables and write the JSON object, if asked for."""
    console = Console()
    print_table(console, report.table)
    if report.ratios:
        print_table(console, _ratio_table(report))
    for table in report.further_tables:
        print_table(console, table)
    if target is not None:
        file = target / f"{report.name}.json" if target.is_dir() else target
        write_json(file, report.as_json())


def _ratio_table(report: Report) -> Table:
    return Table(
        title="headrace / baseline",
        columns=("ratio", "median", "min", "max", "goal"),
        rows=tuple(
            (name, *map(ratio, (found.median, found.min, found.max)), report.goals.get(name, ""))
            for name, found in report.ratios.items()
        ),
        note=f"{report.repeats} interleaved repeats; load average before the run "
        f"{report.load_before:.1f}",
        emphasis=frozenset({1}),
    )
