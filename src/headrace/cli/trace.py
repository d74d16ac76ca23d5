"""``headrace trace``: records programs, and works on their traces."""

from __future__ import annotations

import click

from headrace.cli.trace_anonymize import command as anonymize_command
from headrace.cli.trace_compact import command as compact_command
from headrace.cli.trace_export import command as export_command
from headrace.cli.trace_run import command as run_command
from headrace.cli.trace_show import command as show_command


@click.group()
def command() -> None:
    """Record a program, and work on traces.

    `headrace analyze` tells where the time went in them.

    \b
    Examples:
      headrace trace run -- python train.py
      headrace trace show ~/.cache/headrace/traces
    """  # noqa: D301 - click reads the lone \b


for _one in (anonymize_command, compact_command, export_command, run_command, show_command):
    command.add_command(_one)
