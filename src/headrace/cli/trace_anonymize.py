"""``headrace trace anonymize``: a trace that can be given away."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.cli.reading import keep_pandas_out, progress_bar, require_elsewhere, tell_problems
from headrace.trace.anonymise import Anonymiser, anonymise, new_key, read_key
from headrace.trace.opening import open_trace


@click.command("anonymize")
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Parquet file to write.",
)
@click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Key of 16 bytes or more: traces under one key fit together.  [default: a new one]",
)
@click.option("--bucket-sizes", is_flag=True, help="Round sizes to powers of two.")
def command(
    *, traces: tuple[str, ...], out: Path, key_file: Path | None, bucket_sizes: bool
) -> int:
    """Write TRACE, of any format, without anything that names someone or something.

    Names of jobs, hosts, files, samples and functions become keyed hashes, times are moved,
    what is not known to be harmless is left out. Then the file is searched for words of the
    names; if there is one, the command fails and leaves no file. docs/anonymise.md says what
    can still be learned from it. Exits with 1 if something of the trace is damaged; the rest is
    written.

    \b
    Examples:
      headrace trace anonymize traces/run7 -o shared.parquet
      headrace trace anonymize profile/*.pfw.gz -o a.parquet --key-file key --bucket-sizes
    """  # noqa: D301 - click reads the lone \b
    keep_pandas_out()
    key = read_key(key_file) if key_file else new_key()
    trace = open_trace(traces)
    require_elsewhere(out, traces, trace)
    anonymiser = Anonymiser(key, bucket_sizes=bucket_sizes)
    with progress_bar("anonymising", trace.nbytes) as advanced:
        events = anonymise(trace, out, anonymiser, advanced)
    click.echo(f"headrace: {events:,} events, none with a word of a name, are in {out}", err=True)
    tell_problems(trace)
    return 1 if trace.notes.is_partial else 0
