"""Reads events that headrace stored as Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.core.errors import CorruptDataError, StorageError
from headrace.trace.events import SCHEMA_KEY
from headrace.trace.importer import BATCH_EVENTS, Notes
from headrace.trace.importers.conform import conformed, require_version

_MAGIC = b"PAR1"


class EventParquet:
    """Parquet files whose columns are those of an event."""

    name = "headrace"

    def recognises(self, path: Path, head: bytes) -> bool:
        """Tell by the metadata at the file's end; a file without its end is recognised too."""
        if not head.startswith(_MAGIC):
            return False
        try:
            return SCHEMA_KEY in (pq.read_schema(path).metadata or {})
        except (pa.ArrowException, OSError):
            return True

    def read(
        self,
        path: Path,
        notes: Notes,  # noqa: ARG002 - it is whole or unreadable
        advanced: Callable[[int], None],
    ) -> Iterator[pa.RecordBatch]:
        """Yield the events.

        Raises:
            CorruptDataError: its end is missing, it is damaged, or of another version.
            StorageError: it cannot be read.
        """
        try:
            with pq.ParquetFile(path) as file:
                require_version(file.schema_arrow, path)
                per_event = path.stat().st_size / max(file.metadata.num_rows, 1)
                for batch in file.iter_batches(batch_size=BATCH_EVENTS):
                    yield conformed(batch, path)
                    advanced(round(batch.num_rows * per_event))
        except pa.ArrowException as error:
            raise CorruptDataError(f"{path} is no whole Parquet file: {error}") from error
        except OSError as error:
            raise StorageError(f"cannot read the trace {path}: {error}") from error
