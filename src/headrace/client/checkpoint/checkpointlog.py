"""Records loads and saves of checkpoints, and the requests that they are made of."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from headrace.checkpoint.safetensors_folder import SUFFIX
from headrace.trace.events import Event, Kind
from headrace.trace.recording import TRAINER, Recording, launched_rank, open_recording
from headrace.trace.segments import Origin


class CheckpointLog:
    """What one rank does with one checkpoint. Thread-safe. Moments are monotonic [s].

    Args:
        url: Of the checkpoint: its folder, or its only file.
        recording: What is recorded into; None: nothing is.
        rank: None: there are none.
    """

    def __init__(self, url: str, recording: Recording | None, *, rank: int | None = None) -> None:
        self._url = url.rstrip("/")
        self._folder = self._url.rpartition("/")[0] if url.endswith(SUFFIX) else self._url
        self._recording = recording
        self._rank = rank

    def read(self, begin: float, nbytes: int, counts: dict[str, int]) -> None:
        """Record that bytes of the checkpoint were loaded, from ``begin`` until now."""
        self._record(Kind.CHECKPOINT_READ, begin, file=self._url, bytes=nbytes, counts=counts)

    def saved(self, begin: float, nbytes: int, counts: dict[str, int]) -> None:
        """Record that bytes of the checkpoint were made durable, from ``begin`` until now."""
        self._record(
            Kind.CHECKPOINT_SAVE,
            begin,
            file=self._url,
            bytes=nbytes,
            is_write=True,
            counts=counts,
        )

    def waited(self, begin: float) -> None:
        """Record that this rank waited for the others, from ``begin`` until now."""
        self._record(Kind.BARRIER, begin, file=self._url)

    def called(self, name: str, begin: float) -> None:
        """Record something else that was done with it, from ``begin`` until now."""
        self._record(Kind.CALL, begin, name=name, file=self._url)

    def requested(
        self, path: str, offset: int, nbytes: int, begin: float, *, replica: str | None
    ) -> None:
        """Record that bytes of a file came, asked for at ``begin``.

        Args:
            path: Of the file, below the checkpoint's folder.
            offset: Of the first of them [bytes].
            nbytes: How many [bytes].
            begin: When they were asked for.
            replica: Who served them; None: nobody says.
        """
        self._record(
            Kind.REQUEST,
            begin,
            name="read",
            file=f"{self._folder}/{path}",
            offset=offset,
            bytes=nbytes,
            replica=replica,
            is_write=False,
        )

    def wrote(self, path: str, offset: int, nbytes: int, begin: float) -> None:
        """Record that the store took bytes of a file that begin at ``offset`` [bytes]."""
        self._record(
            Kind.REQUEST,
            begin,
            name="write",
            file=f"{self._folder}/{path}",
            offset=offset,
            bytes=nbytes,
            is_write=True,
        )

    def leave(self) -> None:
        """Let what was recorded be written."""
        if self._recording is not None:
            self._recording.leave()

    def __enter__(self) -> CheckpointLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def _record(self, kind: Kind, begin: float, **fields: Any) -> None:
        if self._recording is not None:
            duration_ns = int((time.monotonic() - begin) * 1e9)
            self._recording.record(
                Event(
                    kind=kind,
                    begin_ns=time.time_ns() - duration_ns,
                    duration_ns=duration_ns,
                    rank=self._rank,
                    **fields,
                )
            )


def open_log(
    url: str, trace: str | os.PathLike[str] | bool, *, rank: int | None = None
) -> CheckpointLog:
    """Return what records what a rank does with a checkpoint.

    Args:
        url: Of the checkpoint.
        trace: As of :class:`headrace.Loader`.
        rank: None: what the launcher says.

    Raises:
        StorageError: the folder that was named cannot be written.
    """
    where = trace if isinstance(trace, bool) else Path(trace)
    rank = launched_rank() if rank is None else rank
    return CheckpointLog(url, open_recording(where, Origin(role=TRAINER, rank=rank)), rank=rank)
