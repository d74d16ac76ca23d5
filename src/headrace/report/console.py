"""The same tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import rich.table
from rich import box
from rich.console import Console

from headrace.report.blocks import Table


def print_table(console: Console, table: Table) -> None:
    """Print a table with its note; columns after the first are right-aligned."""
    shown = rich.table.Table(
        title=table.title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
    )
    for place, name in enumerate(table.columns):
        shown.add_column(
            name,
            justify="left" if place == 0 else "right",
            style="bold" if place in table.emphasis else None,
            no_wrap=_is_one_word([name, *(row[place] for row in table.rows)]),
        )
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown)
    if table.note:
        console.print(table.note, style="dim", soft_wrap=True, highlight=False)


def _is_one_word(cells: Sequence[str]) -> bool:
    """Return whether a column's widest cell cannot be wrapped; rich would cut it off."""
    return " " not in max(cells, key=len)
