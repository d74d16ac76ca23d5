"""Scans Arrow files and streams, such as Hugging Face's datasets: a row is a sample.

Values in record batches that are not compressed are ranges of the file. Compressed batches, and
those with texts in pieces, conversations or values in dictionaries, are decoded as a whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.errors import CorruptDataError, HeadraceError
from headrace.dataset.arrowbatches import (
    ArrowHead,
    decoded_batch,
    message_bytes,
    read_head,
    record_batches,
)
from headrace.dataset.arrowmessages import Message
from headrace.dataset.features import BYTES
from headrace.dataset.leaves import leaf_column
from headrace.dataset.location import Member, SampleLocation
from headrace.dataset.rowcolumns import (
    FieldColumn,
    choose_columns,
    class_names,
    no_columns,
    paths_of,
)
from headrace.dataset.rowsamples import Part, Row, RowSamples
from headrace.dataset.scan import ClassNames, Scan, ScanSource

LARGE_BYTES = 64 * 1024 * 1024
"""Record batches that are longer are in memory one at a time [bytes]."""

_LARGE = threading.Lock()

_Longs = npt.NDArray[np.int64]

_BOUNDS = {
    pa.binary(): "<i4",
    pa.string(): "<i4",
    pa.large_binary(): "<i8",
    pa.large_string(): "<i8",
}
"""Types of values whose ends stand in a buffer → the type of these."""


def scan_arrow(source: ScanSource) -> Scan:
    """Yield the rows of an Arrow file or stream."""
    count = 0
    try:
        with source.open() as stream:
            head = read_head(stream, source.file.size)
            columns = choose_columns(head.schema, source.options.text_field)
            if not columns:
                yield source.broken(no_columns(head.schema))
                return
            classes = class_names(head.schema, columns)
            yield ClassNames(source.file, classes)
            rows = _Rows(head, columns, RowSamples(source, "arrow", columns, classes))
            for block, message in enumerate(record_batches(stream, source.file.size)):
                with _turn(message):
                    data = message_bytes(stream, message)
                    for sample in rows.samples(block, message, data):
                        yield sample
                        count += 1
    except (HeadraceError, pa.ArrowException, OSError, EOFError, ValueError) as error:
        kept = f"only the {count} rows before the damage are kept; then: " if count else ""
        yield source.broken(f"{kept}{error}")


def _turn(message: Message) -> AbstractContextManager[object]:
    """Let one large record batch of all files that are scanned be in memory."""
    return _LARGE if message.end - message.begin > LARGE_BYTES else nullcontext()


class _Rows:
    """Makes samples of the rows of one file's record batches."""

    def __init__(
        self, head: ArrowHead, columns: tuple[FieldColumn, ...], samples: RowSamples
    ) -> None:
        self._head = head
        self._columns = columns
        self._samples = samples
        self._paths = paths_of(columns)
        self._plain = all(_has_ranges(head.schema, column) for column in columns)
        self._count = 0

    def samples(self, block: int, message: Message, data: bytes) -> Iterator[SampleLocation]:
        """Yield the samples of a record batch."""
        stream = pa.py_buffer(self._head.data + data)
        batch = decoded_batch(self._head, stream, self._paths)
        arrays = {path: leaf_column(batch, path) for path in self._paths}
        member_of: Callable[[int], Callable[[Part], Member]]
        if self._plain and not message.is_compressed:
            base = stream.address + len(self._head.data) - message.begin
            member_of, block = _Ranges(arrays, self._columns, base, message).members_of, -1
        else:
            whole = partial(_whole, message)
            member_of = lambda _: whole  # noqa: E731 - the same for all rows
        for row in range(batch.num_rows):
            values = {path: array[row].as_py() for path, array in arrays.items()}
            yield self._samples.sample(Row(self._count, block, row, values), member_of(row))
            self._count += 1


def _whole(message: Message, part: Part) -> Member:
    """Return the record batch that a value is in."""
    return Member(
        field=part.field,
        name=part.column.path,
        offset=message.begin,
        length=message.end - message.begin,
    )


def _has_ranges(schema: pa.Schema, column: FieldColumn) -> bool:
    """Whether each value of a column is a range of the file, as far as its type tells."""
    name = column.path if column.path in schema.names else column.path.rpartition(".")[0]
    leaf = schema.field(name).type
    if column.form == "list":
        leaf = leaf.value_type
    if pa.types.is_struct(leaf):
        leaf = leaf.field(leaf.get_field_index("bytes")).type
    return column.form in ("value", "list") and (leaf in _BOUNDS or pa.types.is_integer(leaf))


class _Ranges:
    """Where the values of a record batch lie in the file."""

    def __init__(
        self,
        arrays: dict[str, pa.Array],
        columns: tuple[FieldColumn, ...],
        base: int,
        message: Message,
    ) -> None:
        self._message = message
        self._firsts: dict[str, _Longs] = {}
        """Of lists: the number of each row's first element."""

        self._spans: dict[str, _Spans] = {}
        for column in columns:
            values = arrays[column.path]
            if column.form == "list":
                counts = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
                self._firsts[column.path] = np.cumsum(counts, dtype=np.int64) - counts
                values = values.flatten()
            if pa.types.is_struct(values.type):
                values = pc.struct_field(values, "bytes")
            self._spans[column.path] = _Spans(values, base, message)

    def members_of(self, row: int) -> Callable[[Part], Member]:
        """Return what says where a value of a row lies."""
        return partial(self._member, row)

    def _member(self, row: int, part: Part) -> Member:
        path = part.column.path
        if part.value is None:
            return Member(field=part.field, name=BYTES, offset=self._message.begin, length=0)
        if path in self._firsts:
            row = int(self._firsts[path][row]) + part.place
        spans = self._spans[path]
        return Member(
            field=part.field,
            name=spans.encoding,
            offset=int(spans.begins[row]),
            length=int(spans.lengths[row]),
        )


class _Spans:
    """Where the values of one array lie in the file, and how they are encoded."""

    def __init__(self, array: pa.Array, base: int, message: Message) -> None:
        self.encoding = BYTES
        """As ``values`` knows it."""

        if array.type in _BOUNDS:
            self.begins, self.lengths = _varying(array, base)
        else:
            self.encoding = np.dtype(array.type.to_pandas_dtype()).str
            self.begins, self.lengths = _fixed(array, base)
        held = self.lengths > 0
        ends = (self.begins + self.lengths)[held]
        if (self.begins[held] < message.body).any() or (ends > message.end).any():
            raise CorruptDataError("values of a record batch lie outside of it")


def _varying(array: pa.Array, base: int) -> tuple[_Longs, _Longs]:
    _, ends, data = array.buffers()
    if not len(array) or data is None:
        return np.zeros(len(array), np.int64), np.zeros(len(array), np.int64)
    bounds = np.frombuffer(ends, _BOUNDS[array.type])[array.offset :][: len(array) + 1]
    bounds = bounds.astype(np.int64)
    return bounds[:-1] + (data.address - base), np.diff(bounds)


def _fixed(array: pa.Array, base: int) -> tuple[_Longs, _Longs]:
    width = array.type.bit_width // 8
    data = array.buffers()[1]
    places = np.arange(len(array), dtype=np.int64) + array.offset
    return places * width + (data.address - base), np.full(len(array), width, np.int64)
