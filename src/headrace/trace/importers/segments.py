"""Reads segments that headrace's recorders wrote, finished, growing, or of a killed process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.errors import StorageError
from headrace.trace.events import SCHEMA_KEY
from headrace.trace.importer import HEAD_BYTES, Notes
from headrace.trace.importers.conform import conformed, require_version
from headrace.trace.segments import LOST_KEY, ORIGIN_KEY, SUFFIX, is_growing, later_segments

_STREAM = b"\xff\xff\xff\xff"
_GZIP = b"\x1f\x8b"
_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
"""Handing the columns of a small batch to threads takes seven times as long as reading them."""

_MOST_DIGITS = 18
"""Of a count of events; with more it is damaged."""

_COUNTING = pa.ipc.IpcReadOptions(use_threads=False, included_fields=[0])


class _Origin(msgspec.Struct):
    host: str | None = None
    job: str | None = None


class Segments:
    """The format of :mod:`headrace.trace.segments`, plain or gzip.

    Events that a process recorded before it knew its job are of the job that it named later.
    """

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
    """Return how many events a segment holds and says were lost before it, as far as it is whole.

    One column is looked at, which takes a tenth of the time of reading.
    """
    events = 0
    with suppress(pa.ArrowException, OSError), pa.OSFile(str(path)) as file:
        stream = pa.ipc.open_stream(file, options=_COUNTING)
        events += _lost(stream.schema)
        for batch in stream:
            events += batch.num_rows
    return events


def host_of(head: bytes) -> str | None:
    """Return whose clock a segment was recorded by, told by its first bytes; None: it is cut."""
    return _origin(head).host


def _origin(head: bytes) -> _Origin:
    """Return what a segment's first bytes say of who wrote it; nothing, where they are cut."""
    try:
        return _origin_in(pa.ipc.read_schema(pa.BufferReader(head)))
    except (pa.ArrowException, OSError, UnicodeError):
        return _Origin()


def _origin_in(schema: pa.Schema) -> _Origin:
    try:
        return msgspec.json.decode((schema.metadata or {}).get(ORIGIN_KEY, b"{}"), type=_Origin)
    except (msgspec.DecodeError, UnicodeError):
        return _Origin()


def _job_named_later(path: Path) -> str | None:
    """Return the job that the process of a segment named in a later one."""
    for later in later_segments(path):
        with suppress(OSError), later.open("rb") as file:
            job = _origin(file.read(HEAD_BYTES)).job
            if job is not None:
                return job
    return None


def _of_job(batch: pa.RecordBatch, job: str | None) -> pa.RecordBatch:
    """Return a batch whose events that name no job are of this one."""
    column = batch.column("job")
    if not job or not column.null_count:
        return batch
    place = batch.schema.get_field_index("job")
    filled = pc.fill_null(column, pa.scalar(job, column.type))
    return batch.set_column(place, batch.schema.field(place), filled)


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
        stream = pa.ipc.open_stream(source, options=_OPTIONS)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        _note_end(path, 0, error, notes)
        return
    told = file.tell()
    advanced(told)
    require_version(stream.schema, path)
    named = _origin_in(stream.schema).job
    notes.lost_events += _lost(stream.schema)
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
        batch = conformed(batch, path)
        if named is None and batch.column("job").null_count:
            named = _job_named_later(path) or ""
        yield _of_job(batch, named)
    advanced(file.size() - told)


def _lost(schema: pa.Schema) -> int:
    lost = (schema.metadata or {}).get(LOST_KEY, b"")
    return int(lost) if lost.isdigit() and len(lost) <= _MOST_DIGITS else 0


def _note_end(path: Path, told: int, error: Exception | str, notes: Notes) -> None:
    """Note where a segment ends too early, but for one that is being written."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    if not is_growing(path):
        notes.problem(f"{path}: what follows byte {told:,} is cut or damaged ({error})")
