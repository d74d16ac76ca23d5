"""Reads logs of Darshan: counters of each file, and with DXT each read and write.

They are read through Darshan's own library, in a process of its own: on a damaged log the library
ends the process that it runs in.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import pyarrow as pa

from headrace.core.errors import CallerError, CorruptDataError
from headrace.trace.importer import Notes
from headrace.trace.importers.text import reading

_READER = "headrace.trace.importers.darshanlog"
_MAGIC = (6567223).to_bytes(8, "little")
_MAGIC_AT = slice(8, 16)


class Darshan:
    """Logs of Darshan 3, POSIX, STDIO and DXT."""

    name = "Darshan"

    def recognises(self, path: Path, head: bytes) -> bool:
        """Tell by the magic number of a log, or by the suffix where it was cut within that."""
        return head[_MAGIC_AT] in (_MAGIC, _MAGIC[::-1]) or path.suffix == ".darshan"

    def read(
        self, path: Path, notes: Notes, advanced: Callable[[int], None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield what the log tells of each file.

        Raises:
            CallerError: Darshan's package is not installed.
            CorruptDataError: nothing of the log can be read.
            StorageError: the file cannot be read.
        """
        if find_spec("darshan") is None:
            raise CallerError(f"{path} is a log of Darshan; run pip install 'headrace[darshan]'")
        with reading(path):
            path.open("rb").close()
        _note_unknown(notes)
        found = has_offsets = False
        command = [sys.executable, "-m", _READER, str(path)]
        with TemporaryFile() as said:
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said) as process:
                assert process.stdout is not None
                for batch in _batches(process.stdout):
                    found = found or batch.num_rows > 0
                    has_offsets = has_offsets or batch["offset"].null_count < batch.num_rows
                    yield batch
            problem = _problem(path, process.returncode, said)
        advanced(path.stat().st_size)
        if not has_offsets:
            notes.unknown["offset"] = "Darshan tells of single reads and writes only with DXT"
        if problem and not found:
            raise CorruptDataError(problem)
        if problem:
            notes.problem(problem)


def _note_unknown(notes: Notes) -> None:
    seen = "Darshan sees calls of the process, not the storage behind them"
    notes.unknown.update({"replica": seen, "round_trips": seen, "queue_ns": seen})
    notes.unknown["step"] = "Darshan knows nothing of training"


def _batches(stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
    """Yield what the other process sends, as far as it came."""
    try:
        yield from pa.ipc.open_stream(stream)
    except (pa.ArrowInvalid, OSError):
        stream.read()


def _problem(path: Path, code: int, said: IO[bytes]) -> str | None:
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    reason = lines[-1] if lines else "no reason was given"
    if code:
        return f"{path}: Darshan's library cannot read it ({reason}); the log is cut or damaged"
    return f"{path}: Darshan's library says: {reason}" if lines else None
