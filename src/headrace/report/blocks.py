"""What a report consists of, as plain values; how it looks is decided elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows for people; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    """Small print below."""

    emphasis: frozenset[int] = frozenset()
    """Positions of columns to be set in bold."""

    drawn: frozenset[int] = frozenset()
    """Positions of columns that are drawings made of letters: blanks count, no line is broken."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{row!r} has {len(row)} cells, the table {len(self.columns)}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A plot with the sentence that says what to see in it."""

    title: str
    svg: str
    caption: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Headline:
    """One number that the report is about."""

    value: str
    label: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Headlines:
    """A row of numbers at the top of a page."""

    items: tuple[Headline, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Named facts: machine, date, command, settings."""

    title: str
    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Prose:
    """A paragraph."""

    text: str


Block: TypeAlias = Table | Figure | Headlines | Facts | Prose


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A whole report."""

    title: str
    lead: str
    """One or two sentences: what was measured and what came out."""

    blocks: tuple[Block, ...]
