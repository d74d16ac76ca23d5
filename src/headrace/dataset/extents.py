"""Which part of which file each sample's bytes come from, as arrays over a whole index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.dataset.index import Index
from headrace.dataset.location import Container

_COMPRESSIBLE: frozenset[Container] = frozenset({"jsonl", "mds", "tfrecord"})
"""Containers whose files may be compressed; those that are have blocks."""

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Extents:
    """One row per sample, ``int64 [samples]`` each."""

    files: Longs
    """Position of the sample's file in ``indexed_files``."""

    begins: Longs
    ends: Longs
    """First byte, and first one behind, of what is read of the file; at least one byte."""

    @property
    def file_count(self) -> int:
        """Return how many files have samples."""
        return int(self.files[-1]) + 1 if self.files.size else 0


def indexed_files(index: Index) -> list[str]:
    """Return the paths of the files that have samples, in the order of the samples."""
    count = index.file_starts().size
    return [file.path for file, _ in zip(index.files(), range(count), strict=False)]


def extents(index: Index) -> Extents:
    """Return where each sample's bytes are.

    A row of a Parquet file needs the column chunks of its row group. Offsets in a compressed
    file say nothing about the file's own bytes: such samples count as the whole file.
    """
    starts = index.file_starts()
    counts = np.diff(starts, append=len(index))
    files = np.repeat(np.arange(starts.size, dtype=np.int64), counts)
    begins, ends = _spans(index)
    packed = _is_compressed(index)
    begins[packed], ends[packed] = 0, _numbers(index, "file_size")[packed]
    return Extents(files, begins, np.maximum(ends, begins + 1))


def _spans(index: Index) -> tuple[Longs, Longs]:
    """Return the outer ends of each sample's members."""
    column = index.table.column("member_offsets").combine_chunks()
    bounds = column.offsets.to_numpy().astype(np.int64)
    offsets = column.flatten().to_numpy().astype(np.int64)
    lengths = index.table.column("member_lengths").combine_chunks().flatten().to_numpy()
    begins = _numbers(index, "offset").copy()
    ends = begins + _numbers(index, "length")
    some = np.flatnonzero(np.diff(bounds))
    if some.size:
        first = bounds[some] - bounds[0]
        begins[some] = np.minimum.reduceat(offsets, first)
        ends[some] = np.maximum.reduceat(offsets + lengths, first)
    return begins, ends


def _is_compressed(index: Index) -> npt.NDArray[np.bool_]:
    containers = index.table.column("container").combine_chunks()
    names = containers.dictionary.to_pylist()
    may_be = np.array([name in _COMPRESSIBLE for name in names], np.bool_)
    packed: npt.NDArray[np.bool_] = may_be[containers.indices.to_numpy()]
    return packed & (_numbers(index, "block") >= 0)


def _numbers(index: Index, name: str) -> Longs:
    return index.column(name).astype(np.int64)
