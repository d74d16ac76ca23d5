"""Opens traces of any known format, one file or thousands, as one stream of events."""

from __future__ import annotations

import glob
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from headrace.core.errors import CallerError, CorruptDataError, NotFoundError, StorageError
from headrace.trace.importer import BATCH_EVENTS, HEAD_BYTES, Importer, Notes
from headrace.trace.importers.eventparquet import EventParquet
from headrace.trace.importers.segments import Segments

IMPORTERS: tuple[Importer, ...] = (Segments(), EventParquet())
"""Of all formats; the first that recognises a file reads it."""

_GZIP = b"\x1f\x8b"
_SHOWN_BYTES = 24


@dataclass(frozen=True, slots=True)
class Source:
    """One file or directory of a trace."""

    path: Path
    importer: Importer
    nbytes: int
    """As it lies on disk [bytes]."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Files that are read as one stream of events."""

    sources: tuple[Source, ...]
    notes: Notes = field(default_factory=Notes)
    """Filled while it is read."""

    @property
    def format(self) -> str:
        """Return the names of its formats, joined by ``+``."""
        return "+".join(dict.fromkeys(source.importer.name for source in self.sources))

    @property
    def nbytes(self) -> int:
        """Return its size on disk [bytes]."""
        return sum(source.nbytes for source in self.sources)

    def batches(self, advanced: Callable[[int], None] = lambda _: None) -> Iterator[pa.RecordBatch]:
        """Yield all events, a file after the other, in batches of up to 65,536.

        What cannot be read of one file among several is noted, and the others are read.

        Args:
            advanced: Called with the bytes that were read since the last call, of ``nbytes``.

        Raises:
            CorruptDataError: no file can be read.
            StorageError: a file is there and cannot be read.
        """
        failures: list[CorruptDataError] = []
        for source in self.sources:
            try:
                yield from _joined(source.importer.read(source.path, self.notes, advanced))
            except CorruptDataError as error:
                failures.append(error)
                self.notes.problem(str(error))
        if len(failures) == len(self.sources):
            raise failures[0]


def open_trace(paths: Iterable[str | Path]) -> Trace:
    """Find the files of a trace and tell the format of each.

    Args:
        paths: Files, directories (with all below them), or patterns with ``*``.

    Raises:
        NotFoundError: a path is not there, or a directory holds no trace.
        CallerError: a file is of no known format.
        StorageError: a file cannot be read.
    """
    notes = Notes()
    sources: dict[Path, Source] = {}
    for path in (one for given in paths for one in _expanded(given)):
        found = list(_in_directory(path, notes)) if path.is_dir() else [_of_file(path)]
        if not found:
            raise NotFoundError(f"no trace in {path}; {_known()}")
        sources |= {source.path.resolve(): source for source in found}
    if not sources:
        raise NotFoundError("no trace was named; name a file or a directory")
    return Trace(tuple(sources.values()), notes)


def _expanded(given: str | Path) -> Sequence[Path]:
    path = Path(given)
    if path.exists():
        return [path]
    found = sorted(glob.glob(str(given), recursive=True))  # noqa: PTH207 - patterns may be absolute
    if not found:
        raise NotFoundError(f"there is no trace {given}; name a file, a directory, or a pattern")
    return [Path(one) for one in found]


def _of_file(path: Path) -> Source:
    head = _head(path)
    importer = _importer(path, head)
    if importer is None:
        raise CallerError(f"{path} {_described(head)}; {_known()}")
    return Source(path, importer, path.stat().st_size)


def _in_directory(folder: Path, notes: Notes) -> Iterator[Source]:
    """Yield a directory that is a trace itself, else the traces below it."""
    importer = _importer(folder, b"")
    if importer is not None:
        files = (path for path in folder.rglob("*") if path.is_file())
        yield Source(folder, importer, sum(path.stat().st_size for path in files))
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _in_directory(path, notes)
        elif path.is_file():
            importer = _importer(path, _head(path))
            if importer is None:
                notes.leave_out(path)
            else:
                yield Source(path, importer, path.stat().st_size)


def _importer(path: Path, head: bytes) -> Importer | None:
    return next((one for one in IMPORTERS if one.recognises(path, head)), None)


def _head(path: Path) -> bytes:
    """Return a file's first bytes, decompressed as far as that goes."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise StorageError(f"cannot read the trace {path}: {error.strerror}") from error
    if not head.startswith(_GZIP):
        return head
    return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, HEAD_BYTES)


def _described(head: bytes) -> str:
    if not head:
        return "is empty"
    return f"is of no format that is known here, it begins with {head[:_SHOWN_BYTES]!r}"


def _known() -> str:
    names = dict.fromkeys(one.name for one in IMPORTERS)
    return f"traces are those of {', '.join(names)}"


def _joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches of a useful size: recorders write twice a second, however little."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if rows + batch.num_rows > BATCH_EVENTS and held:
            yield pa.concat_batches(held)
            held, rows = [], 0
        held.append(batch)
        rows += batch.num_rows
    if rows:
        yield pa.concat_batches(held)
