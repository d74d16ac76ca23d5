"""A pipeline made ready to run: which ops are computed together, and where it may be cut.

Running from 0 to the end, or in pieces at any of ``cuts`` on different hosts, in threads or in
processes, leads to the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from headrace.core.draws import Draws, SampleKey
from headrace.core.errors import ConfigError, CorruptSampleError
from headrace.core.numbered import shared_name, split_number
from headrace.core.record import AnyArray, Record, Value
from headrace.transform.op import (
    ArrayOp,
    BatchOp,
    Columns,
    Decoder,
    Frame,
    Framing,
    Memory,
    Op,
    PictureOp,
    Rows,
    ValueOp,
    require_array,
)
from headrace.transform.ops.user import UserOp
from headrace.transform.pictures import Pictures, pictures_of
from headrace.transform.pipeline import Pipeline

_Carried: TypeAlias = "Value | Pictures"

Stack: TypeAlias = "AnyArray | list[AnyArray]"
"""Arrays of one form: in one ``[N, ...]``, or each by itself."""


class Program:
    """Runs a pipeline. Immutable and thread-safe after construction."""

    def __init__(self, pipeline: Pipeline) -> None:
        """Plan the units and import the user ops.

        Raises:
            ConfigError: a user op cannot be imported here.
        """
        self.pipeline = pipeline
        self.ops = pipeline.ops
        self.sample_ops = pipeline.sample_ops
        self._framings = _framings(self.ops)
        self.cuts = _cuts(self.sample_ops, self._framings)
        for op in self.ops:
            if isinstance(op, UserOp):
                op.function()

    def tail_of(self, fields: Iterable[str]) -> int:
        """Return where the elementwise tail begins for records that have these fields only."""
        position, names = self.sample_ops, set(fields)
        while position and _is_tail(self.ops[position - 1], names):
            position -= 1
        return min(cut for cut in self.cuts if cut >= position)

    def framing_of(self, position: int, field: str) -> int | None:
        """Return the position of the framing op that the decoder at ``position`` includes."""
        found = self._framings.get((position, field))
        return found if found is not None else self._framings.get((position, shared_name(field)))

    def run(self, record: Record, key: SampleKey, *, start: int = 0, stop: int) -> Record:
        """Return the record after ops ``start`` to ``stop`` - 1; the given record is left as is.

        Args:
            record: As it is before op ``start``: encoded for 0, else what an earlier run returned.
            key: Names the visit of the sample; all randomness follows from it.
            start: One of ``cuts``.
            stop: One of ``cuts``, not before ``start``.

        Raises:
            CorruptSampleError: the sample cannot be decoded; the message names op and field.
            ConfigError: the ops do not fit the record, or the cuts are not allowed.
        """
        self._check_cuts(start, stop)
        carried: dict[str, _Carried] = dict(record)
        framed: set[tuple[int | None, str]] = set()
        received = {id(value) for value in record.values()}
        for position in range(start, stop):
            op = self.ops[position]
            for field in _acted_on(op, carried):
                if (position, field) not in framed:
                    value = carried.pop(field)
                    own = id(value) not in received
                    value = self._step(position, field, value, key, own=own)
                    carried[op.result_of(field)] = value
                    framed.add((self.framing_of(position, field), field))
        return {name: _settled(value) for name, value in carried.items()}

    def run_stacked(
        self,
        fields: Mapping[str, Stack],
        *,
        start: int,
        out: Mapping[str, AnyArray] | None = None,
    ) -> dict[str, AnyArray]:
        """Return stacked fields ``[N, ...]`` after ops ``start`` to ``sample_ops`` - 1.

        The bytes are those of ``run`` on each sample. Works sample by sample, so that a
        sample stays in the CPU's cache over all ops.

        Args:
            fields: Arrays as they are before op ``start``, samples along the first axis or in
                lists.
            start: At or behind ``tail_of(fields)``.
            out: Arrays for the results, where the caller has them (pinned memory).

        Raises:
            ConfigError: an op from ``start`` on that acts on the fields is not elementwise.
        """
        if start < self.tail_of(fields):
            raise ConfigError(
                f"ops from {start} on are not all elementwise; run samples one by one up to "
                f"op {self.tail_of(fields)}"
            )
        given = out or {}
        return {
            name: self._stacked(name, array, start, given.get(name))
            for name, array in fields.items()
        }

    def run_batch(
        self, columns: Columns, rows: Mapping[str, Rows], memory: Memory = np.empty
    ) -> tuple[Columns, dict[str, Rows]]:
        """Return a batch after the ops that join samples; a batch without their fields is left.

        Args:
            columns: The batch.
            rows: Rows of the columns that not every row has just once; also returned.
            memory: Where the joined columns lie.
        """
        kept = dict(rows)
        for op in self.ops[self.sample_ops :]:
            if isinstance(op, BatchOp) and all(field in columns for field in op.fields):
                before, columns = columns, op.join(columns, memory)
                kept = _rows_after(op, before, columns, kept)
        return columns, kept

    def _check_cuts(self, start: int, stop: int) -> None:
        for cut in (start, stop):
            if cut not in self.cuts:
                raise ConfigError(f"the pipeline cannot be cut at op {cut}; allowed: {self.cuts}")
        if start > stop:
            raise ConfigError(f"cannot run from op {start} back to op {stop}")

    def _step(
        self, position: int, field: str, value: _Carried, key: SampleKey, *, own: bool
    ) -> _Carried:
        op = self.ops[position]
        try:
            if isinstance(op, ArrayOp):
                array = require_array(_settled(value), op, field)
                return op.compute(array, array if own and op.in_place else None)
            return self._apply(position, field, value, key)
        except CorruptSampleError as error:
            raise CorruptSampleError(
                f"sample {key.sample}, field {field!r}, op {position} ({op.name}): {error}"
            ) from error

    def _apply(self, position: int, field: str, value: _Carried, key: SampleKey) -> _Carried:
        op, draws = self.ops[position], _draws(key, position, field)
        if isinstance(op, Decoder):
            return op.decode(_settled(value), draws, self._frame(position, field, key))
        if isinstance(op, Framing):
            pictures = _pictures(value, op, field)
            return pictures.map(op.window(*pictures.size, draws).apply)
        if isinstance(op, PictureOp):
            return op.apply(_pictures(value, op, field), draws)
        if isinstance(op, ValueOp):
            return op.apply(_settled(value), draws)
        raise TypeError(f"op {op.name} is of no known kind")

    def _frame(self, position: int, field: str, key: SampleKey) -> Frame | None:
        place = self.framing_of(position, field)
        if place is None:
            return None
        framing = self.ops[place]
        assert isinstance(framing, Framing)
        return Frame(framing, _draws(key, place, field))

    def _stacked(self, name: str, array: Stack, start: int, out: AnyArray | None) -> AnyArray:
        ops = [op for op in self._tail_ops(start) if op.acts_on(name)]
        if not ops or not len(array):
            return array if isinstance(array, np.ndarray) else np.stack(array, out=out)
        results = out
        for number, sample in enumerate(array):
            first = _chain(ops, sample, None if results is None else results[number])
            if results is None:
                results = np.empty((len(array), *first.shape), first.dtype)
                results[number] = first
        assert results is not None
        return results

    def _tail_ops(self, start: int) -> list[ArrayOp]:
        return [op for op in self.ops[start : self.sample_ops] if isinstance(op, ArrayOp)]


def _is_tail(op: Op, names: set[str]) -> bool:
    return op.elementwise or not any(map(op.acts_on, names))


def _acted_on(op: Op, names: Iterable[str]) -> list[str]:
    """Return those of a record's fields that an op acts on, in the order of the op's own."""
    found = [n for field in op.fields for n in names if field in (n, shared_name(n))]
    return list(dict.fromkeys(found))


def _draws(key: SampleKey, position: int, field: str) -> Draws:
    return Draws(key, position, split_number(field)[1] or 0)


def _chain(ops: Sequence[ArrayOp], array: AnyArray, out: AnyArray | None) -> AnyArray:
    for op in ops:
        array = out = op.compute(array, out)
    return array


def _framings(ops: Sequence[Op]) -> dict[tuple[int, str], int]:
    """Return, for each decoder and field, the op behind it if that is a framing op."""
    found = {}
    for position, op in enumerate(ops):
        if isinstance(op, Decoder):
            for field in op.fields:
                place = _next_on(ops, field, position + 1)
                if (
                    place is not None
                    and isinstance(ops[place], Framing)
                    and ops[place].acts_on(field)
                ):
                    found[position, field] = place
    return found


def _next_on(ops: Sequence[Op], field: str, start: int) -> int | None:
    """Return the first op from ``start`` on that acts on a field, or on one of several of it."""
    like = shared_name(field)
    places = (p for p in range(start, len(ops)) if like in map(shared_name, ops[p].fields))
    return next(places, None)


def _cuts(sample_ops: int, framings: Mapping[tuple[int, str], int]) -> tuple[int, ...]:
    inside = {
        cut for (decoder, _), framing in framings.items() for cut in range(decoder + 1, framing + 1)
    }
    return tuple(cut for cut in range(sample_ops + 1) if cut not in inside)


def _rows_after(
    op: BatchOp, before: Columns, after: Columns, rows: Mapping[str, Rows]
) -> dict[str, Rows]:
    """Return the rows of the columns that an op left alone, and of those that it tells of."""
    every = {
        name: rows[name] if name in rows else np.arange(len(column), dtype=np.int64)
        for name, column in before.items()
    }
    left = {name: rows[name] for name in rows if after.get(name) is before[name]}
    made = {name: found for name, found in op.rows(before, every).items() if name in after}
    return {**left, **made}


def _settled(value: _Carried) -> Value:
    return value.array() if isinstance(value, Pictures) else value


def _pictures(value: _Carried, op: Op, field: str) -> Pictures:
    if isinstance(value, Pictures):
        return value
    return pictures_of(require_array(value, op, field), field)
