"""``headrace index``: lists a dataset's samples and where their bytes are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from headrace.cli.fileproblems import problem_lines
from headrace.cli.outputs import json_option, require_writable_folder
from headrace.core.errors import CorruptDataError, NotFoundError
from headrace.dataset.build import BuildProgress, OnProgress, build_index
from headrace.dataset.describe import Description, describe
from headrace.dataset.index import DEFAULT_PATH, Index
from headrace.dataset.scan import ScanOptions
from headrace.dataset.side import SideFiles
from headrace.dataset.splits import splits_complaint
from headrace.report.document import write_json
from headrace.report.printable import printable
from headrace.report.units import bytes_, counted, seconds
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage


@click.command()
@click.argument("url")
@click.option("--out", metavar="FOLDER", help="Put the index there, not below URL.")
@click.option("--text-field", default="text", show_default=True, help="JSON key or column of text.")
@click.option("--window", type=int, help="Tokens of a sample of Megatron's files: sequence + 1.")
@click.option("--document-seed", type=int, help="Cut windows in Megatron's order of this seed.")
@click.option("--workers", default=8, show_default=True, help="Files read at the same time.")
@click.option("--full", is_flag=True, help="Scan every file, also those that did not change.")
@json_option("Write the summary as JSON to a file, - for stdout.")
def command(
    url: str,
    *,
    out: str | None,
    text_field: str,
    window: int | None,
    document_seed: int | None,
    workers: int,
    full: bool,
    json_file: str | None,
) -> int:
    """List the samples of the dataset at URL, and where their bytes are.

    Folders of images, videos and sounds (class folders become labels, captions beside them
    texts), WebDataset shards, Parquet and Arrow files, datasets that Hugging Face's library
    saved, JSON lines (also .gz and .zst), shards of MosaicML Streaming, Megatron's .bin with
    .idx and TFRecord files (also .gz) are understood, and mixed as they come.
    Files that did not change since the last time are not read again. What is broken is
    listed by `headrace inspect`.

    \b
    Examples:
      headrace index /data/images
      headrace index /mnt/readonly/c4 --out ~/indexes/c4 --text-field content
    """  # noqa: D301 - click reads the lone \b
    begin = time.perf_counter()
    storage = open_storage(url)
    beside = storage if out is None else _opened(out)
    previous = None if full else _previous(beside)
    options = ScanOptions(
        text_field=text_field, window=window, document_seed=document_seed, workers=workers
    )
    with _progress_bar() as on_progress:
        index = build_index(
            storage,
            options=options,
            previous=previous,
            side=SideFiles(beside),
            on_progress=on_progress,
        )
    index.save(beside)
    _report(describe(index), f"{beside.url}/{DEFAULT_PATH}", time.perf_counter() - begin, json_file)
    if odd := splits_complaint(storage.url, index.classes):
        click.echo(f"headrace: {printable(odd)}", err=True)
    return 0 if len(index) else 1


def _opened(out: str) -> Storage:
    """Open the folder for an index; one of this host is made."""
    if "://" not in out and not out.startswith("file:"):
        folder = Path(out).expanduser()
        require_writable_folder(folder)
        folder.mkdir(parents=True, exist_ok=True)
    return open_storage(out)


def _previous(place: Storage) -> Index | None:
    try:
        return Index.load(place)
    except NotFoundError:
        return None
    except CorruptDataError as error:
        click.echo(f"headrace: scanning everything: {error}", err=True)
        return None


@contextmanager
def _progress_bar() -> Iterator[OnProgress]:
    console = Console(stderr=True)
    columns = (
        TextColumn("indexing"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files, {task.fields[samples]} new samples"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, samples=0)

        def show(progress: BuildProgress) -> None:
            bar.update(
                task,
                total=progress.files_total,
                completed=progress.files_done,
                samples=progress.samples,
            )

        yield show


def _report(description: Description, place: str, took_s: float, json_file: str | None) -> None:
    broken = sum(group.broken for group in description.groups)
    if json_file:
        write_json(
            json_file,
            {
                "index": place,
                "digest": description.digest,
                "samples": description.samples,
                "files": description.files,
                "file_bytes": description.file_bytes,
                "broken_samples": broken,
                "problem_files": len(description.problems),
                "took_s": took_s,
            },
        )
    if json_file == "-":
        return
    click.echo(
        f"{counted(description.samples, 'sample')} in {counted(description.files, 'file')}, "
        f"{bytes_(description.file_bytes)}, digest {description.digest}, "
        f"indexed in {seconds(took_s)}: {printable(place)}"
    )
    table = Table(box=SIMPLE_HEAD)
    for name in ("kind", "in", "samples", "bytes", "CPU to decode", "broken"):
        table.add_column(name, justify="left" if name in ("kind", "in") else "right")
    for group in description.groups:
        table.add_row(
            group.kind,
            group.container,
            f"{group.samples:,}",
            bytes_(group.size_bytes.total),
            seconds(group.cost_s.total),
            f"{group.broken:,}" if group.broken else "",
        )
    Console().print(table)
    if broken:
        click.echo(
            f"headrace: {counted(broken, 'sample')} broken; `headrace inspect` says why", err=True
        )
    for line in problem_lines(description.problems):
        click.echo(f"headrace: {line}", err=True)
