"""Reads single rows of an index's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa

from headrace.dataset.location import Container, Kind, Member, SampleLocation
from headrace.dataset.rows import SCHEMA

FEW_NAMES = 4096
"""Names of a column that are kept as Python's texts."""


def single_columns(table: pa.Table) -> dict[str, pa.Array]:
    """Return the columns of a table that was combined, each as one array."""
    return {name: _single(table.column(name)) for name in SCHEMA.names}


class RowAccess:
    """Reads single rows straight from the columns' memory.

    Through memory views, whose elements are Python's own numbers: between the decoding of two
    pictures nothing of this is in the CPU's caches, so every call less counts several times.
    """

    def __init__(self, columns: Mapping[str, pa.Array]) -> None:
        """Take the columns that ``single_columns`` returns."""
        self._texts = {
            name: Texts(columns[name]) for name in ("key", "file_version", "broken", "text")
        }
        self._names = {
            name: (memoryview(columns[name].indices.to_numpy()), _named(columns[name].dictionary))
            for name in ("kind", "container", "file", "fields")
        }
        self._numbers = {
            name: memoryview(columns[name].to_numpy())
            for name in ("file_size", "offset", "length", "row", "block", "cost_s")
        }
        self._optional = {
            name: (_validity(columns[name]), _filled(columns[name]))
            for name in ("label", "width", "height", "duration_s", "frames")
        }
        self._lists = {
            name: (memoryview(columns[name].offsets.to_numpy()), _flat(columns[name]))
            for name in ("member_offsets", "member_lengths", "keyframes")
        }

    def location(self, row: int) -> SampleLocation:
        """Return all that a row tells (about 4 µs)."""
        kind: Kind = self._name("kind", row)  # type: ignore[assignment]
        container: Container = self._name("container", row)  # type: ignore[assignment]
        return SampleLocation(
            key=self._text("key", row),
            kind=kind,
            container=container,
            file=self._name("file", row),
            file_version=self._text("file_version", row),
            members=self._members(row),
            keyframes=tuple(self._list("keyframes", row)),
            broken=self._texts["broken"][row],
            text=self._texts["text"][row],
            file_size=self._number("file_size", row),
            offset=self._number("offset", row),
            length=self._number("length", row),
            row=self._number("row", row),
            block=self._number("block", row),
            cost_s=self._number("cost_s", row),
            label=self._optional_number("label", row),
            width=self._optional_number("width", row),
            height=self._optional_number("height", row),
            duration_s=self._optional_number("duration_s", row),
            frames=self._optional_number("frames", row),
        )

    def start(self, row: int) -> tuple[str, int]:
        """Return the file and where in it the sample begins."""
        return self._name("file", row), self._number("offset", row)

    def _text(self, column: str, row: int) -> str:
        return self._texts[column][row] or ""

    def _name(self, column: str, row: int) -> str:
        codes, names = self._names[column]
        return names[codes[row]] or ""

    def _number(self, column: str, row: int) -> Any:
        return self._numbers[column][row]

    def _optional_number(self, column: str, row: int) -> Any:
        known, values = self._optional[column]
        return values[row] if known[row] else None

    def _list(self, column: str, row: int) -> list[Any]:
        bounds, values = self._lists[column]
        return values[bounds[row] : bounds[row + 1]].tolist()

    def _members(self, row: int) -> tuple[Member, ...]:
        layout = _layout(self._name("fields", row))
        offsets, lengths = self._list("member_offsets", row), self._list("member_lengths", row)
        return tuple(
            Member(field=field, name=name, offset=offset, length=length)
            for (field, name), offset, length in zip(layout, offsets, lengths, strict=True)
        )


class Texts:
    """A column of texts, read one by one from Arrow's memory."""

    def __init__(self, column: pa.Array) -> None:
        """Take a column of any type of strings; it is not copied."""
        whole = column.cast(pa.large_string())
        _, bounds, data = whole.buffers()
        self._bounds = memoryview(bounds).cast("B").cast("q")[whole.offset :] if whole else None
        self._data = memoryview(data or b"")
        self._known = _validity(whole) if whole.null_count else None

    def __getitem__(self, row: int) -> str | None:
        """Return one text, or None where there is none."""
        if self._known is not None and not self._known[row]:
            return None
        assert self._bounds is not None, "a column without rows"
        return str(self._data[self._bounds[row] : self._bounds[row + 1]], "utf-8")


@lru_cache(maxsize=4096)
def _layout(text: str) -> tuple[tuple[str, str], ...]:
    return msgspec.json.decode(text, type=tuple[tuple[str, str], ...])


def _single(column: pa.ChunkedArray) -> pa.Array:
    chunks = column.num_chunks
    return column.chunk(0) if chunks == 1 else pa.concat_arrays(column.chunks or [_empty(column)])


def _empty(column: pa.ChunkedArray) -> pa.Array:
    return pa.array([], type=column.type)


def _named(dictionary: pa.Array) -> Sequence[str | None] | Texts:
    """Return names by their codes: at hand where they are few, as kinds and layouts are."""
    return dictionary.to_pylist() if len(dictionary) <= FEW_NAMES else Texts(dictionary)


def _validity(column: pa.Array) -> memoryview:
    return memoryview(column.is_valid().to_numpy(zero_copy_only=False))


def _flat(column: pa.Array) -> memoryview:
    return memoryview(column.values.to_numpy())


def _filled(column: pa.Array) -> memoryview:
    return memoryview(column.fill_null(0).to_numpy())
