"""Reads events that headrace stored as Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.core.errors import CorruptDataError, StorageError
from headrace.trace.events import SCHEMA_KEY
from headrace.trace.importer import BATCH_EVENTS, Notes
from headrace.trace.importers.conform import conformed, require_version

ABOUT_KEY = b"headrace.about"
"""Under which a file's metadata says more of its events (JSON)."""

_MAGIC = b"PAR1"


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a file's metadata says of its events."""

    host: str | None = None
    """Whose clock told their times; null: they are by one clock, or it is not known."""

    lost_events: int = 0
    """That are missing before them."""

    is_relative: bool = False
    """Whether times count from an arbitrary moment."""

    unknown: dict[str, str] = {}
    """What the trace that they were copied from cannot tell → why."""

    problems: int = 0
    """Of that trace, that were passed over."""

    replaces: tuple[str, ...] = ()
    """Segments beside the file that it holds, so that they are not to be read as well."""


class EventParquet:
    """Parquet files whose columns are those of an event."""

    name = "headrace"

    def recognises(self, path: Path, head: bytes) -> bool:
        """Tell by the metadata at the file's end; a file without its end is recognised too."""
        if not head.startswith(_MAGIC):
            return False
        try:
            return SCHEMA_KEY in (pq.read_schema(path).metadata or {})
        except (pa.ArrowException, OSError, UnicodeError):
            return True

    def read(
        self,
        path: Path,
        notes: Notes,
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
                _note(about(path), path, notes)
                per_event = path.stat().st_size / max(file.metadata.num_rows, 1)
                for batch in file.iter_batches(batch_size=BATCH_EVENTS):
                    batch.validate(full=True)
                    yield conformed(batch, path)
                    advanced(round(batch.num_rows * per_event))
        except (pa.ArrowException, UnicodeError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise StorageError(f"cannot read the trace {path}: {error}") from error
            raise CorruptDataError(f"{path} is no whole Parquet file: {error}") from error


def _note(said: About, path: Path, notes: Notes) -> None:
    """Note what a file says is missing."""
    notes.lost_events += said.lost_events
    notes.is_relative = notes.is_relative or said.is_relative
    notes.unknown.update(said.unknown)
    if said.problems:
        notes.problem(f"{path}: {said.problems:,} problems of its original were passed over")


def about(path: Path) -> About:
    """Return what a file says of its events; nothing, where it is damaged."""
    try:
        metadata = pq.read_metadata(path).metadata or {}
        return msgspec.json.decode(metadata.get(ABOUT_KEY, b"{}"), type=About)
    except (pa.ArrowException, OSError, UnicodeError, msgspec.DecodeError):
        return About()
