"""From the map of a job's blocks to the nodes that hold each sample, and how the map is made.

Pure: one party asks the storage, everybody else gets its map, and all come to the same
nodes. Only numbers travel, a few bytes per block.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Generic, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from headrace.core.digest import name_digest
from headrace.core.errors import CallerError
from headrace.dataset.extents import Extents, extents
from headrace.prepare.job import OpenJob
from headrace.storage.port import BlockPlace
from headrace.wire.messages import JobPlaces, SourceBlocks, StorageNode

Blocks: TypeAlias = Sequence[BlockPlace]
"""The blocks of one file, in order; empty where they are not known."""

Numbers: TypeAlias = npt.NDArray[np.int64]

T = TypeVar("T")

MOST_BYTES = 1 << 61
"""Most bytes that a map's datasets may have each."""


def places_of(sources: Sequence[Sequence[Blocks]], *, reason: str = "") -> JobPlaces:
    """Return the map to be sent; the same blocks give the same version, whoever asked for them.

    Args:
        sources: For each dataset, for each of its files with samples, the blocks.
        reason: Why some are not known, for people.
    """
    nodes = _Numbered[StorageNode]()
    sets = _Numbered[tuple[int, ...]]()
    sets.number(())
    for node in sorted(_nodes(sources), key=lambda node: (node.host, node.address)):
        nodes.number(node)

    def encoded(files: Sequence[Blocks]) -> SourceBlocks:
        blocks = [block for file in files for block in file]
        holders = (
            tuple(sorted({nodes.number(StorageNode(host=r.host, address=r.address)) for r in held}))
            for held in (block.replicas for block in blocks)
        )
        return SourceBlocks(
            counts=_packed((len(file) for file in files), "<u4"),
            ends=_packed((block.offset + block.length for block in blocks), "<u8"),
            sets=_packed((sets.number(held) for held in holders), "<u4"),
        )

    found = JobPlaces(
        sources=tuple(encoded(files) for files in sources),
        nodes=tuple(nodes.values),
        sets=tuple(sets.values),
    )
    if not nodes.values:
        return JobPlaces(reason=reason or "the storage tells of no node that holds the data")
    version = name_digest(msgspec.json.encode(found))
    return msgspec.structs.replace(found, version=version, reason=reason)


