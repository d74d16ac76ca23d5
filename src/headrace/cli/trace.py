"""``headrace trace``: records programs, and works on their traces."""

from __future__ import annotations

import click

from headrace.cli.trace_run import command as run_command


@click.group()
def command() -> None:
    """Record a program, and work on traces.

    \b
    Examples:
      headrace trace run -- python train.py
      headrace trace run -- torchrun --nproc-per-node 8 train.py
    """  # noqa: D301 - click reads the lone \b


command.add_command(run_command)
