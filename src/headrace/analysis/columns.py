"""Events of one batch as numpy arrays, each made when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.trace.events import Kind

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

NULL = -1
"""Stands for null in an array of numbers, none of which is negative."""

EARLIEST, LATEST = -(2**61), 2**62
"""Moments that can be reckoned with, the year 2116 the last [ns]."""

_PAIRS = pa.list_(
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int64())])
)

_MOST = {"duration_ns": 2**56, "queue_ns": 2**56, "bytes": 2**56, "count": 2**40, "rank": 2**31}
"""Larger ones are no measurement but damage, and taken as null."""

NOBODY = -2
"""The place of events that tell neither rank nor process; those of processes lie below."""


class Coded(NamedTuple):
    """A column of text: for each row the position of its value."""

    codes: Ints
    """:data:`NULL` where it is null."""

    values: pa.StringArray


class _Source:
    """A batch, and what was already made of its columns."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self._numbers: dict[str, Ints] = {}
        self._texts: dict[str, Coded] = {}

    def numbers(self, name: str) -> Ints:
        if name not in self._numbers:
            column = pc.fill_null(self.batch.column(name), NULL).to_numpy(zero_copy_only=False)
            most = _MOST.get(name)
            self._numbers[name] = column if most is None else np.where(column > most, NULL, column)
        return self._numbers[name]

    def texts(self, name: str) -> Coded:
        if name not in self._texts:
            coded = self.batch.column(name).dictionary_encode()
            codes = pc.fill_null(coded.indices, NULL).to_numpy(zero_copy_only=False)
            self._texts[name] = Coded(codes.astype(np.int64), coded.dictionary)
        return self._texts[name]


class Columns:
    """Some events of a batch with the columns of :func:`headrace.trace.events.arrow_schema`."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._source = _Source(batch)
        self._rows: Ints | None = None

    def __len__(self) -> int:
        return self._source.batch.num_rows if self._rows is None else self._rows.size

    def numbers(self, name: str) -> Ints:
        """Return a column of numbers; below 0: null."""
        return self._chosen(self._source.numbers(name))

    def texts(self, name: str) -> Coded:
        """Return a column of text; its values may have more than these rows use."""
        coded = self._source.texts(name)
        return Coded(self._chosen(coded.codes), coded.values)

    def all_counted(self) -> tuple[pa.StringArray, pa.Int64Array]:
        """Return names and values of the further numbers of all these events."""
        pairs = pc.list_flatten(self._counts().cast(_PAIRS))
        return pc.struct_field(pairs, 0), pc.struct_field(pairs, 1)

    def flags(self, name: str) -> Mask:
        """Return where a column of truth values is true."""
        column = pc.fill_null(self._source.batch.column(name), False)
        flags: Mask = column.to_numpy(zero_copy_only=False)
        return flags if self._rows is None else flags[self._rows]

    def counts(self, name: str) -> Ints:
        """Return one of the events' further numbers; below 0: null."""
        column = self._counts()
        if column.null_count == len(column):
            return np.full(len(self), NULL)
        found = pc.map_lookup(column, pa.scalar(name), "first")
        counts: Ints = pc.fill_null(found, NULL).to_numpy(zero_copy_only=False)
        return counts

    @property
    def begins(self) -> Ints:
        """When they began [ns]."""
        return self._chosen(self._source.numbers("begin_ns"))

    @property
    def ends(self) -> Ints:
        """When they ended; when they began where no duration is known [ns]."""
        return self.begins + np.maximum(self.durations, 0)

    @property
    def durations(self) -> Ints:
        """[ns]; below 0: not known."""
        return self.numbers("duration_ns")

    @property
    def operations(self) -> Ints:
        """How many operations each event stands for."""
        counts = self.numbers("count")
        return np.where(counts < 0, 1, counts)

    @property
    def places(self) -> Ints:
        """A number for each rank, or for its process where the rank is not known.

        A rank's own number, else one below :data:`NOBODY`, or that.
        """
        ranks = self.numbers("rank")
        return np.where(ranks < 0, NOBODY - np.maximum(self.numbers("pid"), 0), ranks)

    def of(self, *kinds: Kind) -> Columns:
        """Return the events of some kinds."""
        coded = self._source.texts("kind")
        wanted = np.array([value in kinds for value in coded.values.to_pylist()], np.bool_)
        if not wanted.any():
            return self.where(np.zeros(len(self), np.bool_))
        return self if wanted.all() else self.where(wanted[self._chosen(coded.codes)])

    def possible(self) -> Columns:
        """Return the events at times that can be reckoned with."""
        begins = self.begins
        return self.where((begins >= EARLIEST) & (begins <= LATEST))

    def where(self, mask: Mask) -> Columns:
        """Return the events for which the mask is true."""
        if mask.all():
            return self
        part = Columns.__new__(Columns)
        part._source = self._source
        part._rows = np.flatnonzero(mask) if self._rows is None else self._rows[mask]
        return part

    def timed(self) -> Columns:
        """Return the events whose duration is known."""
        return self.where(self.durations >= 0)

    def single(self) -> Columns:
        """Return the timed events that are one operation each: when they ran is known."""
        return self.where((self.durations >= 0) & (self.operations == 1))

    def by(self, name: str) -> Iterator[tuple[str | None, Columns]]:
        """Yield each value of a column of text with its events."""
        codes, values = self.texts(name)
        present = np.unique(codes)
        for code in present.tolist():
            value = None if code == NULL else values[code].as_py()
            yield value, self if present.size == 1 else self.where(codes == code)

    def strings(self, name: str) -> pa.StringArray:
        """Return a column of text as it is, nulls included."""
        codes, values = self.texts(name)
        return values.take(pa.array(codes, mask=codes == NULL))

    def _counts(self) -> pa.MapArray:
        column = self._source.batch.column("counts")
        return column if self._rows is None else column.take(pa.array(self._rows))

    def _chosen(self, values: Ints) -> Ints:
        return values if self._rows is None else values[self._rows]
