"""Writes events as one Parquet file, which appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.core.errors import StorageError
from headrace.trace.events import arrow_schema


class EventParquetWriter:
    """A file of events. It has its name once :meth:`commit` returned, and is gone otherwise.

    Its folder is made if it is missing. A link stays, and what it names is replaced.

    Raises:
        StorageError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.events = 0
        """That were written."""

        self._path = path
        self._place = path.resolve()
        self._partial = self._place.with_name(f".{self._place.name}.partial")
        with self._blamed():
            self._place.parent.mkdir(parents=True, exist_ok=True)
            self._writer = self._begun()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append events with the columns of the schema, as a row group.

        Raises:
            StorageError: they cannot be written.
        """
        with self._blamed():
            self._writer.write_batch(batch, row_group_size=max(batch.num_rows, 1))
        self.events += batch.num_rows

    def describe(self, metadata: Mapping[bytes, bytes]) -> None:
        """Add to the metadata of the file."""
        self._writer.add_key_value_metadata(dict(metadata))

    def finish(self) -> Path:
        """Write the file's end, and return where it can be read until it has its name.

        Raises:
            StorageError: it cannot be written.
        """
        with self._blamed():
            self._writer.close()
        return self._partial

    def commit(self) -> None:
        """Give the file its name.

        Raises:
            StorageError: it cannot be written.
        """
        with self._blamed():
            self.finish().replace(self._place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._writer.close()
        with suppress(OSError):
            self._partial.unlink(missing_ok=True)

    def _begun(self) -> pq.ParquetWriter:
        try:
            return pq.ParquetWriter(self._partial, arrow_schema(), compression="zstd")
        except OSError:
            self._partial.unlink(missing_ok=True)
            raise

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            said = os.strerror(error.errno) if error.errno else error
            raise StorageError(f"cannot write {self._path}: {said}; name another place") from error
