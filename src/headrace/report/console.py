"""The same tables and facts on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
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


def print_table(console: Console, table: Table) -> None:
    """Print a table with its note; columns after the first are right-aligned.

    Where it is too wide, names in the first column lose their beginnings.
    """
    shown = _shown(table)
    excess = _natural_width(console, shown) - console.width
    if excess > 0 and _is_one_word(_column(table, 0)):
        shown = _shown(_with_shorter_names(table, excess))
    console.print(_plain(table.title), style="bold", soft_wrap=True)
    console.print(shown)
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
            no_wrap=place in table.drawn or _is_one_word(_column(table, place)),
        )
    for row in table.rows:
        shown.add_row(*map(_plain, row))
    return shown


def _natural_width(console: Console, shown: rich.table.Table) -> int:
    """Return how wide a table would be if nothing limited it."""
    return Measurement.get(console, console.options.update(width=_UNLIMITED), shown).maximum


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
