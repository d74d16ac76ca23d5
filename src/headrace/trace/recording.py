"""What this process records of itself: one recorder for all that works in it, and its phase.

A process has one trace, in the folder of its run, that its loaders, checkpoint readers and
writers record into. It is opened by the first of them and closed with the process.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from headrace.core.errors import ConfigError, StorageError
from headrace.trace.events import Event, Phase
from headrace.trace.home import plain_name, run_folder, tidy, trace_home
from headrace.trace.segments import Origin
from headrace.trace.store import EventRecorder, Rows

logger = logging.getLogger("headrace.trace")

PHASE_VARIABLE = "HEADRACE_PHASE"
"""Environment variable that says what a process is at; a companion evaluation sets it."""


TRAINER = "trainer"
"""Role of a process that trains, and so has phases."""


class Recording:
    """A recorder, and what this process is at. Thread-safe; never raises once it is open."""

    def __init__(self, recorder: EventRecorder, *, is_shared: bool, has_phases: bool) -> None:
        self._recorder = recorder
        self._is_shared = is_shared
        self._has_phases = has_phases
        self._job = recorder.job

    def begin_job(self, job: str) -> None:
        """Take note of whose process this is, unless another job began before."""
        if self._job is None:
            self._job = job
            self._recorder.name_job(job)

    def record(self, event: Event) -> None:
        """Record an event, of this process's phase where it says no other."""
        if self._has_phases and event.phase is None:
            event = msgspec.structs.replace(event, phase=_process.phase())
        self._recorder.record(event)

    def record_row(self, rows: Rows, row: tuple[Any, ...]) -> None:
        """Record what ``rows`` makes of this row and others when they are written."""
        self._recorder.record_row(rows, row)

    def leave(self) -> None:
        """End it, unless others record into it as well: then the process's end does."""
        if not self._is_shared:
            self._recorder.close()

    def flush(self) -> None:
        """Write what was recorded so far, so that readers see it."""
        self._recorder.flush()


def open_recording(
    trace: str | Path | bool, origin: Origin, *, run: str | None = None
) -> Recording | None:
    """Return what to record into; None: nothing is to be recorded.

    Args:
        trace: A folder; True for this run's, as far as the environment allows; False for none.
        origin: Of the events.
        run: Names this run's folder; None: what launchers say, or the script.

    Raises:
        ConfigError: the environment names a phase that there is not.
        StorageError: the folder that was named cannot be written. This run's own is done
            without, with one warning.
    """
    _process.phase()
    if isinstance(trace, bool):
        return _process.recording(origin, run) if trace else None
    return _recording(Path(trace), origin, is_shared=False)


def _recording(folder: Path, origin: Origin, *, is_shared: bool) -> Recording:
    has_phases = origin.role == TRAINER
    return Recording(EventRecorder(folder, origin), is_shared=is_shared, has_phases=has_phases)


def begin_steps() -> None:
    """Take note that this process's training loop has begun."""
    _process.has_stepped = True


def phase_now() -> Phase:
    """Return what this process is at."""
    return _process.phase()


def wall_ns(monotonic_s: float) -> int:
    """Return a moment of ``time.monotonic()`` in nanoseconds since 1970, UTC."""
    return time.time_ns() - int((time.monotonic() - monotonic_s) * 1e9)


def launched_rank(environment: Mapping[str, str] = os.environ) -> int | None:
    """Return this process's rank as its launcher says; None: it says none."""
    said = environment.get("RANK", "")
    return int(said) if said.isdecimal() else None


class _Process:
    """What all that works in one process shares."""

    def __init__(self) -> None:
        self.has_stepped = False
        self._lock = threading.Lock()
        self._recording: Recording | None = None
        self._has_failed = False

    def begin_fork(self) -> None:
        """Wait for no thread of the parent: it is not here."""
        self._lock = threading.Lock()

    @cached_property
    def _said_phase(self) -> Phase | None:
        said = os.environ.get(PHASE_VARIABLE)
        try:
            return Phase(said) if said else None
        except ValueError:
            raise ConfigError(
                f"{PHASE_VARIABLE}={said!r} is no phase of a job; set it to "
                f"{', '.join(Phase)}, or not at all"
            ) from None

    def phase(self) -> Phase:
        """Return what the process is at.

        Raises:
            ConfigError: the environment says a phase that there is not.
        """
        if self._said_phase is not None:
            return self._said_phase
        return Phase.ITERATION if self.has_stepped else Phase.INITIALISATION

    def recording(self, origin: Origin, run: str | None = None) -> Recording | None:
        """Return the recording of this run; None: it is turned off, or cannot be written."""
        if self._recording is None and not self._has_failed:
            with self._lock:
                self._recording = self._recording or self._opened(origin, run)
        return self._recording

    def _opened(self, origin: Origin, run: str | None) -> Recording | None:
        try:
            home = trace_home()
            if home is None:
                return None
            folder = home / (plain_name(run) if run else run_folder())
            recording = _recording(folder, origin, is_shared=True)
            if os.environ.get("LOCAL_RANK", "0") == "0":
                tidy(home)
        except (StorageError, OSError, RuntimeError) as error:  # the last: there is no home
            self._has_failed = True
            logger.warning("%s; this run is not recorded", error)
            return None
        return recording


_process = _Process()


def _begin_fork() -> None:
    _process.begin_fork()


os.register_at_fork(after_in_child=_begin_fork)
