"""Reads single rows of an index's table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.dataset.location import Container, Kind, Member, SampleLocation
from headrace.dataset.rows import SCHEMA


def single_columns(table: pa.Table) -> dict[str, pa.Array]:
    """Return the columns of a table that was combined, each as one array."""
    return {name: _single(table.column(name)) for name in SCHEMA.names}


class RowAccess:
    """Reads single rows straight from the columns' memory."""

    def __init__(self, columns: Mapping[str, pa.Array]) -> None:
        """Take the columns that ``single_columns`` returns."""
        self._texts = {name: columns[name] for name in ("key", "file_version", "broken", "text")}
        self._names = {
            name: (columns[name].indices.to_numpy(), columns[name].dictionary)
            for name in ("kind", "container", "file", "fields")
        }
        self._numbers = {
            name: columns[name].to_numpy()
            for name in ("file_size", "offset", "length", "row", "block", "cost_s")
        }
        self._optional = {
            name: (columns[name].is_valid().to_numpy(zero_copy_only=False), _filled(columns[name]))
            for name in ("label", "width", "height", "duration_s", "frames")
        }
        self._lists = {
            name: (columns[name].offsets.to_numpy(), columns[name].values.to_numpy())
            for name in ("member_offsets", "member_lengths", "keyframes")
        }

    def location(self, row: int) -> SampleLocation:
        """Return all that a row tells (about 25 µs)."""
        kind: Kind = self._name("kind", row)  # type: ignore[assignment]
        container: Container = self._name("container", row)  # type: ignore[assignment]
        return SampleLocation(
            key=self._texts["key"][row].as_py(),
            kind=kind,
            container=container,
            file=self._name("file", row),
            file_version=self._texts["file_version"][row].as_py(),
            members=self._members(row),
            keyframes=tuple(self._list("keyframes", row)),
            broken=self._texts["broken"][row].as_py(),
            text=self._texts["text"][row].as_py(),
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

    def _name(self, column: str, row: int) -> str:
        codes, names = self._names[column]
        return str(names[codes[row].item()].as_py())

    def _number(self, column: str, row: int) -> Any:
        return self._numbers[column][row].item()

    def _optional_number(self, column: str, row: int) -> Any:
        known, values = self._optional[column]
        return values[row].item() if known[row] else None

    def _list(self, column: str, row: int) -> list[float]:
        bounds, values = self._lists[column]
        return values[bounds[row] : bounds[row + 1]].tolist()  # type: ignore[no-any-return]

    def _members(self, row: int) -> tuple[Member, ...]:
        layout = _layout(self._name("fields", row))
        offsets, lengths = self._list("member_offsets", row), self._list("member_lengths", row)
        return tuple(
            Member(field=field, name=name, offset=int(offset), length=int(length))
            for (field, name), offset, length in zip(layout, offsets, lengths, strict=True)
        )


@lru_cache(maxsize=4096)
def _layout(text: str) -> tuple[tuple[str, str], ...]:
    return msgspec.json.decode(text, type=tuple[tuple[str, str], ...])


def _single(column: pa.ChunkedArray) -> pa.Array:
    chunks = column.num_chunks
    return column.chunk(0) if chunks == 1 else pa.concat_arrays(column.chunks or [_empty(column)])


def _empty(column: pa.ChunkedArray) -> pa.Array:
    return pa.array([], type=column.type)


def _filled(column: pa.Array) -> npt.NDArray[np.generic]:
    values: npt.NDArray[np.generic] = column.fill_null(0).to_numpy()
    return values
