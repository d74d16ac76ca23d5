"""``headrace replicate``: copies checkpoints to another root, as they are saved."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from headrace.cli.asking import Asker, controller_options
from headrace.cli.durations import Duration
from headrace.cli.outputs import json_option
from headrace.cli.replications import Progress, show, show_all
from headrace.cli.running import INTERRUPTED
from headrace.cli.sizes import ByteSize
from headrace.core.digest import name_digest
from headrace.core.errors import CallerError, StorageError
from headrace.report.document import write_json
from headrace.wire.hotspots import absolute_url
from headrace.wire.replication import Replications, ReplicationView, ReplicationWanted

if TYPE_CHECKING:
    from headrace.controller.replicating.replicating import Replicating

_POLL_S = 0.5

Look = Callable[[], ReplicationView]


class Period(click.ParamType[float | int]):
    """A time with its unit, or a number of steps."""

    name = "time|steps"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | int:
        """Return a number of steps as an int, a time as a float [s]."""
        text = str(value).strip()
        if text.isdigit():
            return int(text)
        try:
            return float(Duration().convert(text, param, ctx))
        except click.BadParameter:
            self.fail(
                f"{value!r} is neither a time (90s, 15m, 2h, 1d) nor a number of steps", param, ctx
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """The options, as parsed."""

    source: str | None
    destination: str | None
    list_all: bool
    once: bool
    keep: int | None
    replace: bool
    budget: int | None
    every: float | None
    eval_every: float | int | None
    name: str | None
    end: bool
    dry_run: bool
    json_file: str | None
    controller: str | None
    token_file: Path | None
    ca_file: str | None

    @property
    def wanted(self) -> ReplicationWanted:
        """What is to be done."""
        if self.source is None or self.destination is None:
            raise CallerError(
                "name both roots, as in headrace replicate SOURCE DESTINATION (--list shows a "
                "controller's replications)"
            )
        steps = self.eval_every if isinstance(self.eval_every, int) else None
        return ReplicationWanted(
            source=absolute_url(self.source),
            destination=absolute_url(self.destination),
            once=self.once,
            keep=self.keep,
            replace=self.replace,
            save_every_s=self.every,
            evaluate_every_s=self.eval_every if isinstance(self.eval_every, float) else None,
            evaluate_every_steps=steps,
        )

    @property
    def called(self) -> str:
        """Name of the replication: of the two roots, unless one was given."""
        if self.name is not None:
            return self.name
        wanted = self.wanted
        digest = name_digest(wanted.source.encode(), wanted.destination.encode())
        return f"replication-{digest[:8]}"


@click.command()
@click.argument("source", required=False)
@click.argument("destination", required=False)
@click.option("--list", "list_all", is_flag=True, help="Show all that a controller does.")
@click.option("--once", is_flag=True, help="Copy what is complete now, and end.")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    help="Newest checkpoints that stay at DESTINATION; those that are pinned stay as well.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Replace what DESTINATION has under the name of another checkpoint, once nobody reads it.",
)
@click.option(
    "--budget", type=ByteSize(), help="Most bytes that are moved in any second, such as 50MB."
)
@click.option("--every", type=Duration(), help="Time between saves; else it is learned.")
@click.option(
    "--eval-every",
    type=Period(),
    help="Time between evaluations (15m), else it is learned; or steps between them (1000): only "
    "checkpoints of such steps are copied.",
)
@click.option("--name", help="What a controller calls it; a name of the two roots unless given.")
@click.option("--end", is_flag=True, help="End it at the controller; what is published stays.")
@click.option("--dry-run", is_flag=True, help="Only say what would be copied.")
@controller_options
@json_option("Write what came of it as JSON to a file, - for stdout.")
def command(**given: Any) -> int:
    """Copy checkpoints from SOURCE to DESTINATION as they are saved, or once.

    They appear there complete and verified, or not at all. With a controller it is the
    controller's business from then on, and this command only shows it: Ctrl-C leaves it going.
    Without one this command copies by itself until Ctrl-C, and goes on where it was when it is
    called again.

    \b
    Examples:
      headrace replicate hdfs://train:8020/ckpt hdfs://eval:8020/ckpt --budget 500MB --keep 3
      headrace replicate /checkpoints /mnt/evaluation --once --json -
      headrace replicate --list --controller http://controller:7410
    """  # noqa: D301 - click reads the lone \b
    options = Given(**given)
    if options.list_all:
        return _list(options)
    if options.dry_run:
        return _dry_run(options)
    return _by_controller(options) if options.controller else _alone(options)


def _list(options: Given) -> int:
    if options.source is not None:
        raise CallerError("--list shows all of a controller's replications; leave the roots out")
    with Asker(options.controller, options.token_file, options.ca_file) as asker:
        found = asker.get("/v1/replications", Replications)
    if options.json_file:
        write_json(options.json_file, found)
    if options.json_file != "-":
        show_all(found.replications)
    return 0


def _by_controller(options: Given) -> int:
    if options.budget is not None:
        raise CallerError(
            "a controller's replications share one budget; give it --copy-budget where the "
            "controller is started, and leave --budget out"
        )
    path = f"/v1/replications/{quote(options.called, safe='')}"
    with Asker(options.controller, options.token_file, options.ca_file, patience_s=60.0) as asker:
        if options.end:
            return _told(asker.end(path, ReplicationView), options)
        asker.ask("PUT", path, ReplicationView, options.wanted)
        view, stopped = _followed(lambda: asker.get(path, ReplicationView))
        if view.over:
            asker.ask("DELETE", path, ReplicationView)
    return _told(view, options, stopped=stopped)


def _alone(options: Given) -> int:
    if options.end:
        raise CallerError("--end ends a controller's replication; give --controller")
    with _running(options) as running:
        running.begin(options.called, options.wanted)
        view, stopped = _followed(lambda: running.view(options.called))
    return _told(view, options, stopped=stopped)


def _dry_run(options: Given) -> int:
    from headrace.controller.replicating.trial import tried

    return _told(tried(options.called, options.wanted), options)


@contextmanager
def _running(options: Given) -> Iterator[Replicating]:
    from headrace.controller.controllerlog import open_controller_log
    from headrace.controller.journal import Journal
    from headrace.controller.replicating.replicating import Replicating, ReplicatingConfig

    with closing(Journal(None)) as journal, closing(open_controller_log("replicate")) as log:
        config = ReplicatingConfig(bytes_per_s=options.budget)
        with closing(Replicating(config, journal, log=log)) as running:
            yield running


def _followed(look: Look) -> tuple[ReplicationView, bool]:
    """Show how far it is until it is over; return how it is then, and whether it was stopped."""
    progress = Progress()
    with _stopping() as stopped:
        while True:
            is_stopped = stopped.wait(_POLL_S)
            view = look()
            progress.tell(view, time.monotonic())
            if view.over or is_stopped:
                progress.end()
                return view, is_stopped


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """Let Ctrl-C and SIGTERM set what is yielded: what was copied is shown before the end."""
    stopped = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [(number, signal.signal(number, lambda *_: stopped.set())) for number in numbers]
    try:
        yield stopped
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _told(view: ReplicationView, options: Given, *, stopped: bool = False) -> int:
    if options.json_file:
        write_json(options.json_file, view)
    if options.json_file != "-":
        show(view)
    if stopped:
        click.echo(f"headrace: {_after_stop(options)}", err=True)
        return INTERRUPTED
    if view.down and options.once:
        raise StorageError(view.down)
    failed = any(copy.state == "given-up" for copy in view.checkpoints)
    return 1 if options.once and failed else 0


def _after_stop(options: Given) -> str:
    if options.controller is None:
        return "stopped; call it again to go on where it was"
    return f"the controller goes on with {options.called}; the same with --end ends it"
