"""Decodes row groups of Parquet in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.core.errors import CorruptDataError

GROUP_BYTES = 512 * 1024 * 1024
"""Largest row group: the columns of it that are read, decoded [bytes]."""


def group_batches(
    file: pq.ParquetFile, block: int, paths: Sequence[str], rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield some columns of a row group, so many rows at a time.

    Metadata of columns is looked at only once a batch was read: Arrow reports what is wrong with it
    to who reads, and ends the process of who asks for the metadata (pyarrow 26).

    Raises:
        CorruptDataError: they are more than ``GROUP_BYTES``, or will be.
    """
    decoded = stored = 0
    for batch in file.iter_batches(rows, row_groups=[block], columns=paths, use_threads=False):
        decoded += batch.nbytes
        stored = stored or _stored_bytes(file, block, paths)
        _require_size(block, max(decoded, stored))
        yield batch


def _stored_bytes(file: pq.ParquetFile, block: int, paths: Sequence[str]) -> int:
    """Return how long the pages of columns are without compression, as the footer says."""
    group = file.metadata.row_group(block)
    chunks = (group.column(at) for at in range(group.num_columns))
    below = tuple(f"{path}." for path in paths)
    return sum(
        chunk.total_uncompressed_size
        for chunk in chunks
        if f"{chunk.path_in_schema}.".startswith(below)
    )


def _require_size(block: int, length: int) -> None:
    if length > GROUP_BYTES:
        raise CorruptDataError(
            f"row group {block} of {length >> 20} MiB is larger than {GROUP_BYTES >> 20} MiB; "
            "write the file with fewer rows in each (row_group_size)"
        )
