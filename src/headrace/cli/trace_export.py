"""``headrace trace export``: a trace as a file that other tools open."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import click
import pyarrow as pa

from headrace.cli.reading import keep_pandas_out, progress_bar, require_elsewhere, tell_problems
from headrace.core.errors import CallerError
from headrace.report.units import bytes_
from headrace.trace.exportotel import export_otel
from headrace.trace.exportparquet import export_parquet
from headrace.trace.exportperfetto import export_perfetto
from headrace.trace.opening import Trace, open_trace
from headrace.trace.spanparents import Parents

READERS = {
    "otel": "a Collector's otlp_json_file receiver reads it",
    "parquet": "headrace analyze, and whatever reads Parquet",
    "perfetto": "open it at ui.perfetto.dev or chrome://tracing",
}
"""Who reads a format, by its name."""


@click.command("export")
@click.argument("traces", nargs=-1, required=True, metavar="TRACE... OUT")
@click.option(
    "--to", "format_name", type=click.Choice(sorted(READERS)), required=True, help="Of OUT."
)
def command(*, traces: tuple[str, ...], format_name: str) -> int:
    """Write a trace to the file OUT for another tool, by one clock and sorted where it is Parquet.

    TRACE is a file, a directory or a pattern of traces of headrace or of other tools. Text formats
    are compressed if OUT ends with .gz. Exits with 1 if something of the trace is damaged; the
    rest is written.

    \b
    Examples:
      headrace trace export traces/my-job trace.json.gz --to perfetto
      headrace trace export run/*.pfw.gz run.parquet --to parquet
    """  # noqa: D301 - click reads the lone \b
    keep_pandas_out()
    if len(traces) < 2:
        raise CallerError("name the trace, and the file to write: headrace trace export TRACE OUT")
    *given, target = traces
    path = Path(target)
    trace = open_trace(given)
    require_elsewhere(path, given, trace)
    passes = 2 if format_name == "otel" else 1
    with progress_bar("exporting", passes * trace.nbytes) as advanced:
        export = _exporter(format_name, trace, lambda: open_trace(given).batches(advanced))
        events = export(trace.batches(advanced), path)
    click.echo(
        f"headrace: {events:,} events, {bytes_(path.stat().st_size)}, are in {path}; "
        f"{READERS[format_name]}",
        err=True,
    )
    tell_problems(trace)
    return 1 if trace.notes.is_partial else 0


def _exporter(
    format_name: str, trace: Trace, read: Callable[[], Iterable[pa.RecordBatch]]
) -> Callable[[Iterable[pa.RecordBatch], Path], int]:
    """Return what writes a format; ``read`` gives the events once more, to look ahead."""
    if format_name == "parquet":
        return partial(export_parquet, about=trace.about)
    if format_name == "otel":
        return partial(export_otel, parents=_parents(read()))
    return export_perfetto


def _parents(batches: Iterable[pa.RecordBatch]) -> Parents:
    parents = Parents()
    for batch in batches:
        parents.add(batch)
    return parents
