"""``headrace top``: a live view of an estate's jobs and their bandwidth."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.live import Live

from headrace.cli.asking import Asker, controller_options
from headrace.cli.keyboard import Keyboard
from headrace.cli.numbers import FiniteRange
from headrace.cli.outputs import json_option
from headrace.cli.topview import Screen, picture
from headrace.core.errors import CallerError, RemoteError
from headrace.report.document import write_json
from headrace.wire.estate import Estate


@click.command()
@controller_options
@click.option("--once", is_flag=True, help="Show it once and end.")
@click.option(
    "--every",
    type=FiniteRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Seconds between two looks.",
)
@json_option("Write a line of JSON per look to a file, - for stdout.")
def command(
    *,
    controller: str | None,
    token_file: Path | None,
    ca_file: str | None,
    once: bool,
    every: float,
    json_file: str | None,
) -> int:
    """Watch an estate: each job's health, why it waits, what it asks for, gets and borrows.

    The worst jobs come first. Key q ends it, as Ctrl-C does. Where standard output is no
    terminal, it is shown once. While the controller is away, the last picture stays.

    \b
    Examples:
      headrace top --controller http://controller:7410
      headrace top --once --json - | jq '.jobs[] | select(.score < 40)'
    """  # noqa: D301 - click reads the lone \b
    with Asker(controller, token_file, ca_file) as asker:
        if once and json_file:
            write_json(json_file, asker.get("/v1/estate", Estate))
        elif json_file:
            _stream(asker, every, json_file)
        elif once or not sys.stdout.isatty():
            _print_once(asker)
        else:
            _watch(asker, every)
    return 0


def _print_once(asker: Asker) -> None:
    console = Console()
    estate = asker.get("/v1/estate", Estate)
    whole = len(estate.jobs) * 2 + len(estate.agents) + len(estate.tiers) + 8
    screen = Screen(width=console.width, height=whole)
    console.print(picture(estate, screen, controller=asker.address))


def _stream(asker: Asker, every_s: float, json_file: str) -> None:
    """Write a line per look until it is interrupted; looks that failed are told and left out."""
    with ExitStack() as stack:
        try:
            file = (
                sys.stdout
                if json_file == "-"
                else stack.enter_context(Path(json_file).open("w", encoding="utf-8"))
            )
        except OSError as error:
            raise CallerError(
                f"cannot write {json_file}: {error.strerror}; name another file"
            ) from error
        estate = asker.get("/v1/estate", Estate)
        while True:
            file.write(msgspec.json.encode(estate).decode() + "\n")
            file.flush()
            time.sleep(every_s)
            estate = _looked(asker, lambda error: click.echo(f"headrace: {error}", err=True))


def _looked(asker: Asker, tell: Callable[[RemoteError], None]) -> Estate:
    """Return the estate as soon as the controller answers."""
    while True:
        try:
            return asker.get("/v1/estate", Estate)
        except RemoteError as error:
            tell(error)
            time.sleep(1.0)


def _watch(asker: Asker, every_s: float) -> None:
    console = Console()
    estate, footer = asker.get("/v1/estate", Estate), ""
    with Keyboard() as keyboard, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            screen = Screen(width=console.width, height=console.height)
            live.update(
                picture(estate, screen, controller=asker.address, footer=footer or "q quits"),
                refresh=True,
            )
            if keyboard.wait_for("q", every_s):
                return
            try:
                estate, footer = asker.get("/v1/estate", Estate), ""
            except RemoteError as error:
                footer = f"{error} (the picture is old)"
