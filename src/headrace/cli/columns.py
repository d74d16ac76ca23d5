"""Lines of text in columns of fixed width, which a row may break to say something at length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.console import Console
from rich.text import Text

from headrace.report.printable import printable

R = TypeVar("R")

_LEAST_NAME = 10
_MOST_NAME = 40
"""Letters of a column that takes the room which others leave."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column(Generic[R]):
    """One column of a table of ``R``."""

    name: str
    width: int
    """[letters]."""

    cell: Callable[[R], str | Text]
    right: bool = False
    """Aligned to the right, as numbers are."""

    keeps_end: bool = False
    """What is too long is cut off at its beginning: of a path, the end tells what it is."""


def heading(columns: Sequence[Column[R]]) -> Text:
    """Return the names of the columns."""
    return _joined(columns, [Text(column.name, style="dim") for column in columns])


def line(columns: Sequence[Column[R]], row: R) -> Text:
    """Return one row; what is not text with a style yet is made harmless to the terminal."""
    cells = (column.cell(row) for column in columns)
    whole = [cell if isinstance(cell, Text) else Text(printable(cell)) for cell in cells]
    return _joined(columns, whole)


def print_line(console: Console, text: Text) -> None:
    """Print names of columns or a row in one line, cut off where the terminal ends."""
    console.print(text, no_wrap=True, overflow="crop")


def width_of(columns: Sequence[Column[R]]) -> int:
    """Return the letters that the columns take, the blanks between them included."""
    return sum(column.width + 1 for column in columns) - 1


def name_column(name: str, room: int, cell: Callable[[R], str | Text]) -> Column[R]:
    """Return the first column, which takes the room that the others leave, within reason."""
    return Column(name=name, width=_name_width(room), cell=cell)


def path_column(name: str, room: int, cell: Callable[[R], str]) -> Column[R]:
    """Return such a column for paths."""
    return Column(name=name, width=_name_width(room), cell=cell, keeps_end=True)


def _name_width(room: int) -> int:
    return min(max(room - 1, _LEAST_NAME), _MOST_NAME)


def _joined(columns: Sequence[Column[R]], cells: Sequence[Text]) -> Text:
    whole = Text(no_wrap=True, overflow="crop")
    for column, whole_cell in zip(columns, cells, strict=True):
        cell = _fitted(column, whole_cell)
        blanks = " " * (column.width - cell.cell_len)
        whole.append_text(Text(blanks) + cell if column.right else cell + Text(blanks))
        whole.append(" ")
    whole.rstrip()
    return whole


def _fitted(column: Column[R], cell: Text) -> Text:
    is_long = cell.cell_len > column.width
    fitted = Text("…") + cell[1 - column.width :] if is_long and column.keeps_end else cell
    fitted.truncate(column.width, overflow="ellipsis")
    return fitted
