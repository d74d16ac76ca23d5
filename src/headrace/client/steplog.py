"""Records the steps of the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.client.config import LoaderConfig
from headrace.client.counts import Counts
from headrace.client.machinery import Ahead
from headrace.client.steprows import PHASES, StepRow, StepRows
from headrace.client.work import Gathered
from headrace.trace.recording import (
    TRAINER,
    Recording,
    begin_steps,
    open_recording,
    phase_now,
    wall_ns,
)
from headrace.trace.segments import Origin


def recording_of(config: LoaderConfig, job: str) -> Recording | None:
    """Open what a rank of a job records into; None where nothing is to be recorded.

    Raises:
        StorageError: the folder that ``trace`` names cannot be written.
    """
    origin = Origin(role=TRAINER, job=job, rank=config.rank)
    recording = open_recording(config.trace, origin)
    if recording is not None:
        recording.begin_job(job)
    return recording


class StepLog:
    """Turns the moments of a loop into events. For the training thread."""

    def __init__(self, recording: Recording | None, job: str, *, rank: int) -> None:
        self._recording = recording
        self._notes = _Notes(StepRows(job, rank))
        self._asked_at = 0.0
        self._unfinished: _Note | None = None

    def asked(self, now: float) -> None:
        """Note that the loop asks for a batch; the step before it has ended with that.

        Args:
            now: Monotonic time [s].
        """
        self.ended(now)
        self._asked_at = now

    def handed(self, gathered: Gathered, wait_s: float, ahead: Ahead) -> None:
        """Note that the loop got its batch, after a wait, and what lay ready when it asked."""
        if self._recording is None:
            return
        begin_steps()
        batch = gathered.batch
        self._unfinished = _Note(
            step=batch.step,
            epoch=batch.epoch,
            phase=PHASES.index(phase_now()),
            begin=wall_ns(self._asked_at),
            duration_s=0.0,
            wait_s=wait_s,
            load_since_s=gathered.begin - self._asked_at,
            load_s=gathered.seconds,
            samples=batch.size,
            nbytes=batch.nbytes,
            is_detailed=gathered.is_detailed,
            counts=gathered.counts,
            ahead=ahead,
        )

    def ended(self, now: float) -> None:
        """Record the step that the loop works on: it asks for the next, or its epoch is over."""
        if self._recording is None or self._unfinished is None:
            return
        note = self._unfinished._replace(duration_s=now - self._asked_at)
        self._recording.record_row(self._notes, note)
        self._unfinished = None

    def close(self) -> None:
        """Let what was recorded be written."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.leave()


class _Note(NamedTuple):
    """What the training thread keeps of a step: references, but not to its batch."""

    step: int
    epoch: int
    phase: int
    begin: int
    """[ns since 1970]"""

    duration_s: float
    wait_s: float
    load_since_s: float
    """When its load began, since the step did [s]."""

    load_s: float
    samples: int
    nbytes: int
    is_detailed: bool
    counts: Counts
    ahead: Ahead


class _Notes:
    """Makes events of notes when they are written: there one after the other takes 4 µs each.

    In the training thread, between two batches, it was five times as much.
    """

    def __init__(self, rows: StepRows) -> None:
        self._rows = rows

    def events(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        """Return the events of steps.

        Args:
            rows: Each a :class:`_Note`.
        """
        return self._rows.events([_row(_Note(*row)) for row in rows])


def _row(note: _Note) -> StepRow:
    counts = note.counts
    parts_s = counts.metadata_s + counts.read_s + counts.transform_s
    return StepRow(
        step=note.step,
        epoch=note.epoch,
        phase=note.phase,
        begin=note.begin,
        duration=_ns(note.duration_s),
        wait=_ns(note.wait_s),
        load_begin=note.begin + _ns(note.load_since_s),
        load=_ns(note.load_s),
        metadata=_ns(counts.metadata_s),
        retrieval=_ns(counts.read_s),
        transformation=_ns(counts.transform_s),
        overhead=_ns(max(note.load_s - parts_s, 0.0)),
        cpu=_ns(counts.cpu_s),
        nbytes=note.nbytes,
        is_detailed=note.is_detailed,
        reads=counts.storage_reads,
        read=_ns(counts.storage_read_s),
        fetches=counts.fetches,
        fetch=_ns(counts.fetch_s),
        samples=note.samples,
        samples_tensor=counts.tensor,
        samples_raw=counts.raw.total(),
        samples_hedged=counts.hedged,
        samples_local=counts.local,
        samples_substituted=counts.substituted,
        samples_dropped=counts.dropped,
        queue_batches=note.ahead.steps,
        queue_bytes=note.ahead.nbytes,
        bytes_wire=counts.wire_bytes,
        bytes_storage=counts.storage_bytes,
        queued_ns=_ns(counts.queued_s),
        throttled_ns=_ns(counts.throttled_s),
    )


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
