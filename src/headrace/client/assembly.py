"""Puts one step's samples together as they come, in memory that becomes the batch.

Samples of one media kind share one block of memory per field, so that a frame is read
from the socket straight to its place and the batch's last ops run over all rows at once.
Used by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.client.batch import Batch, Replaced
from headrace.client.columns import Part, merge, part_of
from headrace.client.tail import Tail
from headrace.core.draws import SampleKey
from headrace.core.numbered import is_numbered
from headrace.core.record import AnyArray, Record
from headrace.transform.op import Memory
from headrace.transform.program import Stack
from headrace.wire.frames import FieldHeader, FrameHeader, value_of

Visit = tuple[int, int]
"""(sample, epoch): names a sample inside one step."""

_SCALARS = frozenset({"bytes", "text", "int", "float"})


class Group:
    """The rows of one media kind.

    A field's arrays come into one block as long as they have the form of the first of them, and
    what was made here stays where it is; everything else is kept row by row, fields with numbers
    also: few rows may have many.
    """

    def __init__(self, rows: Sequence[int], memory: Memory) -> None:
        self.rows = list(rows)
        self._slots = {row: slot for slot, row in enumerate(rows)}
        self._memory = memory
        self._blocks: dict[str, _Block] = {}
        self._forms: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self._alike: dict[int, dict[str, AnyArray]] = {}
        """Row → its arrays that have the form of the field's others, in the block or by itself."""

        self._in_block: set[tuple[str, int]] = set()
        """Fields of rows that lie in the block."""

        self._loose: dict[int, Record] = {}
        """Row → its other fields. A row that is settled is in both."""

    def place_for(self, row: int, field: FieldHeader) -> memoryview:
        """Return the memory that a frame's field is read into: in the block where it fits."""
        if field.dtype in _SCALARS or not field.nbytes or is_numbered(field.name):
            return memoryview(bytearray(field.nbytes))
        block = self._blocks.get(field.name) or self._add_block(field)
        if block is None or not block.fits(field):
            return memoryview(bytearray(field.nbytes))
        return block.octets(self._slots[row])

    def take_frame(self, row: int, header: FrameHeader, buffers: Sequence[memoryview]) -> None:
        """Settle a row with a frame that lies in the memory of ``place_for``."""
        alike, loose = {}, {}
        for field, data in zip(header.fields, buffers, strict=True):
            block = self._blocks.get(field.name)
            if block is not None and block.fits(field):
                alike[field.name] = block.array[self._slots[row], ...]
                self._in_block.add((field.name, row))
            else:
                loose[field.name] = value_of(field, data)
        self._alike[row], self._loose[row] = alike, loose

    def put(self, row: int, record: Record) -> None:
        """Settle a row. Its arrays stay where they are: the batch's last ops read them there."""
        alike, loose = {}, {}
        for name, value in record.items():
            if isinstance(value, np.ndarray) and self._is_alike(name, value):
                alike[name] = value
            else:
                loose[name] = value
        self._alike[row], self._loose[row] = alike, loose

    def record(self, row: int) -> Record:
        """Return the fields of a settled row; arrays may be views of blocks."""
        return {**self._loose[row], **self._alike[row]}

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks, and of the arrays that lie elsewhere."""
        blocks = sum(block.array.nbytes for block in self._blocks.values())
        return blocks + sum(
            value.nbytes
            for row, alike in self._alike.items()
            for name, value in alike.items()
            if (name, row) not in self._in_block
        )

    def finish(self, tail: Tail, keys: Sequence[SampleKey], start: int) -> Part | None:
        """Run the ops from ``start`` on and return the columns; None when no row is left."""
        rows = [row for row in self.rows if row in self._loose]
        if not rows:
            return None
        stacks = self._stacks(rows)
        fields = {name for row in rows for name in (*self._loose[row], *self._alike[row])}
        if stacks is None or not tail.stacks(fields, stacks, start):
            done = [tail.run(self.record(row), keys[row], start) for row in rows]
            return part_of(rows, done)
        part = part_of(rows, [self._loose[row] for row in rows])
        columns = {**part.columns, **tail.run_stacked(stacks, start)}
        return Part(part.rows, columns, part.absent)

    def _add_block(self, field: FieldHeader) -> _Block | None:
        """Make the block of a field; None where its rows have another form."""
        form = (np.dtype(field.dtype), field.shape)
        if self._forms.setdefault(field.name, form) != form:
            return None
        block = _Block(self._memory((len(self.rows), *field.shape), form[0]))
        self._blocks[field.name] = block
        return block

    def _is_alike(self, name: str, value: AnyArray) -> bool:
        form = (value.dtype, value.shape)
        return not is_numbered(name) and self._forms.setdefault(name, form) == form

    def _stacks(self, rows: Sequence[int]) -> dict[str, Stack] | None:
        """Return each field's arrays, in the order of rows; None where some differ in form."""
        names = self._alike[rows[0]].keys()
        if any(self._alike[row].keys() != names for row in rows):
            return None
        if any(
            isinstance(value, np.ndarray) for row in rows for value in self._loose[row].values()
        ):
            return None
        return {name: self._stack(name, rows) for name in names}

    def _stack(self, name: str, rows: Sequence[int]) -> Stack:
        if len(rows) == len(self.rows) and all((name, row) in self._in_block for row in rows):
            return self._blocks[name].array
        return [self._alike[row][name] for row in rows]


