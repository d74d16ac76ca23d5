"""Reads step traces, finished or growing, whole or cut off in the middle of a write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from headrace.core.errors import CorruptDataError, NotFoundError
from headrace.trace.steps import arrow_schema


def read_steps(path: str | Path) -> pa.Table:
    """Return all whole batches of a trace as one table with the columns of ``StepRecord``.

    Raises:
        NotFoundError: there is no such file.
        CorruptDataError: it is not a step trace, or one of another version.
    """
    path = Path(path)
    if not path.is_file():
        raise NotFoundError(f"no step trace at {path}; a loader writes one when given trace=PATH")
    batches = [batch for batch, _ in _whole_batches(path)]
    return pa.Table.from_batches(batches, schema=arrow_schema())


def whole_batches_end(path: Path) -> int:
    """Return where a trace's last whole batch ends [bytes]; 0 where nothing was written yet.

    Raises:
        CorruptDataError: the file is not a step trace of this version.
    """
    if not path.exists():
        return 0
    return max((end for _, end in _whole_batches(path)), default=0)


def _whole_batches(path: Path) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield an empty batch for the schema, then each whole batch, with the offset of its end."""
    expected = arrow_schema()
    beginning = expected.serialize().to_pybytes()
    if path.stat().st_size < len(beginning) and beginning.startswith(path.read_bytes()):
        return
    with pa.memory_map(str(path)) as source:
        try:
            stream = pa.ipc.open_stream(source)
        except pa.ArrowInvalid as error:
            raise CorruptDataError(f"{path} is not a step trace: {error}") from error
        if not stream.schema.equals(expected, check_metadata=True):
            raise CorruptDataError(f"{path} is a trace of another kind or version")
        yield pa.RecordBatch.from_pylist([], schema=expected), source.tell()
        with suppress(StopIteration, pa.ArrowInvalid, OSError):
            while True:
                yield stream.read_next_batch(), source.tell()
