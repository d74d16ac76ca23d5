"""Records that agents run other ops on a kind of sample from now on."""

from __future__ import annotations

import time

from headrace.trace.events import MOVE_CUT, Event, Kind
from headrace.trace.recording import Recording
from headrace.transform.explain import Running


class CutLog:
    """Records for one rank. Thread-safe."""

    def __init__(self, recording: Recording | None, job: str, *, rank: int) -> None:
        self._recording = recording
        self._job, self._rank = job, rank

    def moved(self, kind: str, before: int, after: Running) -> None:
        """Record that a cut moved just now.

        Args:
            kind: Of samples.
            before: Leading ops that agents ran on them.
            after: What they run now, and what that rests on.
        """
        if self._recording is None:
            return
        counts = {
            "ops_before": before,
            "ops": after.cut,
            "agent_ns": int(after.storage_s * 1e9),
            "trainer_ns": int(after.trainer_s * 1e9),
        }
        if after.bandwidth is not None:
            counts["link_bytes_per_s"] = int(after.bandwidth)
        self._recording.record(
            Event(
                kind=Kind.CALL,
                name=f"{MOVE_CUT}{kind}",
                begin_ns=time.time_ns(),
                job=self._job,
                rank=self._rank,
                bytes=int(after.wire_bytes),
                counts=counts,
            )
        )
