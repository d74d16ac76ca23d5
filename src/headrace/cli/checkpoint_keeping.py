"""``headrace checkpoint pin``, ``unpin`` and ``prune``: which checkpoints stay, and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress

import click

from headrace.checkpoint.above import open_above
from headrace.checkpoint.find import open_checkpoint
from headrace.checkpoint.pins import LEASE_S, Pin, new_lease, new_owner, pins, put_pin, remove_pin
from headrace.checkpoint.retention import Pruned, prune
from headrace.cli.durations import Duration
from headrace.cli.outputs import json_option
from headrace.core.errors import CallerError, CorruptDataError, NotFoundError
from headrace.report.document import write_json
from headrace.report.printable import printable
from headrace.report.units import counted, seconds
from headrace.storage.opening import open_storage


@click.command("pin", short_help="Keep a checkpoint from being removed for a while.")
@click.argument("url")
@click.option("--owner", help="Whose pin it is; without it a name is made up, and printed.")
@click.option(
    "--for",
    "lease_s",
    type=Duration(),
    default=LEASE_S,
    help="How long it counts; 10m unless told.",
)
def pin_command(*, url: str, owner: str | None, lease_s: float) -> int:
    """Keep the checkpoint at URL from being removed by retention for a while.

    Prints the owner, by whose name it is removed or prolonged. A program holds a pin for as long
    as it reads with `headrace.pin(url)` instead.

    \b
    Examples:
      headrace checkpoint pin hdfs://nn:8020/runs/7/step-1000 --for 2h
      headrace checkpoint pin /data/runs/step-1000 --owner nightly-eval
    """  # noqa: D301 - click reads the lone \b
    storage, name = open_above(url)
    with closing(storage):
        with suppress(CorruptDataError):  # also one that is damaged may be worth keeping
            open_checkpoint(storage, name)
        lease = new_lease(owner or new_owner(), lease_s)
        put_pin(storage, name, lease)
    click.echo(lease.owner)
    return 0


@click.command("unpin")
@click.argument("url")
@click.option("--owner", help="Whose pin to remove.")
@click.option("--all", "everybody", is_flag=True, help="Remove the pins of all.")
def unpin_command(*, url: str, owner: str | None, everybody: bool) -> int:
    """Remove pins of the checkpoint at URL. Whoever still holds one is told and reads on.

    \b
    Examples:
      headrace checkpoint unpin /data/runs/step-1000 --owner nightly-eval
      headrace checkpoint unpin hdfs://nn:8020/runs/7/step-1000 --all
    """  # noqa: D301 - click reads the lone \b
    if (owner is None) != everybody:
        raise CallerError("name whose pin to remove with --owner, or give --all; not both")
    storage, name = open_above(url)
    with closing(storage):
        found = pins(storage, [name])
        chosen = [one for one in found if everybody or one.lease.owner == owner]
        if owner is not None and not chosen:
            raise NotFoundError(f"{owner} has no pin of {url}; {_owners(found)}")
        for one in chosen:
            remove_pin(storage, name, one.lease.owner)
    click.echo(f"removed {counted(len(chosen), 'pin')}", err=True)
    return 0


@click.command("prune", short_help="Remove all but the newest checkpoints.")
@click.argument("url")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    required=True,
    help="Newest complete checkpoints of each folder that stay.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be removed.")
@json_option("Write the same as JSON to a file, - for stdout.")
def prune_command(*, url: str, keep: int, dry_run: bool, json_file: str | None) -> int:
    """Remove all checkpoints in and below URL but the newest of each folder.

    Stay: what somebody pinned, what a pointer such as `latest` names, what has no step in its
    name, and what is not complete but newer than the newest that is. Leftovers of saves that did
    not end go once nothing was written to them for an hour.

    \b
    Examples:
      headrace checkpoint prune /data/runs --keep 3 --dry-run
      headrace checkpoint prune hdfs://nn:8020/runs/7 --keep 5
    """  # noqa: D301 - click reads the lone \b
    with closing(open_storage(url)) as storage:
        found = prune(storage, keep=keep, dry_run=dry_run)
        held = pins(storage, found.read)
    if json_file:
        write_json(json_file, found)
    if json_file != "-":
        _print(found, held, dry_run=dry_run)
    return 0


def _print(found: Pruned, held: Sequence[Pin], *, dry_run: bool) -> None:
    for path in found.removed:
        click.echo(f"{'would be removed' if dry_run else 'removed'}: {printable(path)}")
    for path in found.read:
        who = ", ".join(_shown(pin) for pin in held if pin.checkpoint == path and pin.counts)
        click.echo(printable(f"stays, for {who or 'somebody'} reads it: {path}"))
    for path in found.young:
        click.echo(f"stays, for it may still be written: {printable(path)}")
    if not (found.removed or found.read or found.young):
        click.echo("headrace: nothing to remove", err=True)


def _owners(found: tuple[Pin, ...]) -> str:
    if not found:
        return "nobody has"
    return "those who have: " + ", ".join(_shown(one) for one in found)


def _shown(pin: Pin) -> str:
    left = "" if pin.left_s is None else f" (for {seconds(max(pin.left_s, 0.0))} more)"
    return f"{pin.lease.owner}{left}"
