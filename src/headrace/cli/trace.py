"""``headrace trace``: records programs, and works on their traces."""

from __future__ import annotations

import click

from headrace.cli.verbs import VerbGroup

VERBS = {
    "anonymize": ("headrace.cli.trace_anonymize", "Replace names in a trace, to publish it."),
    "compact": ("headrace.cli.trace_compact", "Make a folder of what headrace recorded smaller."),
    "export": ("headrace.cli.trace_export", "Write a trace for Perfetto, OpenTelemetry, Parquet."),
    "run": ("headrace.cli.trace_run", "Run a program, and record what it loads, reads and saves."),
    "show": ("headrace.cli.trace_show", "Show what is in a trace, and what is wrong with it."),
}


@click.group(cls=VerbGroup, verbs=VERBS)
def command() -> None:
    """Record a program, and work on traces.

    `headrace analyze` tells where the time went in them.

    \b
    Examples:
      headrace trace run -- python train.py
      headrace trace show ~/.cache/headrace/traces
    """  # noqa: D301 - click reads the lone \b
