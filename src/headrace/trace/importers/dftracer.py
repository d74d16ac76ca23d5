"""Reads traces of DFTracer, which DLIO and other programs write: one JSON object on each line.

Of every dialect: numbers as numbers or as texts; names inline or by hash; phases as letters or as
numbers; a list's brackets and commas around the lines or none; single calls or sums over an
interval; files plain, gzip, or in a tar archive.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.trace.events import Kind, arrow_schema
from headrace.trace.importer import HEAD_BYTES, Notes
from headrace.trace.importers import columns
from headrace.trace.importers.dftracer_calls import Call, Role, call_of
from headrace.trace.importers.text import (
    Counted,
    Piece,
    file_chunks,
    head_of,
    pieces,
    reading,
    text_chunks,
)

_SUFFIXES = (".pfw", ".pfw.gz")
_MARKS = (b'"cat":"dftracer"', b'"hhash":', b'"fhash":', b'"cat":"POSIX"', b'"cat":"STDIO"')
_TAR_MAGIC = slice(257, 262)
_RANK = re.compile(r"-(\d{1,9})-of-\d+")
_COMPLETE = frozenset({"X", 1})
_SUMMED = frozenset({"C", 2, "A", 3})
_METADATA = frozenset({"M", 4})
_FILE, _HOST = "FH", "HH"
_MOST_CALLS = 2**31
"""In one sum; no interval has more."""

_Number = int | float | str | None


class _Args(msgspec.Struct, gc=False):
    hhash: int | str | None = None
    hostname: str | None = None
    fhash: int | str | None = None
    fname: str | None = None
    ret: _Number = None
    size: _Number = None
    offset: _Number = None
    step: _Number = None
    epoch: _Number = None
    image_idx: _Number = None
    name: Any = None
    value: Any = None
    dft_cnt: _Number = None
    dur: _Number = None
    dur_sum: _Number = None
    ret_sum: _Number = None


class _Line(msgspec.Struct, gc=False):
    ph: str | int
    name: str = ""
    cat: str = ""
    pid: _Number = None
    tid: _Number = None
    ts: _Number = None
    dur: _Number = None
    args: _Args | None = None


_NO_ARGS = _Args()
_DECODER = msgspec.json.Decoder(_Line)
_DAMAGE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class DFTracer:
    """The format of https://dftracer.readthedocs.io, all dialects."""

    name = "DFTracer"

    def recognises(self, path: Path, head: bytes) -> bool:
        """Tell by the suffix, or by what stands on the first lines."""
        if head[_TAR_MAGIC] == b"ustar":
            return b".pfw" in head
        if path.name.endswith(_SUFFIXES):
            return True
        start = head.lstrip(b"[ \t\r\n")
        return start.startswith(b"{") and any(mark in head for mark in _MARKS)

    def read(
        self, path: Path, notes: Notes, advanced: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the events of a file, or of all files in an archive.

        Raises:
            CorruptDataError: no line of it is an event.
            StorageError: the file cannot be read.
        """
        _note_unknown(notes)
        yield from columns.some(_all(_texts(path, notes, advanced), notes), notes)


def _all(texts: Iterable[tuple[Iterator[bytes], str]], notes: Notes) -> Iterator[pa.RecordBatch]:
    for chunks, where in texts:
        yield from _Reader(where, notes).batches(pieces(chunks, where))


def _texts(
    path: Path, notes: Notes, advanced: Callable[[int], None]
) -> Iterator[tuple[Iterator[bytes], str]]:
    """Yield the texts in a file, each with what it is called: one, or those of an archive."""
    with reading(path):
        if head_of(path)[_TAR_MAGIC] != b"ustar":
            yield file_chunks(path, notes, advanced), str(path)
            return
        with path.open("rb", buffering=0) as file:
            yield from _members(Counted(file, advanced), path, notes)


def _members(file: Counted, path: Path, notes: Notes) -> Iterator[tuple[Iterator[bytes], str]]:
    try:
        with tarfile.open(fileobj=file, mode="r|*") as archive:  # type: ignore[call-overload]
            for member in archive:
                if member.isfile() and member.name.endswith(_SUFFIXES):
                    where = f"{path}:{member.name}"
                    chunks = text_chunks(archive.extractfile(member), where, notes)
                    yield _until_cut(chunks, where, notes), where
    except tarfile.TarError as error:
        notes.problem(f"{path}: the archive is cut or damaged ({error}); the rest is lost")
    while file.read(HEAD_BYTES):  # the padding, or what is lost, counts as read
        pass


def _until_cut(chunks: Iterator[bytes], where: str, notes: Notes) -> Iterator[bytes]:
    try:
        yield from chunks
    except tarfile.TarError as error:
        notes.problem(f"{where}: the archive is cut or damaged within it ({error})")


def _note_unknown(notes: Notes) -> None:
    seen = "DFTracer sees calls of the process, not the storage behind them"
    notes.unknown.update({"replica": seen, "round_trips": seen, "queue_ns": seen})
    notes.unknown["phase"] = "DFTracer does not tell the phases of a job"
    notes.unknown["job"] = "DFTracer does not name the job"


class _Names(dict[object, str | None]):
    """Names by hash; a hash whose name was not told stands for itself."""

    def __init__(self) -> None:
        super().__init__({None: None})
        self.lost: set[object] = set()

    def __missing__(self, key: object) -> str:
        self.lost.add(key)
        return f"#{key}"


class _Reader:
    """Turns the lines of one file into events; keeps the names that its hashes stand for."""

    def __init__(self, where: str, notes: Notes) -> None:
        self._where = where
        self._notes = notes
        self._files = _Names()
        self._hosts = _Names()
        self._steps = _Steps()
        rank = _RANK.search(where.rpartition("/")[2])
        self._rank = int(rank[1]) if rank else None
        if rank is None:
            notes.unknown["rank"] = "neither the lines nor the file's name tell the rank"

    def batches(self, texts: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
        """Yield the events of a file."""
        for piece in texts:
            lines = _lines(piece, self._where, self._notes)
            others = [line for line in lines if line.ph not in _COMPLETE]
            self._learn(line for line in others if line.ph in _METADATA)
            whole = [line for line in lines if line.ph in _COMPLETE] if others else lines
            if whole:
                yield from self._events(whole, None)
            summed = [line for line in others if line.ph in _SUMMED]
            totals = [total for line in summed if (total := _total(line))]
            if totals:
                counts = pa.array([count for _, count in totals], pa.int64())
                yield from self._events([total for total, _ in totals], counts)
        yield self._steps.rest()
        self._note_lost()

    def _learn(self, lines: Iterable[_Line]) -> None:
        for line in lines:
            args = line.args or _NO_ARGS
            if isinstance(args.name, str) and isinstance(args.value, int | str):
                if line.name == _FILE:
                    self._files[args.value] = args.name
                elif line.name == _HOST:
                    self._hosts[args.value] = args.name

    def _note_lost(self) -> None:
        lost = len(self._files.lost) + len(self._hosts.lost)
        if lost:
            self._notes.problem(
                f"{self._where}: does not tell {lost} names of files or hosts before it uses them; "
                "they are shown as the hashes of their names"
            )

    def _events(self, lines: Sequence[_Line], count: pa.Array | None) -> Iterator[pa.RecordBatch]:
        names = pa.array([line.name for line in lines], pa.string())
        categories = pa.array([line.cat for line in lines], pa.string())
        pairs, which = columns.distinct_pairs(categories, names)
        calls = [call_of(*pair) for pair in pairs]
        batch = columns.batch(
            len(lines),
            {
                "kind": pa.array([call.kind for call in calls], pa.string()).take(which),
                "name": names,
                "rank": self._rank,
                "is_write": pa.array([call.is_write for call in calls], pa.bool_()).take(which),
                "count": count,
                **_places(lines),
                **self._arguments([line.args or _NO_ARGS for line in lines], calls, which),
            },
        )
        yield columns.timed(batch, self._where, self._notes)
        roles = pa.array([call.role for call in calls], pa.string()).take(which)
        yield self._steps.of(batch, roles)

    def _arguments(
        self, args: Sequence[_Args], calls: Sequence[Call], which: pa.Array
    ) -> dict[str, pa.Array]:
        hosts = pa.array([self._hosts[one.hhash] for one in args], pa.string())
        files = pa.array([self._files[one.fhash] for one in args], pa.string())
        samples = columns.integers([one.image_idx for one in args])
        return {
            "host": pc.coalesce(hosts, pa.array([one.hostname for one in args], pa.string())),
            "file": pc.coalesce(files, pa.array([one.fname for one in args], pa.string())),
            "step": columns.counts([one.step for one in args]),
            "epoch": columns.counts([one.epoch for one in args]),
            "sample": pc.if_else(
                _flags([call.is_of_sample for call in calls], which),
                samples.cast(pa.string()),
                None,
            ),
            "offset": columns.counts([one.offset for one in args]),
            "bytes": _bytes(args, calls, which),
        }


class _Steps:
    """Makes steps of a loop out of its waits and of what it did after each.

    DLIO leaves its loop in the last step of an epoch, so that neither the wait nor the step itself
    is told: only its work. The wait is then from the end of the step before to that work.
    """

    _COLUMNS = ("begin_ns", "duration_ns", "host", "rank", "pid", "tid", "step", "epoch")

    def __init__(self) -> None:
        self._asked: dict[tuple[object, object], int] = {}
        """When the loop of a process and thread last asked for a batch [ns]."""

        self._ended: dict[tuple[object, object], dict[str, Any]] = {}
        """The last step of a loop that has not asked for a batch since."""

        self._work: dict[tuple[object, object], dict[str, Any]] = {}
        """The first work after that step; the wait for its batch may be told later."""

    def of(self, batch: pa.RecordBatch, roles: pa.Array) -> pa.RecordBatch:
        """Return the steps, and the waits that are not told, that ended among these events."""
        rows = batch.append_column("role", roles).filter(roles.is_valid())
        told = rows.select([*self._COLUMNS, "role"]).to_pylist()
        return self._batch(
            made for row in told if row["begin_ns"] is not None for made in self._made(row)
        )

    def rest(self) -> pa.RecordBatch:
        """Return what ended with the file."""
        return self._batch(made for loop in list(self._work) for made in self._last(loop))

    def _batch(self, made: Iterable[dict[str, Any]]) -> pa.RecordBatch:
        found = list(made)
        schema = arrow_schema()
        arrays = {
            name: pa.array([one[name] for one in found], schema.field(name).type)
            for name in ("kind", *self._COLUMNS)
        }
        return columns.batch(len(found), arrays)

    def _made(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        loop = row["pid"], row["tid"]
        if row["role"] == Role.FETCH:
            if loop in self._work and self._work[loop]["begin_ns"] < row["begin_ns"]:
                yield from self._last(loop)
            self._work.pop(loop, None)
            self._ended.pop(loop, None)
            self._asked[loop] = row["begin_ns"]
        elif row["role"] == Role.WORK:
            if loop in self._ended and row["begin_ns"] >= _end_ns(self._ended[loop]):
                self._work.setdefault(loop, row)
        elif step := _step(row, self._asked.pop(loop, None)):
            self._ended[loop] = step
            yield step

    def _last(self, loop: tuple[object, object]) -> Iterator[dict[str, Any]]:
        """Yield the wait and the step of which only the work is told."""
        before, work = self._ended.pop(loop), self._work.pop(loop)
        if step := _step(work, _end_ns(before)):
            number = None if before["step"] is None else before["step"] + 1
            step |= {"step": number, "epoch": before["epoch"]}
            yield step | {"kind": Kind.WAIT, "duration_ns": work["begin_ns"] - step["begin_ns"]}
            yield step


def _end_ns(step: dict[str, Any]) -> int:
    end: int = step["begin_ns"] + step["duration_ns"]
    return end


def _step(row: dict[str, Any], asked_ns: int | None) -> dict[str, Any] | None:
    """Return the step that ends with a row and began when its batch was asked for."""
    if asked_ns is None or row["duration_ns"] is None:
        return None
    lasted_ns = row["begin_ns"] + row["duration_ns"] - asked_ns
    if not 0 <= lasted_ns < columns.MOST_NS:
        return None
    return {**row, "kind": Kind.STEP, "begin_ns": asked_ns, "duration_ns": lasted_ns}


def _lines(piece: Piece, where: str, notes: Notes) -> list[_Line]:
    """Decode a piece at once, or line by line where one of them is no event."""
    text = piece.data.replace(b",\n", b"\n").strip(b" \t\r\n,[]")
    try:
        return _DECODER.decode_lines(text)
    except _DAMAGE:
        found = (
            _line(line.strip(b" \t\r,[]"), f"{where}, line {number}", notes)
            for number, line in enumerate(piece.data.split(b"\n"), piece.line)
        )
        return [line for line in found if line is not None]


def _line(text: bytes, where: str, notes: Notes) -> _Line | None:
    if not text:
        return None
    try:
        return _DECODER.decode(text.decode(errors="replace"))
    except _DAMAGE as error:
        notes.problem(f"{where}: not an event ({error})")
        return None


def _places(lines: Sequence[_Line]) -> dict[str, pa.Array]:
    return {
        "begin_ns": columns.nanoseconds([line.ts for line in lines]),
        "duration_ns": columns.not_negative(columns.nanoseconds([line.dur for line in lines])),
        "pid": columns.integers([line.pid for line in lines]),
        "tid": columns.integers([line.tid for line in lines]),
    }


def _bytes(args: Sequence[_Args], calls: Sequence[Call], which: pa.Array) -> pa.Array:
    """Return what requests moved; a result below zero is an error, not a size."""
    moved = columns.counts([one.ret for one in args])
    if any(call.counts_items for call in calls):
        size = pc.coalesce(columns.counts([one.size for one in args]), 1)
        items = columns.products(moved, size)
        moved = pc.if_else(_flags([call.counts_items for call in calls], which), items, moved)
    is_request = _flags([call.kind is Kind.REQUEST for call in calls], which)
    return pc.if_else(is_request, moved, None)


def _flags(values: Sequence[bool], which: pa.Array) -> pa.Array:
    return pa.array(values, pa.bool_()).take(which)


def _total(line: _Line) -> tuple[_Line, int] | None:
    """Return a record of several calls as one of their sum, and how many they were.

    A value without a sum was the same in all of them. None: it counts no calls.
    """
    args = line.args or _NO_ARGS
    if not isinstance(args.dft_cnt, int) or not 1 <= args.dft_cnt < _MOST_CALLS:
        return None
    total = msgspec.structs.replace(args, ret=_sum(args.ret_sum, args.ret, args.dft_cnt))
    duration = _sum(args.dur_sum, args.dur, args.dft_cnt)
    return msgspec.structs.replace(line, dur=duration, args=total), args.dft_cnt


def _sum(total: _Number, each: _Number, count: int) -> _Number:
    if total is not None:
        return total
    return each * count if isinstance(each, int | float) else None
