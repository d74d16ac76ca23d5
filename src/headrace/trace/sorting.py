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

RUN_EVENTS = 1 << 19
"""Events that are sorted in memory at once: about 130 MB, for a moment three times."""

MERGE_EVENTS = 1 << 10
"""Events of each run that are in memory while runs are merged: a quarter of a megabyte."""

_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)


def sorted_events(batches: Iterable[pa.RecordBatch], scratch: Path) -> Iterator[pa.RecordBatch]:
    """Yield all events by when they began.

    Args:
        batches: Of events.
        scratch: A folder with space for all of them, if they are more than half a million.

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
                spilled = _spilled(chain((first, second), runs), Path(folder))
                del first, second
                yield from _merged(spilled)
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
        self._stream = pa.ipc.open_stream(pa.OSFile(str(path)), options=_OPTIONS)
        self.is_left = True
        self._taken = 0
        self._next()

    def take(self, until_ns: int) -> pa.RecordBatch:
        """Return the events in memory that begin until a moment, and forget them."""
        begin = self._taken
        self._taken = int(np.searchsorted(self._begins, until_ns, side="right"))
        taken = self._batch.slice(begin, self._taken - begin)
        if self._taken < self._begins.size:
            self.first_ns = int(self._begins[self._taken])
        else:
            self._next()
        return taken

    def _next(self) -> None:
        batch = next(self._stream, None)
        if batch is None:
            self.is_left = False
            return
        self._batch, self._taken = batch, 0
        self._begins: npt.NDArray[np.int64] = batch.column("begin_ns").to_numpy()
        self.first_ns, self.last_ns = int(self._begins[0]), int(self._begins[-1])
        """Begins of the first event and the last one in memory."""


def _merged(runs: list[_Run]) -> Iterator[pa.RecordBatch]:
    while runs := [run for run in runs if run.is_left]:
        until_ns = min(run.last_ns for run in runs)
        due = [run for run in runs if run.first_ns <= until_ns]
        yield _sorted(pa.concat_batches([run.take(until_ns) for run in due]))
