"""``headrace announce``: says that a checkpoint is about to be read by many."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.asking import Asker, controller_options
from headrace.cli.durations import Duration
from headrace.cli.hotspots import Progress, show
from headrace.cli.outputs import json_option
from headrace.core.errors import CallerError, HeadraceError, StorageError
from headrace.report.document import write_json
from headrace.wire.hotspots import HotspotAsked, HotspotView, absolute_url

if TYPE_CHECKING:
    from headrace.controller.hotspots.desk import HotspotDesk

_POLL_S = 0.25

_PLAN_S = 120.0
"""Longest wait for a controller that reads a checkpoint to plan [s]."""

_PLANNED_S = 10.0
"""Longest wait for what a controller decides, where its copies are not waited for [s]."""

_WAITING = ("planning", "intended", "raising")
_RAISED = ("raising", "held", "lowering")
_BAD = ("failed", "gone", "lowering")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Given:
    """The options, as parsed."""

    checkpoint: str
    world_size: int
    hosts: int | None
    file: tuple[str, ...]
    job: str
    eta: float
    lease: float
    dry_run: bool
    wait: bool
    json_file: str | None
    controller: str | None
    token_file: Path | None
    ca_file: str | None

    @property
    def asked(self) -> HotspotAsked:
        """The announcement."""
        return HotspotAsked(
            url=absolute_url(self.checkpoint),
            world_size=self.world_size,
            hosts=self.hosts,
            files=self.file,
            job=self.job,
            eta_s=self.eta,
            lease_s=self.lease,
        )


@click.command()
@click.argument("checkpoint")
@click.option("--world-size", type=click.IntRange(min=1), required=True, help="Ranks that read.")
@click.option(
    "--hosts",
    type=click.IntRange(min=1),
    help="Hosts they run on, where each host reads what its ranks share once.",
)
@click.option(
    "--file",
    multiple=True,
    help="A file, relative to CHECKPOINT, that every rank reads whole; repeatable. Without it "
    "the checkpoint's own metadata tells what is hot.",
)
@click.option("--job", default="", help="Whose announcement it is, for people.")
@click.option(
    "--eta", type=Duration(), default="10s", show_default=True, help="Time until they read."
)
@click.option(
    "--lease",
    type=Duration(),
    default="15m",
    show_default=True,
    help="Copies are given back after this time.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done, and why.")
@click.option("--wait", is_flag=True, help="End when all copies are there.")
@controller_options
@json_option("Write what came of it as JSON to a file, - for stdout.")
def command(**given: Any) -> int:
    """Have a checkpoint's hot files copied before many ranks read them.

    With a controller the copies are its business from then on, until the lease ends or is
    released. Without one this command makes them, holds them while it runs, and gives them back
    at its end; what a killed one left, `headrace leases` gives back.

    \b
    Examples:
      headrace announce hdfs://nn:8020/ckpt/step-5000 --world-size 1024 --hosts 128 --eta 30s --wait
      headrace announce hdfs://nn:8020/ckpt/step-5000 --world-size 1024 --dry-run
    """  # noqa: D301 - click reads the lone \b
    options = _Given(**given)
    return _by_controller(options) if options.controller else _alone(options)


def _by_controller(options: _Given) -> int:
    path = "/v1/hotspots"
    with Asker(
        options.controller, options.token_file, options.ca_file, patience_s=_PLAN_S
    ) as asker:
        dry = "?dry_run=true" if options.dry_run else ""
        view = asker.ask("POST", f"{path}{dry}", HotspotView, options.asked)
        if not options.dry_run:
            view = _followed(asker, view.id, options)
    return _told(view, options)


def _followed(asker: Asker, name: str, options: _Given) -> HotspotView:
    """Wait until the controller has decided, or with ``--wait`` until all copies are there."""

    def look() -> HotspotView:
        return asker.get(f"/v1/hotspots/{name}", HotspotView)

    try:
        return _ready(look) if options.wait else _planned(look)
    except KeyboardInterrupt:
        click.echo(
            f"headrace: the controller goes on with it; `headrace leases --release {name}` ends it",
            err=True,
        )
        raise


def _planned(look: Callable[[], HotspotView]) -> HotspotView:
    until = time.monotonic() + _PLANNED_S
    while (view := look()).state == "planning" and time.monotonic() < until:
        time.sleep(_POLL_S)
    return view


def _alone(options: _Given) -> int:
    from headrace.controller.hotspots.alone import leases_folder, opened_desk, own_journal

    if options.wait:
        raise CallerError(
            "--wait ends when the copies are there, and without a controller they are given back "
            "at the end of this command; leave it out, or give --controller"
        )
    with opened_desk(own_journal(leases_folder())) as desk:
        if options.dry_run:
            return _told(desk.plan(options.asked), options)
        with _interruptible():
            try:
                return _held(desk, options)
            finally:
                _give_back(desk)


def _held(desk: HotspotDesk, options: _Given) -> int:
    """Hold the copies until the lease ends; where none are worth making, there is nothing to."""
    name = desk.announce(options.asked).id

    def look() -> HotspotView:
        desk.tick()
        return desk.view(name)

    view = _ready(look)
    code = _told(view, options)
    while view.state not in (*_BAD, "skipped"):
        time.sleep(_POLL_S)
        view = look()
    return code


def _give_back(desk: HotspotDesk) -> None:
    is_raised = any(one.state in _RAISED for one in desk.views().hotspots)
    if not desk.give_back():
        raise StorageError(
            "copies could not be given back for now; run `headrace leases` when the store "
            "answers again"
        )
    if is_raised:
        click.echo("headrace: all copies are given back", err=True)


def _ready(look: Callable[[], HotspotView]) -> HotspotView:
    """Wait until all copies are there, none are to come, or the lease ends."""
    progress = Progress()
    while True:
        view = look()
        progress.tell(view)
        if view.state not in _WAITING:
            return view
        time.sleep(_POLL_S)


def _told(view: HotspotView, options: _Given) -> int:
    if view.state == "failed":
        raise HeadraceError(view.reason)
    if options.json_file:
        write_json(options.json_file, view)
    if options.json_file != "-":
        show(view)
    if not view.kept:
        click.echo(
            "headrace: the controller keeps no journal: should it be killed, copies stay", err=True
        )
    return 1 if view.state in _BAD else 0


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does: copies are to be given back."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = [
        (number, signal.signal(number, interrupt)) for number in (signal.SIGTERM, signal.SIGHUP)
    ]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
