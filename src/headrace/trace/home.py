"""Where this user's traces lie: a folder for each run, of which the oldest go to make room."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from headrace.core.run import named_run
from headrace.trace.segments import SUFFIX, is_growing

VARIABLE = "HEADRACE_TRACE"
"""Environment variable that names the folder of all traces, or turns recording off."""

OFF = "off"

TOTAL_BYTES = 2 << 30
"""What the traces of all runs may take [bytes]."""

MOST_RUNS = 1000
"""Traces that are kept: each start of a program looks at all of them."""

_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_.-]+")
_NAME_LETTERS = 64


def trace_home(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of all traces; None: nothing is to be recorded."""
    said = environment.get(VARIABLE, "")
    if said.lower() == OFF:
        return None
    if said:
        return Path(said).expanduser()
    cache = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~"), ".cache")
    return Path(cache).expanduser() / "headrace" / "traces"


def run_folder(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of this run's folder, equal for the ranks of a run on one host.

    It is the run's name, else that of the script with the time at which it was started.
    """
    run = named_run(environment)
    if run:
        return plain_name(run)
    is_rank = "LOCAL_RANK" in environment
    starter = (os.getppid() if is_rank else 0) or os.getpid()  # 0: it is not to be seen here
    return f"{plain_name(_script(sys.argv))}-{_started_at(starter):%Y%m%dT%H%M%S}-{starter}"


def _script(argv: Sequence[str]) -> str:
    """Return what people call the program: of ``python -m package`` the package."""
    path = Path(argv[0] if argv else "")
    stem = path.parent.name if path.stem == "__main__" else path.stem
    return stem if stem not in ("", "-c", "-") else "python"


def plain_name(text: str) -> str:
    """Return a text as the name of a folder."""
    return _UNNAMEABLE.sub("-", text).strip(".-")[:_NAME_LETTERS] or "unnamed"


def tidy(home: Path, most_bytes: int = TOTAL_BYTES, most_runs: int = MOST_RUNS) -> None:
    """Remove the runs that ended longest ago until the others fit; none that is being written.

    Only segments are removed, and folders that are empty then. What cannot be removed stays.
    """
    runs = sorted(_runs(home), key=lambda run: run.written_ns)
    total, left = sum(run.nbytes for run in runs), len(runs)
    for run in runs:
        if total <= most_bytes and left <= most_runs:
            return
        with contextlib.suppress(OSError):
            if not any(is_growing(segment) for segment in run.segments):
                run.remove()
                total -= run.nbytes
                left -= 1


@dataclass(slots=True)
class _Run:
    folder: Path
    segments: list[Path] = field(default_factory=list)
    nbytes: int = 0
    written_ns: int = 0

    def remove(self) -> None:
        for segment in self.segments:
            segment.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # something else lies in it, which stays
            self.folder.rmdir()


def _runs(home: Path) -> Iterator[_Run]:
    for folder in home.iterdir() if home.is_dir() else ():
        run = _Run(folder)
        for segment in folder.glob(f"*{SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):  # another process tidies as well
                status = segment.stat()
                run.segments.append(segment)
                run.nbytes += status.st_size
                run.written_ns = max(run.written_ns, status.st_mtime_ns)
        if run.segments:
            yield run


def _started_at(pid: int) -> datetime:
    """Return when a process was started; the same for all who ask."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    ticks = int(stat.rpartition(")")[2].split()[19])  # the command before may hold anything
    booted = next(
        line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime ")
    )
    seconds = int(booted.split()[1]) + ticks // os.sysconf("SC_CLK_TCK")
    return datetime.fromtimestamp(seconds, UTC)
