"""``headrace simulate``: policies on a simulated estate, with a scenario's jobs and mishaps."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from headrace.cli.numbers import FiniteRange
from headrace.cli.outputs import json_option, require_writable_folder
from headrace.core.errors import CallerError, StorageError

if TYPE_CHECKING:
    from headrace.sim.contest import Outcome, Seen
    from headrace.sim.scenario import Scenario

LINE_S = 10.0
"""Where there is no terminal, progress is told at most once in so long [s]."""


@click.command()
@click.argument("scenario", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--policy", "names", multiple=True, metavar="NAME", help="Run this one; repeatable.")
@click.option("--ablations", is_flag=True, help="Also run headrace without single abilities.")
@click.option("--days", type=FiniteRange(min=0, min_open=True), help="Simulated time.")
@click.option(
    "--seed", type=click.IntRange(min=0), help="Of jobs and mishaps, instead of the scenario's."
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=len(os.sched_getaffinity(0)),
    help="Policies at a time; one for each CPU.",
)
@json_option("Write the figures; - is standard output.")
@click.option(
    "--plots", type=click.Path(path_type=Path, file_okay=False), help="Draw SVG files there."
)
@click.option(
    "--trace",
    "traces",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write a trace of each policy's run there.",
)
def command(
    scenario: Path,
    *,
    names: tuple[str, ...],
    ablations: bool,
    days: float | None,
    seed: int | None,
    processes: int,
    json_file: str | None,
    plots: Path | None,
    traces: Path | None,
) -> int:
    """Simulate the jobs of SCENARIO (TOML) under several policies, and compare them.

    All policies meet the same jobs, restarts, scans and cross traffic. Those of headrace are
    the objects that the controller runs. Without --policy these are compared: static, aimd,
    published, reactive, predictive, oracle.

    \b
    Examples:
      headrace simulate examples/scenarios/quick.toml
      headrace simulate examples/scenarios/reservation-32.toml --days 1 --policy static \\
        --policy predictive --json figures.json --plots drawings
      headrace simulate examples/scenarios/quick.toml --trace traces && headrace analyze traces
    """  # noqa: D301 - click reads the lone \b
    from headrace.report.console import print_table
    from headrace.report.document import write_json
    from headrace.sim.contenders import ABLATIONS, CONTENDERS
    from headrace.sim.contest import run_contest
    from headrace.sim.ground import PREPARING
    from headrace.sim.tables import outcome_tables

    setting = _setting(scenario, days=days, seed=seed)
    if plots:
        _require_plots(plots)
    chosen = tuple(dict.fromkeys([*(names or CONTENDERS), *(ABLATIONS if ablations else ())]))
    if traces:
        _require_new(traces, chosen)
    errors = Console(stderr=True)
    with _progress(errors, setting, (PREPARING, *chosen)) as seen:
        outcomes = run_contest(setting, chosen, processes=processes, seen=seen, traces=traces)
    console = errors if json_file == "-" else Console()
    console.print(_title(setting), highlight=False, soft_wrap=True)
    for table in outcome_tables(outcomes):
        console.print()
        print_table(console, table)
    if plots:
        _draw(setting, outcomes, plots)
        console.print(f"drawings: {plots.absolute()}", highlight=False, soft_wrap=True)
    if traces:
        console.print(f"traces: {traces.absolute()}", highlight=False, soft_wrap=True)
    if json_file:
        write_json(json_file, document(setting, outcomes))
    return 0


def document(scenario: Scenario, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Return what ``--json`` writes."""
    from headrace.sim.contenders import contender

    return {
        "scenario": msgspec.to_builtins(scenario),
        "policies": {
            name: {
                "title": contender(name).title,
                "abilities": contender(name).abilities,
                "took_s": outcome.took_s,
                "figures": outcome.figures,
            }
            for name, outcome in outcomes.items()
        },
    }


def _setting(path: Path, *, days: float | None, seed: int | None) -> Scenario:
    from headrace.sim.scenario import load_scenario

    found = load_scenario(path)
    return msgspec.structs.replace(
        found,
        days=found.days if days is None else days,
        seed=found.seed if seed is None else seed,
    )


def _title(scenario: Scenario) -> str:
    return f"{scenario.title}: {scenario.days:g} days, seed {scenario.seed}"


def _require_plots(plots: Path) -> None:
    """Refuse what would only be found wrong when the policies have run."""
    require_writable_folder(plots)
    if importlib.util.find_spec("matplotlib") is None:
        raise CallerError("--plots needs matplotlib; run pip install 'headrace[demo]'")


def _require_new(traces: Path, names: tuple[str, ...]) -> None:
    """Refuse to write over traces."""
    from headrace.sim.tracefile import trace_path

    require_writable_folder(traces)
    for name in names:
        if (path := trace_path(traces, name)).exists():
            raise CallerError(f"{path} is there already; remove it, or name another directory")


@contextmanager
def _progress(console: Console, scenario: Scenario, names: tuple[str, ...]) -> Iterator[Seen]:
    """Show one bar per name on a terminal; elsewhere a line now and then."""
    if not console.is_terminal:
        yield Lines(scenario.duration_s, lambda line: click.echo(line, err=True))
        return
    columns = (TextColumn("{task.description:>15}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bars:
        tasks = {name: bars.add_task(name, total=scenario.duration_s) for name in names}
        yield lambda name, now_s: bars.update(tasks[name], completed=now_s)


class Lines:
    """Tells in one line how far those are that run, at most once in ``LINE_S``."""

    def __init__(
        self,
        duration_s: float,
        write: Callable[[str], object],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._duration_s, self._write, self._clock = duration_s, write, clock
        self._told_at = clock()
        self._done: dict[str, float] = {}

    def __call__(self, name: str, now_s: float) -> None:
        """Take in how far a policy is [s]."""
        self._done[name] = now_s / self._duration_s
        running = {one: far for one, far in self._done.items() if far < 1.0}
        if running and self._clock() >= self._told_at + LINE_S:
            self._told_at = self._clock()
            self._write(", ".join(f"{one} {far:.0%}" for one, far in running.items()))


def _draw(scenario: Scenario, outcomes: Mapping[str, Outcome], folder: Path) -> None:
    from headrace.sim.drawings import drawings

    drawn = drawings(scenario, outcomes)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, svg in drawn.items():
            (folder / name).write_text(svg, encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"drawings cannot be written to {folder}: {error.strerror}; name another directory"
        ) from error
