"""The same tables and facts on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import rich.table
from rich import box
from rich.console import Console
from rich.text import Text

from headrace.report.blocks import Facts, Table
from headrace.report.printable import printable


def print_table(console: Console, table: Table) -> None:
    """Print a table with its note; columns after the first are right-aligned."""
    shown = rich.table.Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1))
    for place, name in enumerate(table.columns):
        shown.add_column(
            name,
            justify="left" if place == 0 else "right",
            style="bold" if place in table.emphasis else None,
            no_wrap=_is_one_word([name, *(row[place] for row in table.rows)]),
        )
    for row in table.rows:
        shown.add_row(*map(_plain, row))
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


def _plain(text: str) -> Text:
    """Return text as it is, but for letters that would drive the terminal: names are others'."""
    return Text("\n".join(map(printable, text.split("\n"))))


def _is_one_word(cells: Sequence[str]) -> bool:
    """Return whether a column's widest cell cannot be wrapped; rich would cut it off."""
    return " " not in max(cells, key=len)
