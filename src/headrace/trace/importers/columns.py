"""Makes columns of the schema out of what other tools wrote, without a loop over the events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.errors import CorruptDataError
from headrace.trace.events import arrow_schema
from headrace.trace.importer import Notes

EARLIEST_NS = 10**18
"""A time before this moment of 2001 is not since 1970 but since some other moment [ns]."""

MOST_NS = 2**62
"""A moment or a duration that is so large, or so far before zero, is none: 146 years. The sum of
two still is a number of 64 bits [ns]."""

_SCHEMA = arrow_schema()
_LIMIT = 2**63
_DIGITS = r"^-?\d{1,18}$"
_UNFIT = (pa.ArrowException, OverflowError, TypeError)
"""What pyarrow raises for values that are not of the type asked for."""


def batch(rows: int, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Return a batch of the schema.

    Args:
        rows: Of the batch.
        columns: By name: an array, or one value for all rows; null where a name lacks.
    """
    arrays = [_column(columns.get(field.name), field.type, rows) for field in _SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def integers(values: Sequence[object]) -> pa.Array:
    """Return whole numbers, written as such or as texts; null for anything else."""
    with suppress(*_UNFIT):
        array = pa.array(values)
        if array.type == pa.string():
            array = pc.if_else(pc.match_substring_regex(array, _DIGITS), array, None)
        if array.type != pa.bool_():
            return array.cast(pa.int64())
    return pa.array([_whole(value) for value in values], pa.int64())


def nanoseconds(micros: Sequence[object]) -> pa.Array:
    """Return times told in µs, whole, with a fraction, or as texts, in ns; null for others."""
    with suppress(*_UNFIT):
        array = pa.array(micros)
        if array.type in (pa.string(), pa.float64()):
            return _of_micros(array.cast(pa.float64()))
        if array.type != pa.bool_():
            return _of_whole_micros(array.cast(pa.int64()))
    return _of_micros(pa.array([_number(value) for value in micros], pa.float64()))


def counts(values: Sequence[object]) -> pa.Array:
    """Return whole numbers that cannot be negative; null for anything else."""
    return not_negative(integers(values))


def not_negative(values: pa.Array) -> pa.Array:
    """Return numbers with null for those below zero."""
    return pc.if_else(pc.greater_equal(values, 0), values, None)


def products(numbers: pa.Array, others: pa.Array) -> pa.Array:
    """Return products of numbers that are not negative; null where one is beyond 64 bits."""
    most = pc.divide(_LIMIT - 1, pc.max_element_wise(others, 1))
    return pc.multiply(pc.if_else(pc.less_equal(numbers, most), numbers, None), others)


def timed(batch: pa.RecordBatch, where: str, notes: Notes) -> pa.RecordBatch:
    """Return the events that tell when they began; the others are a problem.

    Times that cannot be since 1970 make the trace one of relative times.
    """
    begin = batch["begin_ns"]
    events = batch.num_rows
    batch = batch.filter(pc.and_(pc.less(begin, MOST_NS), pc.greater(begin, -MOST_NS)))
    if batch.num_rows < events:
        lost = events - batch.num_rows
        notes.problem(f"{where}: {lost} events do not tell when they began")
    first = pc.min(batch["begin_ns"]).as_py()
    if first is not None and first < EARLIEST_NS:
        notes.is_relative = True
    return batch


def some(batches: Iterable[pa.RecordBatch], notes: Notes) -> Iterator[pa.RecordBatch]:
    """Yield batches; where damage left no event of a trace, it is no part but an error.

    Raises:
        CorruptDataError: there was damage and no event; it is the first damage.
    """
    damage, found = len(notes.problems), False
    for batch in batches:
        found = found or batch.num_rows > 0
        yield batch
    if not found and len(notes.problems) > damage:
        raise CorruptDataError(notes.problems.pop(damage))


def distinct_pairs(first: pa.Array, second: pa.Array) -> tuple[list[tuple[str, str]], pa.Array]:
    """Return the different pairs of two columns of texts, and for each row which one it is.

    Returns:
        The pairs, few; and their indices, int32 [rows].
    """
    left, right = first.dictionary_encode(), second.dictionary_encode()
    width = max(len(right.dictionary), 1)
    codes = pc.add(pc.multiply(left.indices.cast(pa.int64()), width), right.indices)
    pairs = codes.dictionary_encode()
    texts = left.dictionary.to_pylist(), right.dictionary.to_pylist()
    found = [
        (texts[0][code // width], texts[1][code % width]) for code in pairs.dictionary.to_pylist()
    ]
    return found, pairs.indices


def _column(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    if isinstance(value, pa.Array):
        return value
    if value is None:
        return pa.nulls(rows, kind)
    return pa.repeat(pa.scalar(value, kind), rows)


def _of_whole_micros(micros: pa.Array) -> pa.Array:
    most = MOST_NS // 1000
    fits = pc.and_(pc.less(micros, most), pc.greater(micros, -most))
    return pc.multiply(pc.if_else(fits, micros, None), 1000)


def _of_micros(micros: pa.Array) -> pa.Array:
    numbers = micros.to_numpy(zero_copy_only=False)
    fits = np.abs(numbers) < MOST_NS // 1000
    whole, rest = np.divmod(np.where(fits, numbers, 0.0), 1.0)
    values = whole.astype(np.int64) * 1000 + np.rint(rest * 1000).astype(np.int64)
    return pa.array(values, pa.int64(), mask=~fits)


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    with suppress(ValueError, OverflowError):
        number = int(value)
        return number if -_LIMIT <= number < _LIMIT else None
    return None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    with suppress(ValueError, OverflowError):
        return float(value)
    return None