class _Block:
    """One field's arrays of all rows, ``[n, ...]``."""

    __slots__ = ("_dtype", "_octets", "_shape", "_size", "array")

    def __init__(self, array: AnyArray) -> None:
        self.array = array
        self._dtype = array.dtype.str
        self._shape = array.shape[1:]
        self._size = array.nbytes // len(array)
        self._octets: memoryview | None = None

    def fits(self, field: FieldHeader) -> bool:
        """Tell whether a frame's field has the form of the rows."""
        return field.dtype == self._dtype and field.shape == self._shape

    def octets(self, slot: int) -> memoryview:
        """Return the bytes of one row, to be written."""
        if self._octets is None:
            self._octets = self.array.reshape(-1).view(np.uint8).data
        begin = slot * self._size
        return self._octets[begin : begin + self._size]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rows of one visit, and what they take."""

    rows: list[int]
    kind: str
    target: int
    """Cut at which the batch takes the sample."""

    group: Group


class Assembly:
    """One step of one rank, from the first sample to the finished batch."""

    def __init__(
        self,
        keys: Sequence[SampleKey],
        kinds: Sequence[str],
        *,
        tail: Tail,
        targets: Mapping[str, int],
    ) -> None:
        self.keys = tuple(keys)
        self._targets = targets
        self._tail = tail
        self._groups = {
            kind: Group([row for row, other in enumerate(kinds) if other == kind], tail.memory)
            for kind in dict.fromkeys(kinds)
        }
        self._wanted: dict[Visit, Wanted] = {}
        for row, (key, kind) in enumerate(zip(self.keys, kinds, strict=True)):
            wanted = self._wanted.get((key.sample, key.epoch))
            if wanted is None:
                wanted = Wanted([], kind, targets[kind], self._groups[kind])
                self._wanted[key.sample, key.epoch] = wanted
            wanted.rows.append(row)
        self.waiting = dict(self._wanted)
        """Visits without a result yet, in schedule order."""

        self._taken = np.array([key.sample for key in self.keys], dtype=np.int64)
        self._dropped: set[int] = set()

    def key(self, visit: Visit) -> SampleKey:
        """Return the key of a visit of this step."""
        return self.keys[self._wanted[visit].rows[0]]

    def target(self, visit: Visit) -> int:
        """Return the cut at which the batch takes this sample."""
        return self._wanted[visit].target

    def memory_for(self, header: FrameHeader) -> list[memoryview]:
        """Give the memory for a frame's fields: the batch's own where it fits as it is."""
        wanted = self.waiting.get((header.sample, header.epoch))
        direct = wanted is not None and header.kind == "tensor" and header.part.is_whole
        if wanted is None or not direct or header.cut != wanted.target:
            return [memoryview(bytearray(field.nbytes)) for field in header.fields]
        row = wanted.rows[0]
        return [wanted.group.place_for(row, field) for field in header.fields]

    def take_frame(self, header: FrameHeader, buffers: Sequence[memoryview]) -> None:
        """Settle a sample with a frame that lies in ``memory_for``'s memory."""
        wanted = self.waiting.pop((header.sample, header.epoch))
        group, first = wanted.group, wanted.rows[0]
        group.take_frame(first, header, buffers)
        for row in wanted.rows[1:]:
            group.put(row, group.record(first))

    def put(self, visit: Visit, record: Record, *, taken: int | None = None) -> None:
        """Settle a sample with a record at its target cut; ``taken`` names a substitute."""
        wanted = self.waiting.pop(visit)
        for row in wanted.rows:
            wanted.group.put(row, record)
            if taken is not None:
                self._taken[row] = taken

    def drop(self, visit: Visit) -> None:
        """Settle a sample by leaving its rows out."""
        self._dropped.update(self.waiting.pop(visit).rows)

    def finish(self, *, step: int, epoch: int, replaced: tuple[Replaced, ...]) -> Batch:
        """Run the remaining ops and hand the batch out; the assembly is not used afterwards."""
        parts = [
            part
            for kind, group in self._groups.items()
            if (part := group.finish(self._tail, self.keys, self._targets[kind]))
        ]
        kept = [row for row in range(len(self.keys)) if row not in self._dropped]
        if self._dropped:
            parts = [_renumbered(part, kept) for part in parts]
        columns, rows = merge(parts, len(kept))
        columns["sample"] = self._taken[kept]
        columns, rows = self._tail.run_batch(columns, rows)
        return Batch(columns, rows, step=step, epoch=epoch, size=len(kept), replaced=replaced)

    @property
    def nbytes(self) -> int:
        """Memory held for arrays so far [bytes]."""
        return sum(group.nbytes for group in self._groups.values())


def _renumbered(part: Part, kept: Sequence[int]) -> Part:
    """Return the part with its rows counted among those that are kept."""
    new = {row: number for number, row in enumerate(kept)}
    absent = {name: frozenset(new[row] for row in rows) for name, rows in part.absent.items()}
    rows = np.array([new[row] for row in part.rows.tolist()], dtype=np.int64)
    return Part(rows, part.columns, absent)
