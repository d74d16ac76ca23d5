"""The same tables and facts on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import rich.table
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.text import Text

from headrace.report.blocks import Facts, Table
from headrace.report.printable import printable

_UNLIMITED = 10_000
_SHORTEST_NAME = 16
"""To which a name may be cut where a table is too wide [letters]."""

_SENTENCE = 24
"""Longer cells of several words may go on in the next line [letters]."""


def print_table(console: Console, table: Table) -> None:
    """Print a table with its note; columns after the first are right-aligned.

    Where it is too wide, names in the first column lose their beginnings; columns that still find
    no room come in a further table below, with the names once more.
    """
    excess = _widths(console, table).maximum - console.width
    if excess > 0 and _is_one_word(_column(table, 0)):
        table = _with_shorter_names(table, excess)
    console.print(_plain(table.title), style="bold", soft_wrap=True)
    for part in _parts(console, table):
        console.print(_shown(part))
    if table.note:
        console.print(_plain(table.note), style="dim", soft_wrap=True, highlight=False)


def print_facts(console: Console, facts: Facts) -> None:
    """Print named facts, one below the other; long ones go on in the next line."""
    console.print(_plain(facts.title), style="bold", soft_wrap=True)
    grid = rich.table.Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items:
        grid.add_row(_plain(f" {name}"), _plain(value))
    console.print(grid, highlight=False)


def _shown(table: Table) -> rich.table.Table:
    shown = rich.table.Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1))
    for place, name in enumerate(table.columns):
        shown.add_column(
            name,
            justify="left" if place == 0 or place in table.drawn else "right",
            style="bold" if place in table.emphasis else None,
            min_width=_least_width(table, place),
            no_wrap=place in table.drawn or _is_one_word(_column(table, place)),
        )
    for row in table.rows:
        shown.add_row(*map(_plain, row))
    return shown


def _least_width(table: Table, place: int) -> int:
    """Return how much room a column needs so that none of its short cells is broken."""
    most = _UNLIMITED if place in table.drawn else _SENTENCE
    return max((len(row[place]) for row in table.rows if len(row[place]) <= most), default=0)


def _parts(console: Console, table: Table) -> Iterator[Table]:
    """Yield a table in parts of as many columns as there is room for."""
    begin, columns = 1, len(table.columns)
    while True:
        end = min(begin + 1, columns)
        while end < columns and _fits(console, _part(table, begin, end + 1)):
            end += 1
        yield _part(table, begin, end)
        if end == columns:
            return
        begin = end


def _part(table: Table, begin: int, end: int) -> Table:
    """Return the first column, and some of the others."""
    places = (0, *range(begin, end))
    return replace(
        table,
        columns=tuple(table.columns[place] for place in places),
        rows=tuple(tuple(row[place] for place in places) for row in table.rows),
        emphasis=frozenset(at for at, place in enumerate(places) if place in table.emphasis),
        drawn=frozenset(at for at, place in enumerate(places) if place in table.drawn),
    )


def _fits(console: Console, table: Table) -> bool:
    return _widths(console, table).minimum <= console.width


def _widths(console: Console, table: Table) -> Measurement:
    """Return how wide a table would be, at least and if nothing limited it."""
    return Measurement.get(console, console.options.update(width=_UNLIMITED), _shown(table))


def _with_shorter_names(table: Table, excess: int) -> Table:
    longest = max((len(row[0]) for row in table.rows), default=0)
    room = max(longest - excess, _SHORTEST_NAME)
    rows = tuple((_ending(row[0], room), *row[1:]) for row in table.rows)
    return replace(table, rows=rows)


def _ending(name: str, room: int) -> str:
    """Return a name, or its end, which tells more."""
    return name if len(name) <= room else f"…{name[1 - room :]}"


def _column(table: Table, place: int) -> list[str]:
    return [table.columns[place], *(row[place] for row in table.rows)]


def _plain(text: str) -> Text:
    """Return text as it is, but for letters that would drive the terminal: names are others'."""
    return Text("\n".join(map(printable, text.split("\n"))))


def _is_one_word(cells: Sequence[str]) -> bool:
    """Return whether a column's widest cell cannot be wrapped; rich would cut it off."""
    return " " not in max(cells, key=len)
