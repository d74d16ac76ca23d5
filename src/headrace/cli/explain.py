"""``headrace explain``: what each op costs on a dataset, and where it will run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import numpy as np
from rich.console import Console

from headrace.cli.bandwidths import Bandwidth
from headrace.cli.indexplaces import index_option, load_index
from headrace.cli.outputs import json_option
from headrace.cli.pipelines import read_pipeline
from headrace.core.errors import CallerError, CorruptDataError
from headrace.core.record import Record
from headrace.dataset.index import Index
from headrace.dataset.media import KINDS
from headrace.dataset.reader import SampleReader, decode_fields
from headrace.prepare.profiles import profiles_of
from headrace.report.blocks import Table
from headrace.report.console import print_table
from headrace.report.document import write_json
from headrace.report.units import bytes_, seconds
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage
from headrace.transform import ops
from headrace.transform.explain import KindExplanation, Row, explain, measured
from headrace.transform.pipeline import Pipeline
from headrace.transform.program import Program
from headrace.transform.split import KindProfile, Premise

_DEFAULT_FRAMES = 16
_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)


@click.command()
@click.argument("url")
@click.option(
    "--pipeline",
    "pipeline_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="JSON or Python file of a pipeline; without it, the usual crop-flip-normalise.",
)
@click.option("--allow-op", "allowed", multiple=True, help="Import path that user ops may have.")
@click.option(
    "--measure", metavar="N", type=click.IntRange(1), help="Time N real samples of each kind."
)
@click.option(
    "--bandwidth", type=Bandwidth(), default="10Gbit", show_default=True, help="Storage to trainer."
)
@index_option
@json_option("Write the same as JSON to a file, - for stdout.")
def command(
    url: str,
    *,
    place: str | None,
    pipeline_file: Path | None,
    allowed: tuple[str, ...],
    measure: int | None,
    bandwidth: float,
    json_file: str | None,
) -> None:
    """Show what each op costs on the dataset at URL, and where it will run.

    \b
    Examples:
      headrace explain /data/images
      headrace explain /data/images --pipeline train.json --measure 20 --json -
    """  # noqa: D301 - click reads the lone \b
    pipeline = default_pipeline()
    if pipeline_file is not None:
        pipeline = read_pipeline(pipeline_file, allowed=allowed)
    program = Program(pipeline)
    storage = open_storage(url)
    index = load_index(url, place)
    explained = explain(program, _profiles(index), Premise(bandwidth=bandwidth))
    if measure is not None:
        explained = tuple(
            measured(program, kind, _records(storage, index, kind.kind, measure))
            for kind in explained
        )
    if json_file:
        write_json(json_file, _document(url, pipeline, explained))
    if json_file != "-":
        for kind in explained:
            print_table(Console(), _table(kind))


def _profiles(index: Index) -> tuple[KindProfile, ...]:
    if not len(index):
        raise CallerError("the dataset has no samples to explain; see `headrace inspect`")
    return tuple(sorted(profiles_of([index]), key=lambda found: -found.nbytes * found.samples))


def default_pipeline() -> Pipeline:
    """Return the pipeline that most image and clip models train with."""
    return Pipeline(
        [
            ops.DecodeImage(),
            ops.DecodeVideo(_DEFAULT_FRAMES),
            ops.DecodeText(),
            ops.RandomResizedCrop(224),
            ops.RandomHorizontalFlip(),
            ops.ToFloat(),
            ops.Normalize(_IMAGENET_MEAN, _IMAGENET_STD),
        ]
    )


def _records(storage: Storage, index: Index, kind: str, count: int) -> Iterator[Record]:
    """Yield records of a kind, spread evenly over the dataset; unreadable ones are left out."""
    reader = SampleReader(storage)
    rows = np.flatnonzero(index.kinds == KINDS.index(kind))
    for row in rows[np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int)]:
        location = index.location(int(row))
        try:
            yield decode_fields(location, reader.read_raw(location))
        except CorruptDataError as error:
            click.echo(f"headrace: {location.key} is left out: {error}", err=True)


def _table(kind: KindExplanation) -> Table:
    basis = f"measured on {kind.measured_on}" if kind.measured_on else "estimated from headers"
    place = f"storage runs ops 0 to {kind.cut - 1}" if kind.cut else "storage sends raw bytes"
    return Table(
        title=f"{kind.kind}: {kind.samples} samples, {basis}",
        columns=("op", "runs on", "CPU", "bytes in", "bytes out"),
        rows=tuple(_cells(row) for row in kind.rows),
        note=f"{place}: {seconds(kind.storage_s)} of CPU there, {seconds(kind.trainer_s)} on the "
        f"trainer, {bytes_(kind.wire_bytes)} per sample on the wire",
    )


def _cells(row: Row) -> tuple[str, ...]:
    name = f"{row.position} {row.op}"
    if row.place == "-":
        return (name, "-", "", "", "")
    cpu = "with above" if row.joined else seconds(row.cpu_s)
    return (name, row.place, cpu, bytes_(row.bytes_in), bytes_(row.bytes_out))


def _document(
    url: str, pipeline: Pipeline, explained: tuple[KindExplanation, ...]
) -> dict[str, object]:
    return {
        "url": url,
        "pipeline_digest": pipeline.digest,
        "kinds": [_as_json(kind) for kind in explained],
    }


def _as_json(kind: KindExplanation) -> dict[str, object]:
    return {
        **msgspec.to_builtins(kind),
        "storage_s": kind.storage_s,
        "trainer_s": kind.trainer_s,
        "wire_bytes": kind.wire_bytes,
    }
