"""``headrace inspect``: describes a dataset by its index."""

from __future__ import annotations

from collections.abc import Callable

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.cli.fileproblems import problem_lines
from headrace.cli.indexplaces import index_option, load_index
from headrace.cli.outputs import json_option
from headrace.dataset.describe import (
    Description,
    Distribution,
    Group,
    Staleness,
    compare_files,
    describe,
)
from headrace.dataset.listing import list_dataset
from headrace.report.bars import bars
from headrace.report.document import write_json
from headrace.report.printable import printable
from headrace.report.units import bytes_, counted, seconds
from headrace.storage.opening import open_storage

SHOWN = 20
"""Lines of one list that are printed; JSON holds all."""


@click.command()
@click.argument("url")
@index_option
@json_option("Write the same as JSON to a file, - for stdout.")
def command(url: str, *, place: str | None, json_file: str | None) -> int:
    """Describe the dataset at URL: counts, bytes, sizes, decode cost, classes, what is broken.

    Exits with 1 if files changed since they were indexed: run `headrace index` again.

    \b
    Examples:
      headrace inspect /data/images
      headrace inspect /mnt/readonly/c4 --index ~/indexes/c4 --json -
    """  # noqa: D301 - click reads the lone \b
    storage = open_storage(url)
    index = load_index(url, place)
    staleness = compare_files(index, list_dataset(storage))
    description = describe(index)
    if json_file:
        write_json(json_file, {"description": description, "stale": staleness})
    if json_file != "-":
        _print(description, staleness)
    return 1 if staleness else 0


def _print(description: Description, staleness: Staleness) -> None:
    console = Console()
    console.print(
        f"{counted(description.samples, 'sample')} in {counted(description.files, 'file')}, "
        f"{bytes_(description.file_bytes)}, digest {description.digest}"
    )
    console.print(_counts(description))
    console.print(_spread("bytes of a sample", description, lambda g: g.size_bytes, bytes_))
    console.print(_spread("CPU to decode it", description, lambda g: g.cost_s, seconds))
    _print_list(console, "classes", [f"{n:>9,}  {c}" for c, n in description.classes.items()])
    _print_list(console, "broken samples", _broken_lines(description))
    _print_list(console, "files in trouble", problem_lines(description.problems))
    _print_list(
        console, "files left out", [f"{n:>9,}  .{e}" for e, n in description.ignored.items()]
    )
    _print_list(console, "stale since indexed", _stale_lines(staleness))


def _counts(description: Description) -> Table:
    table = _table("kind", "in", "samples", "bytes", "plays", "CPU to decode", "broken")
    for group in description.groups:
        table.add_row(
            group.kind,
            group.container,
            f"{group.samples:,}",
            bytes_(group.size_bytes.total),
            seconds(group.duration_s) if group.duration_s else "",
            seconds(group.cost_s.total),
            f"{group.broken:,}" if group.broken else "",
        )
    return table


def _spread(
    title: str,
    description: Description,
    quantity: Callable[[Group], Distribution],
    text: Callable[[float], str],
) -> Table:
    table = _table("kind", "in", "median", "90 %", "99 %", "largest", title=title)
    table.add_column("spread (log)", no_wrap=True)
    for group in description.groups:
        spread = quantity(group)
        numbers = (spread.p50, spread.p90, spread.p99, spread.largest)
        cells = [text(number) for number in numbers]
        table.add_row(group.kind, group.container, *cells, Text(bars(spread.histogram)))
    return table


def _table(*names: str, title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, collapse_padding=True)
    for name in names:
        table.add_column(name, justify="left" if name in ("kind", "in") else "right")
    return table


def _broken_lines(description: Description) -> list[str]:
    return [f"{b.count:>9,}  {b.reason} (e.g. {b.example})" for b in description.broken]


def _stale_lines(staleness: Staleness) -> list[str]:
    return [
        f"{word}: {path}"
        for word, paths in (
            ("changed", staleness.changed),
            ("gone", staleness.gone),
            ("new", staleness.new),
        )
        for path in paths
    ]


def _print_list(console: Console, title: str, lines: list[str]) -> None:
    if not lines:
        return
    console.print(f"\n{title}", style="bold")
    for line in lines[:SHOWN]:
        console.print(Text(printable(line)), soft_wrap=True)
    if len(lines) > SHOWN:
        console.print(f"… and {len(lines) - SHOWN:,} more (all of them: --json)")
