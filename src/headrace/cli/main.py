"""The ``headrace`` command: finds the verb."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from headrace.cli.running import run_command
from headrace.cli.verbs import VerbGroup

VERBS = {
    "agent": ("headrace.cli.agent", "Serve just-in-time samples from this host's storage."),
    "agents": ("headrace.cli.agents", "List an estate's agents: CPU, tiers, what they do."),
    "analyze": ("headrace.cli.analyze", "Tell from traces where a job's time went, and why."),
    "announce": ("headrace.cli.announce", "Have a checkpoint's hot files copied beforehand."),
    "assess": ("headrace.cli.assess", "Say if storage-side transforms would help on your data."),
    "checkpoint": ("headrace.cli.checkpoint", "List checkpoints, and tell who reads what of one."),
    "controller": ("headrace.cli.controller", "Give bandwidth to the jobs that would wait."),
    "demo": ("headrace.cli.demo", "Train on one machine, without and with headrace, and compare."),
    "devhdfs": ("headrace.cli.devhdfs", "Run a real HDFS on this machine, for development."),
    "explain": ("headrace.cli.explain", "Show what each op costs and where it will run."),
    "index": ("headrace.cli.index", "List a dataset's samples and where their bytes are."),
    "inspect": ("headrace.cli.inspect", "Describe a dataset: counts, bytes, cost, what is broken."),
    "jobs": ("headrace.cli.jobs", "List an estate's jobs: health, bandwidth asked and given."),
    "leases": ("headrace.cli.leases", "List copies that are held for announced checkpoints."),
    "ledger": ("headrace.cli.ledger", "List loans of bandwidth, and why each was made or refused."),
    "replicate": ("headrace.cli.replicate", "Copy checkpoints to another root as they are saved."),
    "signal": ("headrace.cli.signal", "Make a checkpoint urgent."),
    "simulate": ("headrace.cli.simulate", "Compare policies on a simulated estate."),
    "top": ("headrace.cli.top", "Watch an estate's jobs, their health and their bandwidth."),
    "trace": ("headrace.cli.trace", "Record a program, and work on traces."),
    "workload": ("headrace.cli.workload", "Fit models to traces, and make traces of models."),
}


@click.group(cls=VerbGroup, verbs=VERBS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="headrace")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Keep the accelerators of a pre-training job fed.

    \b
    Examples:
      headrace demo --quick
      headrace index /data/images && headrace inspect /data/images
    """  # noqa: D301 - click reads the lone \b


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 bad answer, 2 bad call, 3 remote, 130 stopped."""
    _open_closed_streams()
    arguments = sys.argv[1:] if arguments is None else arguments
    sys.exit(run(arguments))


def _open_closed_streams() -> None:
    """Open what the caller closed, lest a socket or a journal take the place of an output."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - it lives on


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; errors become one line on standard error."""
    return run_command(cli, arguments, program="headrace")
