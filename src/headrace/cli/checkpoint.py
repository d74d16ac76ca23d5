"""``headrace checkpoint``: what checkpoints there are, what one holds, and who reads what of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from headrace.checkpoint.above import open_above
from headrace.checkpoint.contents import Contents, TensorSum, contents_of, roles_of
from headrace.checkpoint.find import OnFolder, find_checkpoints, layout_of, open_checkpoint
from headrace.checkpoint.layout import Checkpoint, LayoutName
from headrace.checkpoint.loadplan import MOST_RANKS, LoadPlan, plan_load
from headrace.checkpoint.pointed import followed
from headrace.cli.checkpoint_keeping import pin_command, prune_command, unpin_command
from headrace.cli.outputs import json_option
from headrace.core.errors import NotFoundError
from headrace.report.document import write_json
from headrace.report.printable import printable
from headrace.report.units import bytes_, counted, ratio, seconds
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage

SHOWN = 10
"""Lines of one list that are printed; JSON holds all."""

_ROWS = "a tensor in one piece is read by all; others by rows, as FSDP divides them"
_WHOLE = "each process reads whole files, as the framework does"
_PREMISES: dict[LayoutName, str] = {
    "dcp": f"{_ROWS}; tensor and pipeline parallel ranks and replicas are not known",
    "megatron-dist": "the pieces of a tensor are dealt out evenly; which ranks hold replicas, "
    "and of which stage, is not known",
    "megatron-legacy": "tensor parallel ranks and stages are as many as wrote it",
    "deepspeed": "tensor parallel ranks and stages are as many as wrote it",
    "huggingface": _WHOLE,
    "safetensors": _WHOLE,
}


@click.group()
def command() -> None:
    """List checkpoints, show what one holds, and plan what a job's start reads of it.

    Known are those of torch.distributed.checkpoint (torchtitan), Megatron, DeepSpeed and
    Hugging Face, and safetensors files. Only names, headers and metadata are read, and nothing
    in them is executed.

    \b
    Examples:
      headrace checkpoint ls hdfs://nn:8020/runs/7
      headrace checkpoint plan hdfs://nn:8020/runs/7/step-1000 --world-size 1024 --hosts 128
    """  # noqa: D301 - click reads the lone \b


for _keeping in (pin_command, unpin_command, prune_command):
    command.add_command(_keeping)


@command.command("ls")
@click.argument("url")
@json_option("Write the same as JSON to a file, - for stdout.")
def list_(*, url: str, json_file: str | None) -> int:
    """List the checkpoints in and below URL, the newest last.

    Of those that are not complete it says what they lack. Exits with 1 if there are none.

    \b
    Examples:
      headrace checkpoint ls /data/runs
      headrace checkpoint ls hdfs://nn:8020/runs/7 --json - | jq '.checkpoints[-1].path'
    """  # noqa: D301 - click reads the lone \b
    with closing(open_storage(url)) as storage:
        with _progress_bar() as on_folder:
            found = find_checkpoints(storage, on_folder=on_folder)
        rows = [(one, _age_s(storage, one)) for one in found]
        place = storage.url
    if json_file:
        listed = [_facts(one) | {"age_s": age_s} for one, age_s in rows]
        write_json(json_file, {"url": place, "checkpoints": listed})
    if json_file != "-":
        _print_list(place, rows)
    return 0 if found else 1


@command.command()
@click.argument("url")
@click.option("--tensors", is_flag=True, help="List all tensors, not only the largest.")
@json_option("Write the same as JSON to a file, - for stdout; it has all tensors.")
def show(*, url: str, tensors: bool, json_file: str | None) -> int:
    """Show what the checkpoint at URL holds, or that to which a pointer there leads.

    That is files by role, tensors by type, and the largest tensors. Exits with 1 if it is not
    complete.

    \b
    Examples:
      headrace checkpoint show /data/runs/step-1000
      headrace checkpoint show hdfs://nn:8020/runs/7/step-1000 --tensors
    """  # noqa: D301 - click reads the lone \b
    with _opened(url) as (storage, checkpoint):
        pieces = layout_of(checkpoint).pieces(storage, checkpoint) if checkpoint.complete else ()
    contents = contents_of(pieces)
    if json_file:
        roles = {"roles": roles_of(checkpoint)}
        write_json(json_file, _facts(checkpoint) | roles | {"contents": contents})
    if json_file != "-":
        _print_checkpoint(checkpoint, contents, len(contents.tensors) if tensors else SHOWN)
    return 0 if checkpoint.complete else 1


@command.command()
@click.argument("url")
@click.option(
    "--world-size",
    type=click.IntRange(1, MOST_RANKS),
    required=True,
    help="Ranks that load.",
)
@click.option(
    "--hosts",
    type=click.IntRange(min=1),
    help="Hosts they are on, neighbours together; without it each rank is on a host of its own.",
)
@json_option("Write the same as JSON to a file, - for stdout; it has all ranges.")
def plan(*, url: str, world_size: int, hosts: int | None, json_file: str | None) -> int:
    """Tell what a job's start reads of the checkpoint at URL, or that to which a pointer leads.

    How much by all ranks, by each host once and by the slowest rank, and which bytes most ranks
    read. It is told from the checkpoint's own metadata; the premise is printed with it.

    \b
    Examples:
      headrace checkpoint plan /data/runs/step-1000 --world-size 64 --hosts 8
      headrace checkpoint plan hdfs://nn:8020/runs/7/step-1000 --world-size 1024 --json -
    """  # noqa: D301 - click reads the lone \b
    with _opened(url) as (storage, checkpoint):
        readings = layout_of(checkpoint).readings(storage, checkpoint, world_size)
    planned = plan_load(readings, world_size=world_size, hosts=hosts or world_size)
    if json_file:
        premise = {"premise": _PREMISES[checkpoint.layout]}
        write_json(json_file, _facts(checkpoint) | premise | {"plan": planned})
    if json_file != "-":
        _print_plan(checkpoint, planned)
    return 0


@contextmanager
def _opened(url: str) -> Iterator[tuple[Storage, Checkpoint]]:
    """Open the folder above a checkpoint, for what points to it lies there, and the checkpoint.

    A pointer is followed.
    """
    storage, name = open_above(followed(url))
    with closing(storage):
        yield storage, open_checkpoint(storage, name)


def _age_s(storage: Storage, checkpoint: Checkpoint) -> float | None:
    """Return how long ago the last of a checkpoint's files was written, by this host's clock."""
    try:
        modified_s = storage.stat(checkpoint.file_path(checkpoint.files[-1].path)).modified_s
    except NotFoundError:  # it was removed since it was listed
        return None
    return None if modified_s is None else max(0.0, time.time() - modified_s)


def _facts(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "path": checkpoint.path,
        "layout": checkpoint.layout,
        "step": checkpoint.step,
        "files": len(checkpoint.files),
        "bytes": checkpoint.nbytes,
        "complete": checkpoint.complete,
        "missing": checkpoint.missing,
    }


def _print_list(place: str, rows: Sequence[tuple[Checkpoint, float | None]]) -> None:
    if not rows:
        click.echo(f"headrace: no checkpoints in {place}", err=True)
        return
    table = _table("checkpoint", "layout", "step", "files", "bytes", "age", "state")
    for one, age_s in rows:
        table.add_row(
            _plain(one.path or one.name),
            one.layout,
            "" if one.step is None else str(one.step),
            f"{len(one.files):,}",
            bytes_(one.nbytes),
            "" if age_s is None else seconds(age_s),
            _plain(one.missing or "complete", style="yellow" if one.missing else ""),
        )
    _console().print(table)
    whole = sum(one.complete for one, _ in rows)
    total = sum(one.nbytes for one, _ in rows)
    count = counted(len(rows), "checkpoint")
    click.echo(f"{count}, {whole:,} complete, {bytes_(total)}, in {place}")


def _print_checkpoint(checkpoint: Checkpoint, contents: Contents, shown: int) -> None:
    console = _console()
    state = f"not complete: {checkpoint.missing}" if checkpoint.missing else "complete"
    console.print(
        _plain(f"{checkpoint.name} · {checkpoint.layout} · {bytes_(checkpoint.nbytes)} · {state}"),
        soft_wrap=True,
    )
    files = _table("role", "files", "bytes")
    for role in roles_of(checkpoint):
        files.add_row(role.role, f"{role.files:,}", bytes_(role.bytes))
    console.print(files)
    if contents.tensors or contents.objects:
        _print_contents(console, contents, shown)


def _print_contents(console: Console, contents: Contents, shown: int) -> None:
    shards = sum(one.shards for one in contents.tensors)
    console.print(
        f"{counted(len(contents.tensors), 'tensor')} in {counted(shards, 'piece')}, "
        f"{counted(contents.objects, 'other object')} of {bytes_(contents.object_bytes)}"
    )
    types = _table("type", "tensors", "numbers", "stored")
    for one in contents.dtypes:
        types.add_row(one.dtype, f"{one.tensors:,}", f"{one.elements:,}", bytes_(one.bytes))
    console.print(types)
    console.print(_tensors(contents.tensors[:shown]))
    _print_more(console, len(contents.tensors) - shown, "--tensors lists all")


def _tensors(tensors: Sequence[TensorSum]) -> Table:
    table = _table("tensor", "type", "shape", "pieces", "stored")
    for one in tensors:
        shape = " × ".join(map(str, one.shape)) or "scalar"
        table.add_row(
            _plain(one.name), _plain(one.dtype), shape, f"{one.shards:,}", bytes_(one.bytes)
        )
    return table


def _print_plan(checkpoint: Checkpoint, planned: LoadPlan) -> None:
    console = _console()
    who = f"{counted(planned.world_size, 'rank')} on {counted(planned.hosts, 'host')}"
    what = f"{checkpoint.name} ({checkpoint.layout}, {bytes_(checkpoint.nbytes)})"
    verb = "loads" if planned.world_size == 1 else "load"
    console.print(_plain(f"{who} {verb} {what}"), soft_wrap=True)
    if checkpoint.missing:
        console.print(_plain(f"not complete: {checkpoint.missing}"), style="yellow", soft_wrap=True)
    console.print(_totals(planned))
    console.print(
        f"rank {planned.slowest_rank:,} reads most, {bytes_(planned.slowest_rank_bytes)}; "
        f"a rank reads {bytes_(planned.mean_rank_bytes)} on average"
    )
    ranges = _table("readers", "bytes", "file", "offset", "what")
    for part in planned.ranges[:SHOWN]:
        ranges.add_row(
            f"{part.readers:,}",
            bytes_(part.length),
            _plain(part.file),
            f"{part.offset:,}",
            _plain(part.what),
        )
    console.print(ranges)
    _print_more(console, len(planned.ranges) - SHOWN, "all of them: --json")
    console.print(Text(f"premise: {_PREMISES[checkpoint.layout]}", style="dim"), soft_wrap=True)


def _totals(planned: LoadPlan) -> Table:
    table = _table("if it is read", "bytes", "× once")
    for name, read in (
        ("by each rank for itself", planned.bytes_by_ranks),
        ("by each host once", planned.bytes_once_per_host),
        ("once", planned.bytes_once),
    ):
        table.add_row(name, bytes_(read), ratio(read / max(planned.bytes_once, 1)))
    return table


def _print_more(console: Console, more: int, how: str) -> None:
    if more > 0:
        console.print(f"… and {more:,} more ({how})\n")


_NUMBER_WIDTHS = {
    "age": 6,
    "bytes": 7,
    "files": 5,
    "numbers": 15,
    "offset": 13,
    "pieces": 7,
    "readers": 7,
    "step": 4,
    "stored": 7,
    "tensors": 7,
    "× once": 6,
}
"""Least width of columns of numbers, which are aligned to the right [letters]."""

_WORD_WIDTHS = {"file": 13, "layout": 15, "role": 9, "shape": 14, "state": 12, "type": 8}
"""Least width of columns of words; those of names, which have none, give way to the others."""

_WIDE = 240
"""Letters of a line where no terminal limits them."""


def _plain(text: str, style: str = "") -> Text:
    """Return text as it is, but for letters that would drive the terminal: names are others'."""
    return Text(printable(text), style=style)


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)


def _table(*names: str) -> Table:
    """Return a table whose columns of words give way where the terminal is narrow."""
    table = Table(box=SIMPLE_HEAD)
    for name in names:
        table.add_column(
            name,
            justify="right" if name in _NUMBER_WIDTHS else "left",
            min_width=(_NUMBER_WIDTHS | _WORD_WIDTHS).get(name),
            overflow="ellipsis",
            no_wrap=name in _NUMBER_WIDTHS | _WORD_WIDTHS and name != "state",
        )
    return table


@contextmanager
def _progress_bar() -> Iterator[OnFolder]:
    console = Console(stderr=True)
    columns = (TextColumn("looking at folders"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
