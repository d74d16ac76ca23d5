"""Runs a program and records it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.core.run import named_run
from headrace.trace.home import VARIABLE as TRACE_VARIABLE
from headrace.trace.segments import Origin
from headrace.trace.store import EventRecorder, RecorderStatistics
from headrace.tracing.collecting import Collected, Collector
from headrace.tracing.probe.spool import SPOOL_VARIABLE
from headrace.tracing.probe.tracer import PARENT_VARIABLE
from headrace.tracing.processes import ProcessSampler
from headrace.tracing.program import run_program

LOOK_S = 0.5
"""Events are taken from traced processes, and their reads and writes counted, this often [s]."""

LEFT_BEHIND_S = 2.0
"""Processes that outlive the program are recorded no longer than this [s]."""

_STARTUP = Path(__file__).parent / "startup"


@dataclass(frozen=True, slots=True)
class Traced:
    """A program that ran, and its trace."""

    exit_code: int
    """128 + N where signal N ended it."""

    collected: Collected
    written: RecorderStatistics


def run_traced(command: Sequence[str], folder: Path, *, job: str) -> Traced:
    """Run a program, and record it and what it starts into a folder.

    Raises:
        NotFoundError: there is no such program.
        StorageError: the folder cannot be written.
    """
    with (
        _made(folder),
        tempfile.TemporaryDirectory(prefix="headrace-spool-", ignore_cleanup_errors=True) as spool,
        EventRecorder(folder, Origin(role="program", job=job)) as recorder,
    ):
        collector = Collector(Path(spool), recorder.record)
        environment = traced_environment(os.environ, folder=folder, spool=Path(spool), job=job)
        sampler = ProcessSampler(recorder.record)

        def look() -> None:
            collector.collect()
            sampler.sample(collector.processes())

        exit_code = run_program(command, environment, every=look, every_s=LOOK_S)
        _collect_rest(collector)
    return Traced(exit_code, collector.statistics(), recorder.statistics())


def default_job(command: Sequence[str], environment: Mapping[str, str] = os.environ) -> str:
    """Return the job's name: that of its run, else of its script, else of its program."""
    script = next((word for word in command if word.endswith(".py")), command[0])
    return named_run(environment) or Path(script).stem


def traced_environment(
    environment: Mapping[str, str], *, folder: Path, spool: Path, job: str
) -> dict[str, str]:
    """Return the environment in which Python records itself.

    A program that uses headrace records that into the same folder, unless it was told where.
    """
    paths = [str(_STARTUP), *filter(None, [environment.get("PYTHONPATH")])]
    return {
        TRACE_VARIABLE: str(folder.absolute()),
        **{name: value for name, value in environment.items() if name != PARENT_VARIABLE},
        "HEADRACE_RUN": job,
        "PYTHONPATH": os.pathsep.join(paths),
        SPOOL_VARIABLE: str(spool),
    }


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Remove a folder that was made for a trace and stayed empty."""
    was_there = folder.exists()
    try:
        yield
    finally:
        if not was_there and folder.exists() and not any(folder.iterdir()):
            folder.rmdir()


def _collect_rest(collector: Collector) -> None:
    """Take what is left, also of processes that end with the program."""
    until = time.monotonic() + LEFT_BEHIND_S
    collector.collect()
    while collector.processes() and time.monotonic() < until:
        time.sleep(LOOK_S / 20)
        collector.collect()
