"""``headrace workload``: models of jobs, fitted to traces and made into traces again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from headrace.cli.outputs import json_option, require_writable_file, require_writable_folder
from headrace.cli.reading import keep_pandas_out, progress_bar, tell_problems
from headrace.core.errors import CallerError
from headrace.report.blocks import Table
from headrace.report.units import bytes_, counted, percent, seconds

if TYPE_CHECKING:
    from headrace.analysis.workload.model import Model, Quantity

_NO_WORD = re.compile(r"[^A-Za-z0-9_]+")
"""What a file's name has a hyphen for."""

LEAST_SHOWN = 0.005
"""Share of the variance below which it is not shown."""


@click.group()
def command() -> None:
    """Fit models to traces of jobs, and make traces of models.

    A model is a small TOML file: how long steps, loads and checkpoints take, how large what is
    read is, how hosts and steps differ. Five reference workloads come with headrace.

    \b
    Examples:
      headrace workload fit traces/ -o job.toml
      headrace workload synthesize MM-L --ranks 512 --steps 200 -o synthetic
    """  # noqa: D301 - click reads the lone \b


@command.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option("-o", "--out", metavar="MODEL", default="-", help="TOML file; else printed.")
@click.option("--job", help="Which one, where the trace has several.")
@click.option("--name", help="Of the model, instead of the job's.")
def fit(*, traces: tuple[str, ...], out: str, job: str | None, name: str | None) -> int:
    """Fit a model to TRACE, of any format that headrace reads.

    Exits with 1 if something of the trace is damaged; the model is of the rest.

    \b
    Examples:
      headrace workload fit ~/.cache/headrace/traces/my-job -o my-job.toml
      headrace workload fit profile/*.pfw.gz --job resnet --name resnet-32 -o resnet.toml
    """  # noqa: D301 - click reads the lone \b
    from headrace.analysis.workload.fitting import fit_model
    from headrace.report.toml import toml_text
    from headrace.trace.opening import open_trace

    keep_pandas_out()
    require_writable_file(out)
    readings = [open_trace(traces) for _ in range(2)]  # each notes what is damaged for itself
    trace = readings[0]
    with progress_bar("fitting", 2 * trace.nbytes) as advanced:
        fitted = fit_model(
            lambda: readings.pop().batches(advanced),
            name=name,
            source=f"{trace.format} trace",
            job=job,
        )
    for note in fitted.notes:
        click.echo(f"headrace: {note}", err=True)
    tell_problems(trace)
    _write(out, toml_text(fitted.model))
    if out != "-":
        _print_model(fitted.model)
    return 1 if trace.notes.is_partial else 0


@command.command()
@click.argument("model")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Directory for the trace, one Parquet file.",
)
@click.option("--ranks", type=click.IntRange(1, 1_000_000), help="Instead of the model's.")
@click.option("--steps", type=click.IntRange(1, 10_000_000), help="Instead of the model's.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of all randomness.")
def synthesize(*, model: str, out: Path, ranks: int | None, steps: int | None, seed: int) -> int:
    """Make a trace of MODEL, a TOML file or the name of a reference workload.

    The same seed makes the same trace.

    \b
    Examples:
      headrace workload synthesize T-S --ranks 64 -o synthetic && headrace analyze synthetic
      headrace workload synthesize job.toml --ranks 20000 --steps 100 --seed 7 -o large
    """  # noqa: D301 - click reads the lone \b
    from headrace.analysis.workload.model import find_model
    from headrace.analysis.workload.synthesis import Synthesis
    from headrace.trace.parquetfile import EventParquetWriter

    found = find_model(model)
    require_writable_folder(out)
    path = out / f"{_word(found.name)}-seed-{seed}.parquet"
    if path.exists():
        raise CallerError(f"{path} is there already; remove it, or name another directory")
    synthesis = Synthesis(found, ranks=ranks, steps=steps, seed=seed)
    with _bar("making", synthesis.steps) as advanced, EventParquetWriter(path) as writer:
        for batch in synthesis.batches(advanced):
            writer.write(batch)
        writer.commit()
    click.echo(f"{counted(writer.events, 'event')} of {counted(synthesis.ranks, 'rank')} in {path}")
    return 0


