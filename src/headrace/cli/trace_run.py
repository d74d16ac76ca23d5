"""``headrace trace run``: records a program that knows nothing of headrace."""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime
from pathlib import Path

import click

from headrace.report.units import counted
from headrace.trace.home import plain_name
from headrace.tracing.run import Traced, default_job, run_traced


@click.command(
    "run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the trace.  [default: traces/JOB-TIME-PID]",
)
@click.option("--job", help="The job's name.  [default: of the run, else of the script]")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def command(*, out: Path | None, job: str | None, command: tuple[str, ...]) -> int:
    """Run a program and record what its Python processes load, read, save and wait for.

    The program is not changed and needs no headrace. Its streams, its exit code and the signals
    that are sent to it are its own.

    \b
    Examples:
      headrace trace run -- python train.py --epochs 2
      headrace trace run -o traces/run7 -- torchrun --nproc-per-node 8 train.py
    """  # noqa: D301 - click reads the lone \b
    job = job or default_job(command)
    folder = out or _new_folder(job)
    traced = run_traced(command, folder, job=job)
    click.echo(_said(traced, folder), err=True)
    return traced.exit_code


def _new_folder(job: str) -> Path:
    """Return a folder that no other call has, at whatever time and on this host."""
    return Path("traces", f"{plain_name(job)}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}")


def _said(traced: Traced, folder: Path) -> str:
    collected, written = traced.collected, traced.written
    if not collected.events:
        return (
            "headrace: nothing was recorded: no Python process of the program loaded, read or "
            "saved anything that is watched; python -I, -E and -S, and programs that clear "
            "PYTHONPATH, leave the recorder out"
        )
    lost_events = collected.lost + written.lost_events
    lost = f", {lost_events:,} were lost" if lost_events else ""
    processes = "process" if collected.processes == 1 else "processes"
    return (
        f"headrace: recorded {counted(written.written_events, 'event')} of {collected.processes:,} "
        f"{processes} in {folder}{lost}; analyse them: headrace analyze {shlex.quote(str(folder))}"
    )
