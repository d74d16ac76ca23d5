"""The same tables on a terminal."""

from __future__ import annotations

import rich.table
from rich import box
from rich.console import Console

from headrace.report.blocks import Table


def print_table(console: Console, table: Table) -> None:
    """Print a table with its note; columns after the first are right-aligned."""
    shown = rich.table.Table(
        title=table.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )
    for place, name in enumerate(table.columns):
        style = "bold" if place in table.emphasis else None
        shown.add_column(name, justify="left" if place == 0 else "right", style=style)
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown)
    if table.note:
        console.print(table.note, style="dim", soft_wrap=True, highlight=False)
