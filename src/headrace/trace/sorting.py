"""Sorts events by when they began, however many there are, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.errors import StorageError
from headrace.trace.batches import joined

RUN_EVENTS = 1 << 20
"""Events that are sorted in memory at once, about 200 MB."""

MERGE_EVENTS = 1 << 13
"""Events of each run that are in memory while runs are merged."""


def sorted_events(batches: Iterable[pa.RecordBatch], scratch: Path) -> Iterator[pa.RecordBatch]:
    """Yield all events by when they began.

    Args:
        batches: Of events.
        scratch: A folder with space for all of them, if they are more than a million.

    Raises:
        StorageError: the scratch folder cannot be written.
    """
    runs = map(_sorted, joined(batches, RUN_EVENTS))
    first = next(runs, None)
    second = next(runs, None)
    if first is not None and second is None:
        yield first
    elif first is not None:
        try:
            with TemporaryDirectory(prefix=".sorting-", dir=scratch) as folder:
                yield from _merged(_spilled(chain((first, second), runs), Path(folder)))
        except OSError as error:
            raise StorageError(f"cannot sort the trace in {scratch}: {error}") from error


def _sorted(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.take(pc.sort_indices(batch.column("begin_ns")))


def _spilled(runs: Iterable[pa.RecordBatch], folder: Path) -> list[_Run]:
    """Write sorted runs to files; none stays in memory."""
    paths = []
    for number, run in enumerate(runs):
        paths.append(folder / str(number))
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(str(paths[-1]), run.schema, options=options) as stream:
            for begin in range(0, run.num_rows, MERGE_EVENTS):
                stream.write_batch(run.slice(begin, MERGE_EVENTS))
    return [_Run(path) for path in paths]


class _Run:
    """A sorted file, of which the first events that were not taken are in memory."""

    def __init__(self, path: Path) -> None:
        self._stream = pa.ipc.open_stream(pa.OSFile(str(path)))
        self._nothing = pa.RecordBatch.from_pylist([], schema=self._stream.schema)
        self.batch = next(self._stream, self._nothing)

    @property
    def last_ns(self) -> int:
        """Begin of the last event in memory."""
        last: int = self.batch.column("begin_ns")[-1].as_py()
        return last

    def take(self, until_ns: int) -> pa.RecordBatch:
        """Return the events in memory that begin until a moment, and forget them."""
        batch = self.batch
        begins: npt.NDArray[np.int64] = batch.column("begin_ns").to_numpy()
        count = int(np.searchsorted(begins, until_ns, side="right"))
        self.batch = batch.slice(count)
        if not self.batch.num_rows:
            self.batch = next(self._stream, self._nothing)
        return batch.slice(0, count)


def _merged(runs: list[_Run]) -> Iterator[pa.RecordBatch]:
    while runs := [run for run in runs if run.batch.num_rows]:
        until_ns = min(run.last_ns for run in runs)
        yield _sorted(pa.concat_batches([run.take(until_ns) for run in runs]))
