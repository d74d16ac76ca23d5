"""``headrace analyze``: where a job's time went, from traces of any known format."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable

import click
from rich.console import Console
from rich.text import Text

from headrace.analysis.analyser import Analyser
from headrace.analysis.figures import Analysis
from headrace.analysis.overview import blocks, first_line
from headrace.analysis.warmup import WarmUp
from headrace.cli.numbers import FiniteRange
from headrace.cli.outputs import json_option, require_writable_file
from headrace.cli.reading import keep_pandas_out, progress_bar
from headrace.core.errors import CallerError
from headrace.report.blocks import Table
from headrace.report.console import print_facts, print_table
from headrace.report.document import write_document, write_json
from headrace.report.printable import printable
from headrace.trace.opening import Trace, open_trace

_WIDE = 100
"""Letters of a line where no terminal limits them."""


@click.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option("--job", help="Analyse this job alone.")
@click.option(
    "--skip",
    type=click.IntRange(min=0),
    default=0,
    metavar="STEPS",
    help="Leave out so many first steps of each rank, as warm-up; reads the trace twice.",
)
@click.option(
    "--price",
    type=FiniteRange(min=0),
    help="Of one accelerator for an hour, in any currency: says what idle time cost.",
)
@click.option("--html", "html_file", metavar="FILE", help="Write a page with drawings.")
@json_option("Write all figures as JSON to a file, - for stdout.")
def command(
    *,
    traces: tuple[str, ...],
    job: str | None,
    skip: int,
    price: float | None,
    html_file: str | None,
    json_file: str | None,
) -> int:
    """Tell where a job's time went, and why.

    TRACE is a file, a directory or a pattern of traces of headrace or of other tools; several are
    taken together. The most important comes first. What a format cannot tell is said, not
    guessed. Where the trace is damaged, figures are of a part; that is said in the first line, and
    the command exits with 1.

    \b
    Examples:
      headrace analyze ~/.cache/headrace/traces/my-job --html report.html
      headrace analyze run/*.pfw.gz --skip 5 --price 2.50 --json - | jq '.findings[].cause'
    """  # noqa: D301 - click reads the lone \b
    keep_pandas_out()
    if html_file:
        _require_drawings(html_file)
    trace = open_trace(traces)
    with progress_bar("analysing", trace.nbytes * (2 if skip else 1)) as advanced:
        warm_up = _warm_up(open_trace(traces), skip, advanced) if skip else None
        analyser = Analyser(job=job, warm_up=warm_up, price_per_hour=price)
        for batch in trace.batches(advanced):
            analyser.add(batch)
    analysis = analyser.result(format_name=trace.format, notes=trace.notes)
    if json_file:
        write_json(json_file, analysis)
    if html_file:
        _write_page(html_file, analysis)
    if json_file != "-":
        _print(analysis, html_file)
    return 1 if analysis.is_partial else 0


def _require_drawings(html_file: str) -> None:
    """Refuse what would only be found wrong when the trace has been read."""
    if html_file == "-":
        raise CallerError("--html writes a page for a browser; name a file")
    require_writable_file(html_file)
    if importlib.util.find_spec("matplotlib") is None:
        raise CallerError("--html needs matplotlib; run pip install 'headrace[demo]'")


def _warm_up(trace: Trace, steps: int, advanced: Callable[[int], None]) -> WarmUp:
    warm_up = WarmUp(steps)
    for batch in trace.batches(advanced):
        warm_up.add(batch)
    return warm_up


def _print(analysis: Analysis, html_file: str | None) -> None:
    console = Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)
    style = "bold yellow" if analysis.is_partial else "bold"
    console.print(Text(printable(first_line(analysis)), style=style), soft_wrap=True)
    console.print()
    for block in blocks(analysis):
        if isinstance(block, Table):
            print_table(console, block)
        else:
            print_facts(console, block)
        console.print()
    if html_file:
        console.print(Text(f"page: {printable(html_file)}"), soft_wrap=True)


def _write_page(html_file: str, analysis: Analysis) -> None:
    from headrace.analysis.page import analysis_page
    from headrace.report.html import render_page
    from headrace.report.provenance import provenance

    page = render_page(analysis_page(analysis, provenance()))
    write_document(html_file, page.encode())