class Whereabouts:
    """The nodes that hold each sample of a job, by one map. Immutable.

    Raises:
        CallerError: the map is not one of this job.
    """

    def __init__(self, places: JobPlaces, job: OpenJob) -> None:
        if not places.version:
            raise CallerError("the map of blocks has no version: it says that nothing is known")
        if len(places.sources) != len(job.sources):
            raise CallerError(
                f"the map of blocks is of {len(places.sources)} datasets, the job has "
                f"{len(job.sources)}; it belongs to another job"
            )
        self.version = places.version
        self._sets = _Numbered[tuple[int, ...]]()
        for nodes in places.sets:
            self._sets.number(nodes)
        _check_sets(places)
        found = [
            self._sets_of_source(blocks, extents(source.index))
            for blocks, source in zip(places.sources, job.sources, strict=True)
        ]
        self._of_sample = np.concatenate(found).astype(np.uint32)
        names = [_names(node) for node in places.nodes]
        self.holders = tuple(
            frozenset(name for node in nodes for name in names[node]) for nodes in self._sets.values
        )
        """For each number of a set, all names and addresses of its nodes."""

    def sets(self, samples: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
        """Return the number of the set of nodes that hold most of each sample, ``[N]``."""
        return self._of_sample[samples]

    def _sets_of_source(self, blocks: SourceBlocks, where: Extents) -> Numbers:
        held = _HeldBlocks(blocks, files=where.file_count, sets=len(self._sets.values))
        first, last = held.around(where)
        result = np.where(first < 0, 0, held.sets[first]) if held.sets.size else first * 0
        crossing = np.flatnonzero(first < last)
        spans = np.stack([first, last, where.begins, where.ends], axis=1)[crossing]
        distinct, which = np.unique(spans, axis=0, return_inverse=True)  # rows share row groups
        most = [self._holding_most(held.parts(*span)) for span in distinct.tolist()]
        result[crossing] = np.array(most, np.int64)[which.reshape(-1)]
        return result

    def _holding_most(self, parts: Iterable[tuple[int, int]]) -> int:
        """Return the set of the nodes that hold the most bytes of (set, bytes) together."""
        held: Counter[int] = Counter()
        for number, nbytes in parts:
            for node in self._sets.values[number]:
                held[node] += nbytes
        most = max(held.values(), default=0)
        return self._sets.number(tuple(sorted(node for node in held if held[node] == most)))


class _HeldBlocks:
    """One dataset's blocks as arrays: all files' bytes on one line, one file after another."""

    def __init__(self, blocks: SourceBlocks, *, files: int, sets: int) -> None:
        counts = _unpacked(blocks.counts, "<u4")
        ends = _unpacked(blocks.ends, "<u8")
        self.sets = _unpacked(blocks.sets, "<u4")
        if counts.size != files or not counts.sum() == ends.size == self.sets.size:
            raise CallerError(
                f"the map of blocks has {counts.size} files and {ends.size} blocks, the index "
                f"{files} files; it belongs to another index"
            )
        if self.sets.size and self.sets.max() >= sets:
            raise CallerError(f"the map of blocks names set {self.sets.max()}, there are {sets}")
        self._counts = counts
        self._behind = np.cumsum(counts)
        sizes = np.zeros(files, np.int64)
        some = counts > 0
        sizes[some] = ends[self._behind[some] - 1]
        self._bases = np.cumsum(sizes) - sizes
        _check_ends(ends, (self._behind - counts)[some], sizes)
        self._ends = ends + np.repeat(self._bases, counts)

    def around(self, where: Extents) -> tuple[Numbers, Numbers]:
        """Return each sample's first and last block; -1 where none is known."""
        files = where.files
        bases, behind, counts = self._bases[files], self._behind[files], self._counts[files]
        first = np.searchsorted(self._ends, where.begins + bases, side="right")
        last = np.searchsorted(self._ends, where.ends - 1 + bases, side="right")
        known = counts > 0
        first = np.where(known, np.minimum(first, behind - 1), -1)
        return first, np.where(known, np.minimum(last, behind - 1), -1)

    def parts(self, first: int, last: int, begin: int, end: int) -> list[tuple[int, int]]:
        """Return (set, bytes) of a sample that crosses blocks."""
        file = np.searchsorted(self._behind, first, side="right")
        ends = self._ends[first : last + 1] - self._bases[file]
        cuts = [begin, *(min(int(at), end) for at in ends[:-1]), end]
        sizes = (after - before for before, after in itertools.pairwise(cuts))
        return list(zip(self.sets[first : last + 1].tolist(), sizes, strict=True))


class _Numbered(Generic[T]):
    """Gives each value a number, in the order in which they come."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}

    def number(self, value: T) -> int:
        """Return a value's number, the next one if it is new."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found


def _check_ends(ends: Numbers, first: Numbers, sizes: Numbers) -> None:
    steps = np.diff(ends, prepend=0)
    steps[first] = ends[first]
    if (steps < 0).any() or (ends < 0).any() or sizes.sum(dtype=np.float64) > MOST_BYTES:
        raise CallerError("the map of blocks has blocks out of order, or impossibly long ones")


def _check_sets(places: JobPlaces) -> None:
    nodes = {node for held in places.sets for node in held}
    if not nodes <= set(range(len(places.nodes))):
        raise CallerError("the map of blocks has a set with a node that it does not name")
    if len(set(places.sets)) < len(places.sets) or places.sets[:1] != ((),):
        raise CallerError(
            "the map of blocks names a set of nodes twice, or not the empty one first"
        )


def _nodes(sources: Sequence[Sequence[Blocks]]) -> set[StorageNode]:
    return {
        StorageNode(host=replica.host, address=replica.address)
        for files in sources
        for blocks in files
        for block in blocks
        for replica in block.replicas
    }


def _names(node: StorageNode) -> tuple[str, ...]:
    """Return what an agent beside a node may call it."""
    address = node.address.rpartition(":")[0].strip("[]")
    return tuple(name for name in (node.host, node.address, address) if name)


def _packed(values: Iterable[int], form: str) -> bytes:
    return np.fromiter(values, dtype=form).tobytes()


def _unpacked(data: bytes, form: str) -> Numbers:
    if len(data) % np.dtype(form).itemsize:
        raise CallerError("the map of blocks was cut off")
    return np.frombuffer(data, dtype=form).astype(np.int64)
