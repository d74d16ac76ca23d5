"""Puts one step's samples together as they come, in memory that becomes the batch.

Samples of one media kind share one block of memory per field, so that a frame is read
from the socket straight to its place and the batch's last ops run over all rows at once.
Used by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from headrace.client.batch import Batch, Replaced
from headrace.client.columns import Part, merge, part_of, same_form
from headrace.client.memory import Memory
from headrace.client.tail import Tail
from headrace.core.draws import SampleKey
from headrace.core.record import AnyArray, Record, Value
from headrace.wire.frames import FieldHeader, FrameHeader, record_of

Visit = tuple[int, int]
"""(sample, epoch): names a sample inside one step."""

_SCALARS = frozenset({"bytes", "text", "int", "float"})


class Group:
    """The rows of one media kind."""

    def __init__(self, rows: Sequence[int], memory: Memory) -> None:
        self.rows = list(rows)
        self._slots = {row: slot for slot, row in enumerate(rows)}
        self._memory = memory
        self._blocks: dict[str, AnyArray] = {}
        self._records: dict[int, Record] = {}

    def place_for(self, row: int, field: FieldHeader) -> memoryview:
        """Return the memory that a frame's field is read into: in the block where it fits."""
        if field.dtype in _SCALARS or not field.nbytes:
            return memoryview(bytearray(field.nbytes))
        place = self._place(row, field.name, field.shape, np.dtype(field.dtype))
        if place is None:
            return memoryview(bytearray(field.nbytes))
        return place.reshape(-1).view(np.uint8).data

    def put(self, row: int, record: Record) -> None:
        """Settle a row; arrays are moved into their block unless they lie there already."""
        self._records[row] = {
            name: self._settle(row, name, value) if isinstance(value, np.ndarray) else value
            for name, value in record.items()
        }

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks."""
        return sum(block.nbytes for block in self._blocks.values())

    def finish(self, tail: Tail, keys: Sequence[SampleKey], start: int) -> Part | None:
        """Run the ops from ``start`` on and return the columns; None when no row is left."""
        rows = [row for row in self.rows if row in self._records]
        if not rows:
            return None
        blocks = self._whole_blocks(rows)
        fields = {name for row in rows for name in self._records[row]}
        if blocks is None or not tail.stacks(fields, blocks, start):
            done = [tail.run(self._records[row], keys[row], start) for row in rows]
            return part_of(rows, done)
        rest = [
            {name: value for name, value in self._records[row].items() if name not in blocks}
            for row in rows
        ]
        part = part_of(rows, rest)
        columns = {**part.columns, **tail.run_stacked(blocks, start)}
        return Part(part.rows, columns, part.absent)

    def _place(
        self, row: int, name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]
    ) -> AnyArray | None:
        block = self._blocks.get(name)
        if block is None:
            block = self._blocks[name] = self._memory((len(self.rows), *shape), dtype)
        if block.shape[1:] != shape or block.dtype != dtype:
            return None
        slot = self._slots[row]
        return block[slot : slot + 1]

    def _settle(self, row: int, name: str, value: AnyArray) -> Value:
        place = self._place(row, name, value.shape, value.dtype)
        if place is None:
            return value
        if _address(place) != _address(value):
            place[0] = value
        return place[0] if value.ndim else place.reshape(())

    def _whole_blocks(self, rows: Sequence[int]) -> dict[str, AnyArray] | None:
        """Return the blocks cut to the settled rows; None where some row's array is elsewhere."""
        arrays = [
            {name: value for name, value in self._records[row].items() if _is_array(value)}
            for row in rows
        ]
        first = arrays[0]
        for other in arrays[1:]:
            if other.keys() != first.keys() or not _alike(first, other):
                return None
        if any(not same_form(value, self._blocks[name][0]) for name, value in first.items()):
            return None
        if len(rows) == len(self.rows):
            return {name: self._blocks[name] for name in first}
        slots = [self._slots[row] for row in rows]
        return {name: self._blocks[name][slots] for name in first}


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
        self.kinds = tuple(kinds)
        self.targets = targets
        self._tail = tail
        self._rows: dict[Visit, list[int]] = {}
        for row, key in enumerate(self.keys):
            self._rows.setdefault((key.sample, key.epoch), []).append(row)
        self._groups = {
            kind: Group([row for row, other in enumerate(kinds) if other == kind], tail.memory)
            for kind in dict.fromkeys(kinds)
        }
        self.waiting = dict.fromkeys(self._rows)
        """Visits without a result yet, in schedule order."""

        self._taken = np.array([key.sample for key in self.keys], dtype=np.int64)
        self._dropped: set[int] = set()

    def key(self, visit: Visit) -> SampleKey:
        """Return the key of a visit of this step."""
        return self.keys[self._rows[visit][0]]

    def target(self, visit: Visit) -> int:
        """Return the cut at which the batch takes this sample."""
        return self.targets[self._kind(visit)]

    def memory_for(self, header: FrameHeader) -> list[memoryview]:
        """Give the memory for a frame's fields: the batch's own where it fits as it is."""
        visit = (header.sample, header.epoch)
        direct = header.kind == "tensor" and visit in self.waiting
        if not direct or header.cut != self.target(visit):
            return [memoryview(bytearray(field.nbytes)) for field in header.fields]
        row = self._rows[visit][0]
        return [self._group(visit).place_for(row, field) for field in header.fields]

    def take_frame(self, header: FrameHeader, buffers: Sequence[memoryview]) -> None:
        """Settle a sample with a frame that lies in ``memory_for``'s memory."""
        self.put((header.sample, header.epoch), record_of(header, buffers))

    def put(self, visit: Visit, record: Record, *, taken: int | None = None) -> None:
        """Settle a sample with a record at its target cut; ``taken`` names a substitute."""
        for row in self._rows[visit]:
            self._group(visit).put(row, record)
            if taken is not None:
                self._taken[row] = taken
        del self.waiting[visit]

    def drop(self, visit: Visit) -> None:
        """Settle a sample by leaving its rows out."""
        self._dropped.update(self._rows[visit])
        del self.waiting[visit]

    def finish(self, *, step: int, epoch: int, replaced: tuple[Replaced, ...]) -> Batch:
        """Run the remaining ops and hand the batch out; the assembly is not used afterwards."""
        parts = [
            part
            for kind, group in self._groups.items()
            if (part := group.finish(self._tail, self.keys, self.targets[kind]))
        ]
        kept = [row for row in range(len(self.keys)) if row not in self._dropped]
        if self._dropped:
            parts = [_renumbered(part, kept) for part in parts]
        columns, rows = merge(parts, len(kept))
        columns["sample"] = self._taken[kept]
        joined = self._tail.run_batch(columns)
        rows = {name: rows[name] for name in rows if joined.get(name) is columns[name]}
        return Batch(joined, rows, step=step, epoch=epoch, size=len(kept), replaced=replaced)

    @property
    def nbytes(self) -> int:
        """Memory held for arrays so far [bytes]."""
        return sum(group.nbytes for group in self._groups.values())

    def _kind(self, visit: Visit) -> str:
        return self.kinds[self._rows[visit][0]]

    def _group(self, visit: Visit) -> Group:
        return self._groups[self._kind(visit)]


def _renumbered(part: Part, kept: Sequence[int]) -> Part:
    """Return the part with its rows counted among those that are kept."""
    new = {row: number for number, row in enumerate(kept)}
    absent = {name: frozenset(new[row] for row in rows) for name, rows in part.absent.items()}
    rows = np.array([new[row] for row in part.rows.tolist()], dtype=np.int64)
    return Part(rows, part.columns, absent)


def _is_array(value: Value) -> bool:
    return isinstance(value, np.ndarray)


def _address(array: AnyArray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _alike(first: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
    return all(same_form(first[name], other[name]) for name in first)  # type: ignore[arg-type]
