"""Writes one record per step of the training loop, where the loader was asked to."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import msgspec

from headrace.client.config import LoaderConfig
from headrace.client.gather import Gathered
from headrace.client.machinery import Machinery
from headrace.core.errors import StorageError
from headrace.trace.recorder import StepRecorder
from headrace.trace.steps import StepRecord

logger = logging.getLogger("headrace.client")


@dataclass(frozen=True, slots=True)
class _Asked:
    at: float
    since_1970_s: float
    ready_steps: int
    ready_bytes: int


class StepLog:
    """Turns the moments of a loop into records. For the training thread."""

    def __init__(self, config: LoaderConfig, job: str) -> None:
        self._rank = config.rank
        self._job = job
        self._recorder = None if config.trace is None else StepRecorder(config.trace)
        self._asked: _Asked | None = None
        self._unfinished: StepRecord | None = None

    def asked(self, machinery: Machinery) -> None:
        """Note that the loop asks for a batch; the step before it has ended with that."""
        if self._recorder is None:
            return
        self.ended()
        ahead = machinery.statistics().prefetch
        self._asked = _Asked(time.monotonic(), time.time(), ahead.ready_steps, ahead.ready_bytes)

    def handed(self, gathered: Gathered, wait_s: float) -> None:
        """Note that the loop got its batch."""
        if self._asked is not None:
            self._unfinished = self._record(self._asked, gathered, wait_s)

    def ended(self) -> None:
        """Write the step that the loop works on: it asks for the next, or its epoch is over."""
        if self._recorder is None or self._asked is None or self._unfinished is None:
            return
        step_s = time.monotonic() - self._asked.at
        try:
            self._recorder.record(msgspec.structs.replace(self._unfinished, step_s=step_s))
        except StorageError as error:  # a full disk under a trace must not end a training job
            logger.warning("%s; steps are recorded no longer, the loop goes on", error)
            self._recorder = None
        self._unfinished = None

    def close(self) -> None:
        """Write the last step and end the file."""
        self.ended()
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        try:
            recorder.close()
        except StorageError as error:
            logger.warning("%s; the last steps are not in the trace", error)

    def _record(self, asked: _Asked, gathered: Gathered, wait_s: float) -> StepRecord:
        counts, batch = gathered.counts, gathered.batch
        made_s = counts.read_s + counts.transform_s
        return StepRecord(
            job=self._job,
            rank=self._rank,
            step=batch.step,
            epoch=batch.epoch,
            begin_s=asked.since_1970_s,
            step_s=0.0,
            wait_s=wait_s,
            load_s=gathered.seconds,
            read_s=counts.read_s,
            transform_s=counts.transform_s,
            overhead_s=max(gathered.seconds - made_s, 0.0),
            trainer_cpu_s=counts.cpu_s,
            bytes_wire=counts.wire_bytes,
            bytes_storage=counts.storage_bytes,
            bytes_batch=batch.nbytes,
            samples=batch.size,
            samples_tensor=counts.tensor,
            samples_raw=counts.raw.total(),
            samples_hedged=counts.hedged,
            samples_local=counts.local,
            samples_substituted=counts.substituted,
            queue_batches=asked.ready_steps,
            queue_bytes=asked.ready_bytes,
        )
