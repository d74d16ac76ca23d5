"""Reads segments that headrace's recorders wrote, finished, growing, or of a killed process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pyarrow as pa

from headrace.core.errors import StorageError
from headrace.trace.events import SCHEMA_KEY
from headrace.trace.importer import Notes
from headrace.trace.importers.conform import conformed, require_version
from headrace.trace.segments import LOST_KEY, ORIGIN_KEY, SUFFIX, is_growing

_STREAM = b"\xff\xff\xff\xff"
_GZIP = b"\x1f\x8b"


class _Host(msgspec.Struct):
    host: str | None = None


class Segments:
    """The format of :mod:`headrace.trace.segments`, plain or gzip."""

    name = "headrace"

    def recognises(self, path: Path, head: bytes) -> bool:
        """Tell by the metadata, or by the name where the file was cut within it."""
        if SCHEMA_KEY in head:
            return head.startswith(_STREAM)
        return path.name.removesuffix(".gz").endswith(SUFFIX) and _STREAM.startswith(head[:4])

    def read(
        self, path: Path, notes: Notes, advanced: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the whole batches; the half-written one of a process that is gone is a problem.

        Raises:
            CorruptDataError: it is of another version, or no segment.
            StorageError: it cannot be read.
        """
        with ExitStack() as closing:
            try:
                file = closing.enter_context(pa.OSFile(str(path)))
                source = closing.enter_context(_plain(file))
                yield from _batches(source, file, path, notes, advanced)
            except OSError as error:
                raise StorageError(f"cannot read the trace {path}: {error}") from error


def count_events(path: Path) -> int:
    """Return how many events a segment holds, with those that it says were lost before it.

    Raises:
        CorruptDataError: it is of another version, or no segment.
        StorageError: it cannot be read.
    """
    notes = Notes()
    held: int = sum(batch.num_rows for batch in Segments().read(path, notes, lambda _: None))
    return held + notes.lost_events


def host_of(head: bytes) -> str | None:
    """Return whose clock a segment was recorded by, told by its first bytes; None: it is cut."""
    try:
        metadata = pa.ipc.read_schema(pa.BufferReader(head)).metadata or {}
        return msgspec.json.decode(metadata.get(ORIGIN_KEY, b"{}"), type=_Host).host
    except (pa.ArrowException, OSError, msgspec.DecodeError, UnicodeError):
        return None


def _plain(file: pa.NativeFile) -> pa.NativeFile:
    is_gzip = file.read(2) == _GZIP
    file.seek(0)
    return pa.CompressedInputStream(file, "gzip") if is_gzip else file


def _batches(
    source: pa.NativeFile,
    file: pa.NativeFile,
    path: Path,
    notes: Notes,
    advanced: Callable[[int], None],
) -> Iterator[pa.RecordBatch]:
    try:
        stream = pa.ipc.open_stream(source)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        _note_end(path, 0, error, notes)
        return
    told = file.tell()
    advanced(told)
    require_version(stream.schema, path)
    lost = stream.schema.metadata.get(LOST_KEY, b"")
    notes.lost_events += int(lost) if lost.isdigit() else 0
    while True:
        try:
            batch = stream.read_next_batch()
            batch.validate(full=True)
        except StopIteration:
            if file.tell() < file.size():
                _note_end(path, told, "no event begins there", notes)
            break
        except (pa.ArrowException, OSError, UnicodeError) as error:
            _note_end(path, told, error, notes)
            break
        place = file.tell()
        advanced(place - told)
        told = place
        yield conformed(batch, path)
    advanced(file.size() - told)


def _note_end(path: Path, told: int, error: Exception | str, notes: Notes) -> None:
    """Note where a segment ends too early, but for one that is being written."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    if not is_growing(path):
        notes.problem(f"{path}: what follows byte {told:,} is cut or damaged ({error})")
