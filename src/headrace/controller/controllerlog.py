"""Records what a controller does that takes time: copies of checkpoints, and raises of replicas."""

from __future__ import annotations

import time

from headrace.controller.hotspots.carrier import Carrier
from headrace.policy.hotspot.events import (
    CopiesSet,
    Figures,
    FileGone,
    FileSeen,
    HotFile,
    SetCopies,
    SetElsewhere,
)
from headrace.trace.events import Event, Kind
from headrace.trace.recording import Recording, open_recording
from headrace.trace.segments import Origin


class ControllerLog:
    """Records for one controller. Thread-safe. Moments are monotonic [s]."""

    def __init__(self, recording: Recording | None) -> None:
        self._recording = recording

    def called(
        self,
        name: str,
        file: str,
        begin: float,
        *,
        nbytes: int | None = None,
        replica: str | None = None,
        copies: int | None = None,
    ) -> None:
        """Record something that went on from ``begin`` until now.

        Args:
            name: What.
            file: With which file, or folder.
            begin: Since when.
            nbytes: Moved [bytes].
            replica: Who did it; None: the store, or this process.
            copies: That a file is to have.
        """
        if self._recording is not None:
            duration_ns = int((time.monotonic() - begin) * 1e9)
            self._recording.record(
                Event(
                    kind=Kind.CALL,
                    name=name,
                    begin_ns=time.time_ns() - duration_ns,
                    duration_ns=duration_ns,
                    file=file,
                    bytes=nbytes,
                    replica=replica,
                    counts=None if copies is None else {"copies": copies},
                )
            )

    def close(self) -> None:
        """Let what was recorded be written."""
        if self._recording is not None:
            self._recording.leave()


def open_controller_log(program: str = "controller") -> ControllerLog:
    """Return the log of a controller, or of another program that does a part of its work.

    Args:
        program: After which the folder of the trace is called.
    """
    return ControllerLog(open_recording(True, Origin(role=program), run=program))


class RecordedCarrier:
    """Has another one make copies, and records how long each order took."""

    def __init__(self, store: str, carrier: Carrier, log: ControllerLog) -> None:
        self._store = store
        self._carrier = carrier
        self._log = log

    def figures(self) -> Figures:
        """Return how busy the store is."""
        return self._carrier.figures()

    def look(self, file: HotFile) -> FileSeen | FileGone:
        """Return how many copies a file is to have, and has."""
        return self._carrier.look(file)

    def set_copies(self, order: SetCopies, file: HotFile) -> CopiesSet | SetElsewhere | FileGone:
        """Ask for a number of copies of a file."""
        begin = time.monotonic()
        done = self._carrier.set_copies(order, file)
        self._log.called(
            "set copies", f"{self._store}/{order.file.path}", begin, copies=order.copies
        )
        return done

    def close(self) -> None:
        """Let go of connections."""
        self._carrier.close()
