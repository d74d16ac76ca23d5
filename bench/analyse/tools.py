"""The contenders: how each is installed, called, and how many events it says it analysed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.environments import environment
from headrace.core.errors import CorruptDataError, RemoteError

RUN_TIMEOUT_S = 900.0
DFANALYZER = ("dftracer-analyzer==0.0.9", "dftracer-utils==0.0.12")
"""The newest two that work with each other."""

HTA = ("HolisticTraceAnalysis==0.5.0",)
_COUNT = re.compile(r"Trace Count\D+?([\d,]+)")
_SUMMARY = Path(__file__).with_name("hta_summary.py")


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a program took."""

    wall_s: float
    cpu_s: float
    """Of it and its children [s]."""

    peak_bytes: int
    """Memory of its largest process [bytes]."""

    events: int
    """That it says it analysed."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that analyses a trace."""

    command: Callable[[Path, Path], Sequence[str | Path]]
    """Of the trace and a folder to write into."""

    events: Callable[[str, Path], int]
    """Told by what it printed, and the folder."""


def headrace() -> Tool:
    """Return this headrace."""

    def command(trace: Path, folder: Path) -> Sequence[str | Path]:
        return (sys.executable, "-m", "headrace", "analyze", trace, "--json", folder / "found.json")

    def events(_: str, folder: Path) -> int:
        return int(json.loads((folder / "found.json").read_text())["events"])

    return Tool(command, events)


def dfanalyzer() -> Tool:
    """Return DFAnalyzer with one worker process: with more it leaves traces out."""
    program = environment("bench-analyse/dfanalyzer", DFANALYZER) / "dfanalyzer"

    def command(trace: Path, folder: Path) -> Sequence[str | Path]:
        return (
            program,
            "analyzer=dftracer",
            "analyzer/preset=dlio-prev",
            f"trace_path={trace}",
            "view_types=[time_range]",
            "cluster.n_workers=1",
            f"hydra.run.dir={folder}",
        )

    def events(said: str, _: Path) -> int:
        found = _COUNT.search(said)
        if found is None:
            raise CorruptDataError(f"DFAnalyzer told no number of events: {said[-500:]}")
        return int(found[1].replace(",", ""))

    return Tool(command, events)


def hta() -> Tool:
    """Return HolisticTraceAnalysis: its parser, and the time of the device by kind and kernel."""
    python = environment("bench-analyse/hta", HTA) / "python"
    return Tool(lambda trace, _: (python, _SUMMARY, trace), lambda said, _: int(said.split()[-1]))


def run(tool: Tool, trace: Path, folder: Path) -> Run:
    """Run a tool once.

    Args:
        tool: Which.
        trace: A file or a directory.
        folder: Empty; the tool may write into it.

    Raises:
        RemoteError: it failed, or took too long.
    """
    with (folder / "said").open("w+") as said:
        begin = time.perf_counter()
        process = subprocess.Popen(
            list(map(str, tool.command(trace, folder))),
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={"USER": "headrace", **os.environ},
        )
        ending = threading.Timer(RUN_TIMEOUT_S, process.kill)
        ending.start()
        _, status, used = os.wait4(process.pid, 0)
        ending.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.perf_counter() - begin
        said.seek(0)
        text = said.read()
    if process.returncode:
        raise RemoteError(f"{process.args[0]} ended with {process.returncode}: {text[-800:]}")
    cpu_s = used.ru_utime + used.ru_stime
    return Run(wall_s, cpu_s, used.ru_maxrss * 1024, tool.events(text, folder))
