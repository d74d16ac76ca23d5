"""``headrace trace show``: what is in a trace."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from headrace.cli.outputs import json_option
from headrace.cli.reading import keep_pandas_out, progress_bar
from headrace.report.blocks import Table
from headrace.report.console import print_table
from headrace.report.document import write_json
from headrace.report.printable import printable
from headrace.report.units import bytes_, seconds
from headrace.trace.contents import Contents, JobContents
from headrace.trace.importer import Notes
from headrace.trace.opening import Trace, open_trace

SHOWN = 20
"""Lines of one list that are printed; JSON holds all."""

_WIDE = 100


@click.command("show")
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@json_option("Write the same as JSON to a file, - for stdout.")
def command(*, traces: tuple[str, ...], json_file: str | None) -> int:
    """Show what is in a trace: jobs, hosts, ranks, time, kinds of events, and what is wrong.

    TRACE is a file, a directory or a pattern of traces of headrace or of other tools; several are
    taken together. Exits with 1 if something of it is damaged or was lost, and it says what.

    \b
    Examples:
      headrace trace show ~/.cache/headrace/traces
      headrace trace show run/*.pfw.gz --json - | jq '.kinds.request.events'
    """  # noqa: D301 - click reads the lone \b
    keep_pandas_out()
    trace, contents = open_trace(traces), Contents()
    with progress_bar("reading", trace.nbytes) as advanced:
        for batch in trace.batches(advanced):
            contents.add(batch)
    if json_file:
        write_json(json_file, _facts(trace, contents))
    if json_file != "-":
        _print(trace, contents)
    return 1 if trace.notes.is_partial else 0


def _facts(trace: Trace, contents: Contents) -> dict[str, Any]:
    notes = trace.notes
    return {
        "format": trace.format,
        "files": len(trace.sources),
        "file_bytes": trace.file_bytes,
        "events": contents.events,
        "jobs": {
            name or "-": {
                "events": job.events,
                "hosts": sorted(job.hosts),
                "ranks": sorted(job.ranks),
                "begin_ns": job.begin_ns,
                "end_ns": job.end_ns,
                "span_s": job.span_s,
            }
            for name, job in sorted(contents.jobs.items())
        },
        "kinds": dict(sorted(contents.kinds.items())),
        "clocks": {
            host: {
                "ahead_s": offset.ns / 1e9,
                "drift_s_per_s": offset.drift,
                "uncertainty_s": offset.uncertainty_ns / 1e9,
                "corrected": offset.is_significant,
            }
            for host, offset in trace.clocks().offsets.items()
        },
        "relative_times": notes.is_relative,
        "unknown": notes.unknown,
        "lost_events": notes.lost_events,
        "problems": notes.problems,
        "further_problems": notes.further_problems,
        "left_out": notes.left_out,
        "further_left_out": notes.further_left_out,
    }


def _print(trace: Trace, contents: Contents) -> None:
    console = Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)
    files = f"{len(trace.sources):,} file{'s' if len(trace.sources) > 1 else ''}"
    size = bytes_(trace.file_bytes)
    said = f"{trace.format} · {files} of {size} · {contents.events:,} events"
    console.print(Text(printable(said), style="bold"), soft_wrap=True)
    tables = [_jobs(trace, contents), _kinds(contents)]
    if trace.clocks().offsets:
        tables.append(_clocks(trace))
    for table in tables:
        console.print()
        print_table(console, table)
    for title, lines, further in _remarks(trace.notes):
        _print_list(console, title, lines, further)


def _jobs(trace: Trace, contents: Contents) -> Table:
    rows = [
        (
            name or "(none named)",
            "" if trace.notes.is_relative else _date(job),
            seconds(job.span_s),
            f"{len(job.hosts):,}" if job.hosts else "?",
            f"{len(job.ranks):,}" if job.ranks else "?",
            f"{job.events:,}",
        )
        for name, job in sorted(contents.jobs.items())[:SHOWN]
    ]
    more = len(contents.jobs) - SHOWN
    return Table(
        title="Jobs",
        columns=("job", "began (UTC)", "span", "hosts", "ranks", "events"),
        rows=tuple(rows),
        note=f"and {more:,} more (all of them: --json)" if more > 0 else "",
    )


def _date(job: JobContents) -> str:
    if job.begin_ns is None:
        return ""
    return f"{datetime.fromtimestamp(job.begin_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S}"


def _kinds(contents: Contents) -> Table:
    kinds = sorted(contents.kinds.items(), key=lambda one: -one[1].events)
    return Table(
        title="Kinds of events",
        columns=("kind", "events", "time, summed", "bytes"),
        rows=tuple(
            (
                name,
                f"{kind.events:,}",
                "?" if kind.seconds is None else seconds(kind.seconds),
                "?" if kind.bytes is None else bytes_(kind.bytes),
            )
            for name, kind in kinds[:SHOWN]
        ),
        note="events of one kind may overlap; ? is not told by the trace",
    )


def _clocks(trace: Trace) -> Table:
    offsets = trace.clocks().offsets
    return Table(
        title="Clocks",
        columns=("host", "ahead", "give or take", "corrected"),
        rows=tuple(
            (
                host,
                f"{'-' if offset.ns < 0 else ''}{seconds(abs(offset.ns) / 1e9)}",
                seconds(offset.uncertainty_ns / 1e9),
                "yes" if offset.is_significant else "no",
            )
            for host, offset in list(offsets.items())[:SHOWN]
        ),
        note="of the host that the others are compared with; less than it is uncertain by is left",
    )


def _remarks(notes: Notes) -> Iterator[tuple[str, Sequence[str], int]]:
    unknown = [f"{name}: {why}" for name, why in notes.unknown.items()]
    if notes.is_relative:
        unknown.append("begin: times count from an arbitrary moment, spans over files mean nothing")
    yield "what the trace cannot tell", unknown, 0
    lost = [f"{notes.lost_events:,} events: no room on disk, or no time to write them"]
    yield "lost when it was recorded", lost if notes.lost_events else [], 0
    yield "damaged", notes.problems, notes.further_problems
    yield "no traces, left out", notes.left_out, notes.further_left_out


def _print_list(console: Console, title: str, lines: Sequence[str], further: int) -> None:
    if not lines:
        return
    console.print(f"\n{title}", style="bold")
    for line in lines:
        console.print(Text(printable(line)), soft_wrap=True)
    if further:
        console.print(f"… and {further:,} more")
