"""Reads the audit log of an HDFS NameNode: which client asked it for what, and when."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from headrace.trace.events import Kind
from headrace.trace.importer import Notes
from headrace.trace.importers import columns
from headrace.trace.importers.text import Piece, file_chunks, pieces

_LINE = (
    r"^(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)[,.](?P<millis>\d{3})[^\t]*allowed=\w+"
    r"\tugi=[^\t]*\tip=/?(?P<ip>[^\t]*)\tcmd=(?P<cmd>[^\t]*)\tsrc=(?P<src>[^\t]*)\t"
)
_ENTRY = re.compile(rb"^\d{4}-\d\d-\d\d[ T][^\t\n]*allowed=\w+\tugi=[^\n]*\tcmd=", re.MULTILINE)
_TIME = "%Y-%m-%d %H:%M:%S"
_LAST_S = columns.MOST_NS // 10**9
_NONE = "null"
_NAMED = 20
"""So many lines of a piece that are no entries are named one by one."""


class HDFSAudit:
    """The log ``FSNamesystem.audit``, as log4j writes it."""

    name = "HDFS audit log"

    def recognises(self, path: Path, head: bytes) -> bool:  # noqa: ARG002 - of the protocol
        """Tell by the fields of an entry."""
        return _ENTRY.search(head) is not None

    def read(
        self, path: Path, notes: Notes, advanced: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield what clients asked for.

        Raises:
            CorruptDataError: no line of it is an entry.
            StorageError: the file cannot be read.
        """
        _note_unknown(notes)
        texts = pieces(file_chunks(path, notes, advanced), str(path))
        yield from columns.some((_entries(piece, path, notes) for piece in texts), notes)


def _note_unknown(notes: Notes) -> None:
    seen = "a NameNode logs what it was asked, not how long it took or what was read then"
    notes.unknown.update({"duration_ns": seen, "bytes": seen, "offset": seen, "replica": seen})
    notes.unknown["rank"] = "a NameNode knows clients by their address alone"
    notes.unknown["time zone"] = "a NameNode logs its local time; it is taken for UTC"


def _entries(piece: Piece, path: Path, notes: Notes) -> pa.RecordBatch:
    lines = pa.array(piece.data.decode(errors="replace").split("\n"), pa.string())
    fields = pc.extract_regex(lines, _LINE)
    _note_others(lines, fields, piece, path, notes)
    time, millis, host, command, source = fields.filter(fields.is_valid()).flatten()
    batch = columns.batch(
        len(time),
        {
            "kind": Kind.METADATA,
            "begin_ns": _nanoseconds(time, millis),
            "name": command,
            "host": host,
            "file": pc.if_else(pc.equal(source, _NONE), None, source),
        },
    )
    return columns.timed(batch, str(path), notes)


def _note_others(lines: pa.Array, fields: pa.Array, piece: Piece, path: Path, notes: Notes) -> None:
    """Note lines that are no entries; empty ones do not matter."""
    is_other = pc.and_(fields.is_null(), pc.not_equal(pc.utf8_trim_whitespace(lines), ""))
    others = pc.indices_nonzero(is_other)
    for place in others[:_NAMED].to_pylist():
        notes.problem(f"{path}, line {piece.line + place}: not an entry of the audit log")
    if len(others) > _NAMED:
        notes.problem(f"{path}: {len(others) - _NAMED} more lines are not entries of the audit log")


def _nanoseconds(time: pa.Array, millis: pa.Array) -> pa.Array:
    """Return moments since 1970 [ns]; null where the calendar has no such time."""
    plain = pc.replace_substring(time, "T", " ")
    seconds = pc.strptime(plain, format=_TIME, unit="s", error_is_null=True).cast(pa.int64())
    is_time = pc.and_(pc.less(seconds, _LAST_S), pc.greater(seconds, -_LAST_S))
    fits = pc.if_else(is_time, seconds, None)
    return pc.add(pc.multiply(fits, 10**9), pc.multiply(millis.cast(pa.int64()), 10**6))