@command.command("list")
@json_option("Write the models to a file, - for stdout.")
def list_(*, json_file: str | None) -> int:
    """List the reference workloads that come with headrace.

    \b
    Examples:
      headrace workload list
      headrace workload list --json - | jq '.models[].name'
    """  # noqa: D301 - click reads the lone \b
    from headrace.analysis.workload.model import shipped_models
    from headrace.report.console import print_table
    from headrace.report.document import write_json

    models = shipped_models()
    if json_file:
        write_json(json_file, {"models": models})
    if json_file != "-":
        print_table(Console(), _listed(models))
    return 0


@command.command()
@click.argument("model")
@json_option("Write the model to a file, - for stdout.")
def show(*, model: str, json_file: str | None) -> int:
    """Show what MODEL holds, a TOML file or the name of a reference workload.

    \b
    Examples:
      headrace workload show MM-L
      headrace workload show job.toml --json -
    """  # noqa: D301 - click reads the lone \b
    from headrace.analysis.workload.model import find_model
    from headrace.report.document import write_json

    found = find_model(model)
    if json_file:
        write_json(json_file, found)
    if json_file != "-":
        _print_model(found)
    return 0


def _write(output: str, text: str) -> None:
    if output == "-":
        click.echo(text, nl=False)
        return
    from headrace.report.document import write_document

    write_document(output, text.encode())


def _word(name: str) -> str:
    """Return a name as part of a file's name."""
    return _NO_WORD.sub("-", name).strip("-") or "model"


@contextmanager
def _bar(verb: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how far it is on a terminal; yields what is called with how much is done more."""
    console = Console(stderr=True)
    columns = (
        TextColumn(verb),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.advance(task, done)


def _listed(models: Sequence[Model]) -> Table:
    columns = ("model", "ranks", "loading", "read", "save", "step", "what it is")
    rows = [
        (
            one.name,
            f"{one.ranks:,}",
            seconds(one.load.seconds.mean) if one.load else "–",
            seconds(one.checkpoint_read.seconds.mean) if one.checkpoint_read else "–",
            seconds(one.checkpoint_save.seconds.mean) if one.checkpoint_save else "–",
            seconds(one.step.mean),
            one.title,
        )
        for one in models
    ]
    note = "Means of loading a batch, reading a checkpoint, saving one, and of a step."
    return Table(title="Reference workloads", columns=columns, rows=tuple(rows), note=note)


def _print_model(model: Model) -> None:
    from headrace.report.console import print_table

    hosts = -(-model.ranks // model.ranks_per_host)
    title = f"{model.name} (ranks {model.ranks:,}, hosts {hosts:,}, steps {model.steps:,})"
    columns = ("quantity", "family", "mean", "50 %", "99 %", "by host", "by step")
    rows = tuple(_row(name, one, write) for name, one, write in _quantities(model))
    note = "By host, by step: share of the variance that ranks of a host, or all in a step, share."
    print_table(Console(), Table(title=title, columns=columns, rows=rows, note=note))


def _quantities(model: Model) -> Iterator[tuple[str, Quantity, Callable[[float], str]]]:
    from headrace.analysis.workload.model import Quantity

    yield "step", model.step, seconds
    if model.wait:
        yield "wait", model.wait, seconds
    if model.load:
        yield f"load of a {model.load.unit}", model.load.seconds, seconds
        if model.load.bytes:
            yield "· bytes", Quantity(distribution=model.load.bytes.distribution), bytes_
        for name, part in model.load.parts.items():
            yield f"· {name}", Quantity(distribution=part.distribution), seconds
    if model.requests:
        yield "request", Quantity(distribution=model.requests.seconds.distribution), seconds
        if model.requests.bytes:
            yield "· bytes", Quantity(distribution=model.requests.bytes), bytes_
    for name, transfer in model.transfers().items():
        yield name.replace("_", " "), transfer.seconds, seconds
        if transfer.bytes:
            yield "· bytes", Quantity(distribution=transfer.bytes), bytes_


def _row(name: str, quantity: Quantity, write: Callable[[float], str]) -> tuple[str, ...]:
    half, most = quantity.quantiles((0.5, 0.99))
    shared = (quantity.host_share, quantity.step_share)
    shares = (percent(share) if share >= LEAST_SHOWN else "–" for share in shared)
    family = type(quantity.distribution).__name__.lower()
    return (name, family, write(quantity.mean), write(half), write(most), *shares)
