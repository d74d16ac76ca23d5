"""Opens traces of any known format, one file or thousands, as one stream of events."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from headrace.core.errors import (
    CallerError,
    CorruptDataError,
    HeadraceError,
    NotFoundError,
    StorageError,
)
from headrace.trace.batches import joined
from headrace.trace.exportotel import HEAD as OTEL
from headrace.trace.exportperfetto import HEAD as PERFETTO
from headrace.trace.importer import BATCH_EVENTS, Importer, Notes
from headrace.trace.importers.darshan import Darshan
from headrace.trace.importers.dftracer import DFTracer
from headrace.trace.importers.dlio import DLIO
from headrace.trace.importers.eventparquet import About, EventParquet, about
from headrace.trace.importers.hdfsaudit import HDFSAudit
from headrace.trace.importers.kineto import Kineto
from headrace.trace.importers.segments import Segments, host_of
from headrace.trace.importers.text import head_of
from headrace.trace.skew import ClockEvidence, Clocks

IMPORTERS: tuple[Importer, ...] = (
    Segments(),
    EventParquet(),
    DFTracer(),
    Kineto(),
    Darshan(),
    DLIO(),
    HDFSAudit(),
)
"""Of all formats; the first that recognises a file reads it."""

_FILE_URL = re.compile(r"file:(?://(?:localhost)?(?=/))?")

_EXPORTS = {OTEL: "otel", PERFETTO: "perfetto"}
"""How what headrace writes for other tools begins → of which format it is."""

_SHOWN_BYTES = 24
_SHOWN_NAMES = 3


@dataclass(frozen=True, slots=True)
class Source:
    """One file or directory of a trace."""

    path: Path
    importer: Importer
    nbytes: int
    """As it lies on disk [bytes]."""

    host: str | None = None
    """Whose clock it was recorded by; null where that is not told, or clocks are one already."""


class Trace:
    """Files that are read as one stream of events."""

    def __init__(self, sources: Sequence[Source], notes: Notes | None = None) -> None:
        self.sources = tuple(sources)
        self.notes = notes or Notes()
        """Filled while it is read."""
        self._clocks: Clocks | None = None

    @property
    def format(self) -> str:
        """Return the names of its formats, joined by ``+``."""
        return "+".join(dict.fromkeys(source.importer.name for source in self.sources))

    @property
    def file_bytes(self) -> int:
        """Return its size on disk [bytes]."""
        return sum(source.nbytes for source in self.sources)

    @property
    def nbytes(self) -> int:
        """Return how much is read of it [bytes]: twice what says how far clocks are apart."""
        return self.file_bytes + sum(source.nbytes for source in self._clocked())

    def clocks(self, advanced: Callable[[int], None] = lambda _: None) -> Clocks:
        """Return how far apart the clocks of its hosts are; read once, and said in the notes.

        Args:
            advanced: As for :meth:`batches`.
        """
        if self._clocks is None:
            self._clocks = self._measured(advanced)
        return self._clocks

    def batches(self, advanced: Callable[[int], None] = lambda _: None) -> Iterator[pa.RecordBatch]:
        """Yield all events, a file after the other, in batches of about 65,536.

        What cannot be read of one file among several is noted, and the others are read.

        Args:
            advanced: Called with the bytes that were read since the last call, of ``nbytes``.

        Raises:
            CorruptDataError: no file is whole enough to be read.
            StorageError: no file can be read.
        """
        clocks = self.clocks(advanced)
        failures: list[HeadraceError] = []
        yield from joined(self._events(clocks, failures, advanced), BATCH_EVENTS)
        if len(failures) == len(self.sources):
            raise failures[0]

    def about(self) -> About:
        """Return what a file should say that holds all events of the trace, once they were read."""
        hosts = {source.host for source in self.sources}
        host = hosts.pop() if len(hosts) == 1 else None
        return About(
            host=host,
            lost_events=self.notes.lost_events,
            is_relative=self.notes.is_relative,
            unknown=self.notes.unknown,
            problems=len(self.notes.problems) + self.notes.further_problems,
        )

    def _events(
        self, clocks: Clocks, failures: list[HeadraceError], advanced: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        for source in self.sources:
            try:
                for batch in _joined(source, self.notes, advanced):
                    yield batch if source.host is None else clocks.corrected(batch)
            except (CorruptDataError, StorageError) as error:
                failures.append(error)
                self.notes.problem(str(error))

    def _clocked(self) -> tuple[Source, ...]:
        """Return the sources that can tell how far clocks are apart, if they are of several."""
        clocked = tuple(source for source in self.sources if source.host is not None)
        return clocked if len({source.host for source in clocked}) > 1 else ()

    def _measured(self, advanced: Callable[[int], None]) -> Clocks:
        evidence = ClockEvidence()
        for source in self._clocked():
            with suppress(CorruptDataError, StorageError):  # reading the events will say so
                for batch in _joined(source, Notes(), advanced):
                    evidence.add(batch)
        clocks = evidence.result()
        if clocks.unknown:
            self.notes.unknown["clocks"] = (
                f"no barrier or request binds {_some(clocks.unknown)} to another host; times "
                "there are by their own clocks"
            )
        return clocks


def _joined(
    source: Source, notes: Notes, advanced: Callable[[int], None]
) -> Iterator[pa.RecordBatch]:
    return joined(source.importer.read(source.path, notes, advanced), BATCH_EVENTS)


def open_trace(paths: Iterable[str | Path]) -> Trace:
    """Find the files of a trace and tell the format of each.

    Args:
        paths: Files, directories (with all below them), or patterns with ``*``; also as ``file:``
            URLs.

    Raises:
        NotFoundError: a path is not there, or a directory holds no trace.
        CallerError: a file is of no known format.
        StorageError: a file cannot be read, or nothing of a directory.
    """
    notes = Notes()
    sources: dict[Path, Source] = {}
    for path in (one for given in paths for one in _expanded(given)):
        found = _of_directory(path, notes) if path.is_dir() else [_of_file(path)]
        sources |= {source.path.resolve(): source for source in found}
    if not sources:
        raise NotFoundError("no trace was named; name a file or a directory")
    return Trace(tuple(sources.values()), notes)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN_NAMES])
    more = len(names) - _SHOWN_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def _expanded(given: str | Path) -> Sequence[Path]:
    path = Path(given)
    if path.exists():
        return [path]
    pattern = _local(str(given))
    found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - patterns may be absolute
    if not found:
        raise NotFoundError(f"there is no trace {given}; name a file, a directory, or a pattern")
    return [Path(one) for one in found]


def _local(given: str) -> str:
    """Return the path, or pattern, that a ``file:`` URL names; all else as it is."""
    if url := _FILE_URL.match(given):
        return unquote(given[url.end() :])
    if "://" in given:
        raise CallerError(f"{given} is not on this machine; copy it here, and name the copy")
    return given


def _of_file(path: Path) -> Source:
    if not path.is_file():
        raise CallerError(f"{path} is a device or a pipe; copy the trace into a file")
    head = head_of(path)
    if format_name := _exported(head):
        raise CallerError(
            f"{path} is of headrace trace export --to {format_name}, for other tools; name the "
            "trace that it was made of, or export that --to parquet, which is read again"
        )
    importer = _importer(path, head)
    if importer is None:
        raise CallerError(f"{path} {_described(head)}; {_known()}")
    return _source(path, importer, head)


def _exported(head: bytes) -> str | None:
    """Return the format in which headrace wrote a file for other tools; None: it is no such."""
    return next((name for begin, name in _EXPORTS.items() if head.startswith(begin)), None)


def _source(path: Path, importer: Importer, head: bytes) -> Source:
    host = None
    if isinstance(importer, Segments):
        host = host_of(head)
    elif isinstance(importer, EventParquet):
        host = about(path).host
    return Source(path, importer, path.stat().st_size, host)


def _of_directory(folder: Path, notes: Notes) -> Sequence[Source]:
    """Return what a directory holds; what of it cannot be read is noted if there is more."""
    failures: list[StorageError] = []
    found = list(_in_directory(folder, notes, failures))
    if not found:
        raise failures[0] if failures else NotFoundError(f"no trace in {folder}; {_known()}")
    for failure in failures:
        notes.problem(str(failure))
    return found


def _in_directory(folder: Path, notes: Notes, failures: list[StorageError]) -> Iterator[Source]:
    """Yield a directory that is a trace itself, else the traces below it."""
    try:
        listed = _listed(folder)
    except StorageError as error:
        failures.append(error)
        return
    importer = _importer(folder, b"")
    if importer is not None:
        files = (path for path in folder.rglob("*") if path.is_file())
        yield Source(folder, importer, sum(path.stat().st_size for path in files))
        return
    replaced = {
        name for path in listed if path.suffix == ".parquet" for name in about(path).replaces
    }
    for path in listed:
        if path.name in replaced:
            continue
        if path.is_dir():
            yield from _in_directory(path, notes, failures)
        elif path.is_file():
            yield from _among_others(path, notes, failures)


def _among_others(path: Path, notes: Notes, failures: list[StorageError]) -> Iterator[Source]:
    """Yield a file of a directory, if it is a trace."""
    try:
        head = head_of(path)
    except StorageError as error:
        failures.append(error)
        return
    importer = _importer(path, head)
    if importer is None:
        notes.leave_out(path)
    else:
        yield _source(path, importer, head)


def _listed(folder: Path) -> list[Path]:
    """Return what lies in a directory, but hidden files, and links that might lead in a circle."""
    try:
        return sorted(
            path
            for path in folder.iterdir()
            if not path.name.startswith(".") and not (path.is_symlink() and path.is_dir())
        )
    except OSError as error:
        raise StorageError(f"cannot list {folder}: {error.strerror}") from error


def _importer(path: Path, head: bytes) -> Importer | None:
    if _exported(head):
        return None
    return next((one for one in IMPORTERS if one.recognises(path, head)), None)


def _described(head: bytes) -> str:
    if not head:
        return "is empty"
    return f"is of no format that is known here, it begins with {head[:_SHOWN_BYTES]!r}"


def _known() -> str:
    names = dict.fromkeys(one.name for one in IMPORTERS)
    return f"traces are those of {', '.join(names)}"
