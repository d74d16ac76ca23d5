"""Records the steps of the training loop."""

from __future__ import annotations

from headrace.client.config import LoaderConfig
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
        self._rows = StepRows(job, rank)
        self._asked_at = 0.0
        self._unfinished: StepRow | None = None

    def asked(self, now: float) -> None:
        """Note that the loop asks for a batch; the step before it has ended with that.

        Args:
            now: Monotonic time [s].
        """
        self.ended(now)
        self._asked_at = now

    def handed(self, gathered: Gathered, wait_s: float, ahead: Ahead) -> None:
        """Note that the loop got its batch, after a wait, and what lay ready when it asked."""
        if self._recording is not None:
            begin_steps()
            self._unfinished = _row(self._asked_at, gathered, wait_s, ahead)

    def ended(self, now: float) -> None:
        """Record the step that the loop works on: it asks for the next, or its epoch is over."""
        if self._recording is None or self._unfinished is None:
            return
        duration = _ns(now - self._asked_at)
        self._recording.record_row(self._rows, self._unfinished._replace(duration=duration))
        self._unfinished = None

    def close(self) -> None:
        """Let what was recorded be written."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.leave()


def _row(asked_at: float, gathered: Gathered, wait_s: float, ahead: Ahead) -> StepRow:
    counts, batch = gathered.counts, gathered.batch
    parts_s = counts.metadata_s + counts.read_s + counts.transform_s
    return StepRow(
        step=batch.step,
        epoch=batch.epoch,
        phase=PHASES.index(phase_now()),
        begin=wall_ns(asked_at),
        duration=0,
        wait=_ns(wait_s),
        load_begin=wall_ns(gathered.begin),
        load=_ns(gathered.seconds),
        metadata=_ns(counts.metadata_s),
        retrieval=_ns(counts.read_s),
        transformation=_ns(counts.transform_s),
        overhead=_ns(max(gathered.seconds - parts_s, 0.0)),
        cpu=_ns(counts.cpu_s),
        nbytes=batch.nbytes,
        is_detailed=gathered.is_detailed,
        reads=counts.storage_reads,
        read=_ns(counts.storage_read_s),
        fetches=counts.fetches,
        fetch=_ns(counts.fetch_s),
        samples=batch.size,
        samples_tensor=counts.tensor,
        samples_raw=counts.raw.total(),
        samples_hedged=counts.hedged,
        samples_local=counts.local,
        samples_substituted=counts.substituted,
        samples_dropped=counts.dropped,
        queue_batches=ahead.steps,
        queue_bytes=ahead.nbytes,
        bytes_wire=counts.wire_bytes,
        bytes_storage=counts.storage_bytes,
        queued_ns=_ns(counts.queued_s),
        throttled_ns=_ns(counts.throttled_s),
    )


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
