"""``headrace assess``: would storage-side transforms help, for these data and this loop?"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from headrace.cli.bandwidths import Bandwidth
from headrace.cli.durations import Duration
from headrace.cli.indexplaces import index_option
from headrace.cli.numbers import FiniteRange
from headrace.cli.outputs import json_option, require_writable_file
from headrace.cli.pipelines import read_pipeline
from headrace.core.errors import CallerError

if TYPE_CHECKING:
    from headrace.assess.measuring import Measurement
    from headrace.assess.outlook import Outlook, Settings
    from headrace.report.blocks import Block

_WIDE = 100
"""Columns where standard output is no terminal."""


@click.command()
@click.argument("url")
@click.option(
    "--pipeline",
    "pipeline_file",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Python file with pipeline = headrace.Pipeline([…]), which is run, or a pipeline's JSON.",
)
@click.option(
    "--step-time", type=Duration(), required=True, help="Of one step without waiting for data [s]."
)
@click.option(
    "--batch-size", type=click.IntRange(1), required=True, help="Samples that this host takes."
)
@click.option(
    "--workers", default="0,2,4,8", show_default=True, help="Numbers of local workers to compare."
)
@click.option("--agents", type=click.IntRange(1), default=1, show_default=True, help="Agents.")
@click.option(
    "--agent-cpus",
    type=click.IntRange(1),
    help="CPUs that each agent may use; 80 % of those here, if not told.",
)
@click.option(
    "--bandwidth", type=Bandwidth(), default="10Gbit", show_default=True, help="Agents to trainer."
)
@click.option(
    "--seconds",
    type=FiniteRange(0, min_open=True),
    default=20.0,
    show_default=True,
    help="Time to measure samples.",
)
@click.option("--allow-op", "allowed", multiple=True, help="Import path that user ops may have.")
@index_option
@json_option("Write the figures; - is standard output.")
@click.option("--html", "html_file", metavar="FILE", help="Write a page for a browser.")
def command(
    url: str,
    *,
    pipeline_file: Path,
    step_time: float,
    batch_size: int,
    workers: str,
    agents: int,
    agent_cpus: int | None,
    bandwidth: float,
    seconds: float,
    allowed: tuple[str, ...],
    place: str | None,
    json_file: str | None,
    html_file: str | None,
) -> None:
    """Say whether storage-side transforms would help a training loop over the dataset at URL.

    Reads and transforms samples of the dataset here, of each kind and size, for a bounded time;
    then runs the loop over them in virtual time: with so many local workers, and with agents.

    \b
    Examples:
      headrace assess /data/photos --pipeline train.py --step-time 0.3 --batch-size 256
      headrace assess hdfs://nn/set --pipeline p.json --step-time 90ms --batch-size 64 --html a.html
    """  # noqa: D301 - click reads the lone \b
    from headrace.assess.measuring import measure
    from headrace.assess.outlook import Settings, outlook
    from headrace.assess.page import tables
    from headrace.client.sources import find_source
    from headrace.policy.guard import GuardLimits
    from headrace.prepare.profiles import profiles_of
    from headrace.report.document import write_json
    from headrace.transform.program import Program

    _require_page(html_file)
    cpus = len(os.sched_getaffinity(0))
    settings = Settings(
        batch_size=batch_size,
        step_s=step_time,
        workers=_counts(workers),
        agents=agents,
        agent_cpus=agent_cpus or max(int(GuardLimits().stop_share * cpus), 1),
        trainer_cpus=cpus,
        bandwidth=bandwidth,
    )
    program = Program(read_pipeline(pipeline_file, allowed=allowed))
    source = find_source(url, None, index=place or "").open
    assert source.reader is not None  # without agents, a dataset is seen or refused
    try:
        with _progress() as told:
            measurement = measure(source.index, source.reader, program, seconds=seconds, told=told)
    finally:
        source.close()
    found = outlook(program, profiles_of([source.index]), measurement, settings)
    if json_file:
        write_json(json_file, {"url": url, "settings": settings, "outlook": found})
    if html_file:
        _write_page(html_file, url, found, measurement, settings)
    if json_file != "-":
        _print(found.verdict, tables(found, measurement, settings), html_file)


def _counts(text: str) -> tuple[int, ...]:
    numbers = [part.strip() for part in text.split(",")]
    if not all(number.isdecimal() for number in numbers):
        raise CallerError(f"--workers {text!r} is no list of numbers; write 0,2,4,8")
    return tuple(sorted({int(number) for number in numbers}))


def _require_page(html_file: str | None) -> None:
    """Refuse a page that could not be written, before anything is measured."""
    if html_file is None:
        return
    if html_file == "-":
        raise CallerError("--html writes a page for a browser; name a file")
    require_writable_file(html_file)
    if importlib.util.find_spec("matplotlib") is None:
        raise CallerError("--html needs matplotlib; run pip install 'headrace[demo]'")


@contextmanager
def _progress() -> Iterator[Callable[[float], None]]:
    """Give what is told the part of the time that has passed; shown on a terminal only."""
    console = Console(stderr=True)
    columns = (TextColumn("measuring"), BarColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda share: bar.update(task, completed=share)


def _print(verdict: str, blocks: Sequence[Block], html_file: str | None) -> None:
    from headrace.report.blocks import Facts, Table
    from headrace.report.console import print_facts, print_table
    from headrace.report.printable import printable

    console = Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)
    console.print(Text(verdict, style="bold"))
    console.print()
    for block in blocks:
        if isinstance(block, Table):
            print_table(console, block)
        elif isinstance(block, Facts):
            print_facts(console, block)
        console.print()
    if html_file:
        console.print(Text(f"page: {printable(html_file)}"), soft_wrap=True)


def _write_page(
    html_file: str, url: str, found: Outlook, measurement: Measurement, settings: Settings
) -> None:
    from headrace.assess.page import assessment_page
    from headrace.report.document import write_document
    from headrace.report.html import render_page
    from headrace.report.provenance import provenance

    page = assessment_page(found, measurement, settings, url=url, provenance=provenance())
    write_document(html_file, render_page(page).encode())
