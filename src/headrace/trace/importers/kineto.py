"""Reads traces of PyTorch's profiler (Kineto): one JSON document with a list of events.

The list is decoded piece by piece. Where a piece may end is guessed from a comma between braces,
and proved by decoding it: cut anywhere but between two events, its brackets would not match.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.errors import CorruptDataError
from headrace.trace.events import Kind
from headrace.trace.importer import Notes
from headrace.trace.importers import columns
from headrace.trace.importers.kineto_calls import call_of, step_of
from headrace.trace.importers.text import LONGEST_LINE, PIECE_BYTES, file_chunks, nan_as_null

_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE_LIST = re.compile(rb"\s*\[")
_MARKS = (b'"schemaVersion"', b'"deviceProperties"', b'"aten::', b'"cpu_op"', b"PyTorch Profiler")
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d{1,19})\b')
_RANK = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d{1,9})\b')
_HOST = re.compile(rb'"host_name"\s*:\s*"([^"\\]+)"')
_HOST_IN_NAME = re.compile(r"^(.+)_\d+\.\d+\.pt\.trace\.json")
_RANK_IN_NAME = re.compile(r"rank[-_]?(\d{1,9})(?!\d)")
_NEXT = re.compile(rb"\}\s*,\s*(?=\{)")
_END = re.compile(rb"\}\s*(?=\])")
_TRIES = 8
"""So many possible ends of a piece are tried: some lie in arguments that are lists of objects."""

_BRACES = 100_000
"""So many braces are looked at for them."""

_Number = int | float | str | None


class _Args(msgspec.Struct, gc=False):
    device: Any = None
    bytes: Any = None


class _Line(msgspec.Struct, gc=False):
    ph: str
    name: str = ""
    cat: str | None = None
    pid: _Number = None
    tid: _Number = None
    ts: _Number = None
    dur: _Number = None
    args: _Args | None = None


_NO_ARGS = _Args()
_COMPLETE = "X"
_EVENTS = msgspec.json.Decoder(list[_Line])
_EVENT = msgspec.json.Decoder(_Line)
_DAMAGE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Kineto:
    """What ``torch.profiler`` exports, of old and new versions."""

    name = "Kineto"

    def recognises(self, path: Path, head: bytes) -> bool:
        """Tell by the suffix, or by PyTorch's names in or before a list of events."""
        if path.name.endswith((".pt.trace.json", ".pt.trace.json.gz")):
            return True
        is_list = _LIST.search(head) or (_BARE_LIST.match(head) and b'"ph"' in head)
        return bool(is_list) and any(mark in head for mark in _MARKS)

    def read(
        self, path: Path, notes: Notes, advanced: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the events of a document.

        Raises:
            CorruptDataError: it holds no list of events.
            StorageError: the file cannot be read.
        """
        _note_unknown(notes)
        text = _Text(file_chunks(path, notes, advanced), str(path))
        reader = _Reader(path, text.prefix(), notes)
        yield from columns.some(reader.batches(text.lists(notes)), notes)


def _note_unknown(notes: Notes) -> None:
    files = "PyTorch's profiler does not see files"
    notes.unknown.update({"file": files, "offset": files, "sample": files, "replica": files})
    notes.unknown["job"] = "PyTorch's profiler does not name the job"


class _Text:
    """The text of a document, of which a part is held."""

    def __init__(self, chunks: Iterator[bytes], where: str) -> None:
        self._chunks = chunks
        self._where = where
        self._held = b""
        self._offset = 0
        """Of what is held in the document, decompressed [bytes]."""

    def prefix(self) -> bytes:
        """Return what stands before the list of events, and hold what comes after.

        Raises:
            CorruptDataError: there is no list of events.
        """
        while not (found := _LIST.search(self._held) or _BARE_LIST.match(self._held)):
            if len(self._held) > LONGEST_LINE or not self._more():
                raise CorruptDataError(
                    f'{self._where}: holds no list "traceEvents"; export the trace again with '
                    "torch.profiler"
                )
        prefix = self._held[: found.end()]
        self._drop(found.end())
        return prefix

    def lists(self, notes: Notes) -> Iterator[list[_Line]]:
        """Yield the events, many at once, to the end of the list."""
        while True:
            is_more = self._more()
            found = _piece(self._held, _NEXT)
            if found is None and (last := _piece(self._held, _END) or _nothing(self._held)):
                yield last[0]
                break
            if found is None and (not is_more or len(self._held) > 2 * PIECE_BYTES):
                found = self._salvaged(notes)
            if found is not None:
                yield found[0]
                self._drop(found[1])
            elif not is_more or len(self._held) > LONGEST_LINE:
                notes.problem(f"{self._where}, byte {self._offset}: ends within its list of events")
                break
        for _ in self._chunks:
            pass

    def _more(self) -> bool:
        """Hold about a piece more, if there is; tell whether anything came."""
        parts, count = [self._held], 0
        while count < PIECE_BYTES and (chunk := next(self._chunks, b"")):
            parts.append(chunk)
            count += len(chunk)
        self._held = b"".join(parts)
        return count > 0

    def _drop(self, size: int) -> None:
        self._held = self._held[size:]
        self._offset += size

    def _salvaged(self, notes: Notes) -> tuple[list[_Line], int] | None:
        """Decode events one by one, all but the last; what cannot be is a problem."""
        breaks = list(_NEXT.finditer(self._held))
        starts = [0, *(found.end() for found in breaks)]
        ends = [found.start() + 1 for found in breaks]
        lines: list[_Line] = []
        place = 0
        while place < len(ends):
            start = starts[place]
            for last in range(place, min(place + _TRIES, len(ends))):
                if line := _event(self._held[start : ends[last]]):
                    lines.append(line)
                    place = last
                    break
            else:
                notes.problem(f"{self._where}, byte {self._offset + start}: not an event")
            place += 1
        return (lines, starts[place]) if ends else None


def _piece(text: bytes, after: re.Pattern[bytes]) -> tuple[list[_Line], int] | None:
    """Return the events up to the last brace that is followed so, and what they take [bytes]."""
    for end, used in _ends(text, after):
        lines = _events(text[:end])
        if lines is not None:
            return lines, used
    return None


def _nothing(text: bytes) -> tuple[list[_Line], int] | None:
    return ([], 0) if text.lstrip().startswith(b"]") else None


def _ends(text: bytes, after: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    """Yield where an event may end, and where what follows it begins; the last first."""
    end, tries = len(text), 0
    for _ in range(_BRACES):
        end = text.rfind(b"}", 0, end)
        if end < 0 or tries == _TRIES:
            return
        if found := after.match(text, end):
            tries += 1
            yield end + 1, found.end()


def _events(text: bytes) -> list[_Line] | None:
    """Decode events; none where the text is not a list of them. NaN, no JSON, becomes null."""
    for clean in (bytes, nan_as_null):
        with suppress(*_DAMAGE):
            return _EVENTS.decode(b"[%b]" % clean(text))
    return None


def _event(text: bytes) -> _Line | None:
    clean = nan_as_null(text.decode(errors="replace").encode())
    with suppress(*_DAMAGE):
        return _EVENT.decode(clean)
    return None


class _Reader:
    """Turns lines into events; keeps what the document says of its process."""

    def __init__(self, path: Path, prefix: bytes, notes: Notes) -> None:
        self._where = str(path)
        self._notes = notes
        base, host = _BASE.search(prefix), _HOST.search(prefix)
        rank = _RANK.search(prefix) or _RANK_IN_NAME.search(path.name)
        self._base_ns = int(base[1]) if base and int(base[1]) < columns.MOST_NS else 0
        self._rank = int(rank[1]) if rank else None
        named = _HOST_IN_NAME.match(path.name)
        self._host = host[1].decode(errors="replace") if host else named[1] if named else None
        if self._rank is None:
            notes.unknown["rank"] = "neither the document nor its file's name tell the rank"
        self._pid: int | None = None
        self._asked: dict[tuple[int | None, int | None], list[int]] = defaultdict(list)
        """When each loop asked for its batches [ns]."""

        self._has_steps = False

    def batches(self, lists: Iterable[list[_Line]]) -> Iterator[pa.RecordBatch]:
        """Yield the events that tell of some work, and steps."""
        for lines in lists:
            yield self._events([line for line in lines if line.ph == _COMPLETE])
        yield from self._steps()

    def _events(self, lines: Sequence[_Line]) -> pa.RecordBatch:
        names = pa.array([line.name for line in lines], pa.string())
        categories = pa.array([line.cat or "" for line in lines], pa.string())
        pairs, which = columns.distinct_pairs(categories, names)
        calls = [call_of(*pair) for pair in pairs]
        kinds = pa.array([call.kind if call else None for call in calls], pa.string())
        steps = pa.array([step_of(name) for _, name in pairs], pa.int64())
        on_device = pa.array([bool(call and call.is_on_device) for call in calls], pa.bool_())
        begin = columns.nanoseconds([line.ts for line in lines])
        duration = columns.nanoseconds([line.dur for line in lines])
        batch = columns.batch(
            len(lines),
            {
                "kind": kinds.take(which),
                "begin_ns": pc.add(begin, self._base_ns),
                "duration_ns": columns.not_negative(duration),
                "name": names,
                "host": self._host,
                "rank": self._rank,
                "step": steps.take(which),
                **self._threads(lines, on_device.take(which)),
            },
        )
        batch = columns.timed(batch.filter(batch["kind"].is_valid()), self._where, self._notes)
        self._watch(batch)
        return batch

    def _threads(self, lines: Sequence[_Line], on_device: pa.Array) -> dict[str, pa.Array]:
        """Return whose events they are; those of a device are the process's, by device."""
        args = [line.args or _NO_ARGS for line in lines]
        pids = columns.integers([line.pid for line in lines])
        if self._pid is None:
            own = pids.filter(pc.invert(on_device)).drop_null()
            self._pid = own[0].as_py() if len(own) else None
        devices = pc.coalesce(columns.integers([one.device for one in args]), pids)
        tids = columns.integers([line.tid for line in lines])
        return {
            "pid": pc.if_else(on_device, pa.scalar(self._pid, pa.int64()), pids),
            "tid": pc.if_else(on_device, devices, tids),
            "bytes": pc.if_else(on_device, columns.counts([one.bytes for one in args]), None),
        }

    def _watch(self, batch: pa.RecordBatch) -> None:
        """Keep what steps may have to be made of."""
        self._has_steps = self._has_steps or pc.any(pc.equal(batch["kind"], Kind.STEP)).as_py()
        waits = batch.filter(pc.equal(batch["kind"], Kind.WAIT))
        for row in waits.select(["pid", "tid", "begin_ns"]).to_pylist():
            self._asked[row["pid"], row["tid"]].append(row["begin_ns"])

    def _steps(self) -> Iterator[pa.RecordBatch]:
        """Yield steps from each wait for a batch to the next, where the profiler knew no steps."""
        if self._has_steps:
            return
        for (pid, tid), asked in self._asked.items():
            begin = pa.array(sorted(asked), pa.int64())
            found = {
                "kind": Kind.STEP,
                "begin_ns": begin[:-1],
                "duration_ns": pc.subtract(begin[1:], begin[:-1]),
                "host": self._host,
                "rank": self._rank,
                "pid": pid,
                "tid": tid,
            }
            yield columns.batch(len(begin) - 1, found)
