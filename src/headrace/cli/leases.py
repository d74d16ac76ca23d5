"""``headrace leases``: who holds more copies of which files, and until when."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import click
from rich.console import Console
from rich.text import Text

from headrace.cli.asking import Asker, controller_options
from headrace.cli.columns import Column, heading, line, path_column, print_line, width_of
from headrace.cli.hotspots import headline
from headrace.cli.outputs import json_option
from headrace.core.errors import CallerError
from headrace.report.document import write_json
from headrace.report.printable import printable
from headrace.report.units import percent, seconds
from headrace.wire.hotspots import Hotspots, HotspotView


@click.command()
@controller_options
@click.option("--release", metavar="ID", help="End this lease: its copies are given back.")
@json_option("Write the same as JSON to a file, - for stdout.")
def command(
    *,
    controller: str | None,
    token_file: Path | None,
    ca_file: str | None,
    release: str | None,
    json_file: str | None,
) -> int:
    """List announced hotspots: how many copies are held, by whom, for how long.

    Without a controller: which `headrace announce` commands on this host hold copies, and what
    those left that were killed; that is given back at once.

    \b
    Examples:
      headrace leases --controller http://controller:7410
      headrace leases --release 5f0c1a2b
    """  # noqa: D301 - click reads the lone \b
    if not controller:
        return _of_commands(release, json_file)
    with Asker(controller, token_file, ca_file) as asker:
        if release:
            view = asker.end(f"/v1/hotspots/{quote(release, safe='')}", HotspotView)
            click.echo(headline(view), err=True)
        found = asker.get("/v1/hotspots", Hotspots)
    _tell(found, json_file)
    return 0


def _tell(found: Hotspots, json_file: str | None) -> None:
    if json_file:
        write_json(json_file, found)
    if json_file != "-":
        _print(found)


def _of_commands(release: str | None, json_file: str | None) -> int:
    """Give back what killed commands left, and show that."""
    from headrace.controller.hotspots.alone import journals, leases_folder, opened_desk
    from headrace.controller.journal import JournalInUseError

    if release:
        raise CallerError(
            "--release is for a controller's leases (--controller URL); end the command that "
            "announced, and its copies are given back"
        )
    left: list[HotspotView] = []
    is_clean, is_held, is_left = True, False, False
    for path in journals(leases_folder()):
        try:
            with opened_desk(path) as desk:
                is_left |= not desk.is_idle()
                found = desk.views().hotspots
                is_clean &= desk.give_back()
                left += [desk.view(one.id) for one in found]
        except JournalInUseError:
            is_held = True
            click.echo(f"headrace: process {path.stem} holds copies, and runs", err=True)
    if left or json_file or not (is_held or is_left):
        _tell(Hotspots(hotspots=tuple(left)), json_file)
    if is_left and json_file != "-":
        said = "all of it is given back" if is_clean else "not all could be given back; try again"
        click.echo(f"headrace: left by commands that were killed; {said}", err=True)
    return 0 if is_clean else 3


def _print(found: Hotspots) -> None:
    console = Console()
    if not found.hotspots:
        console.print("no leases")
        return
    columns = _columns(console.width)
    print_line(console, heading(columns))
    for view in found.hotspots:
        print_line(console, line(columns, view))
        console.print(Text(f"  ↳ {printable(view.reason)}", style="dim"), soft_wrap=True)


def _columns(width: int) -> list[Column[HotspotView]]:
    columns: list[Column[HotspotView]] = [
        Column(name="ID", width=8, cell=lambda view: view.id),
        Column(name="JOB", width=10, cell=lambda view: view.job or "–"),
        Column(name="RANKS", width=7, right=True, cell=lambda view: f"{view.world_size:,}"),
        Column(name="STATE", width=8, cell=lambda view: view.state),
        Column(name="READY", width=6, right=True, cell=_ready),
        Column(name="ENDS IN", width=8, right=True, cell=_left),
    ]
    return [path_column("CHECKPOINT", width - width_of(columns), lambda view: view.url), *columns]


def _ready(view: HotspotView) -> str:
    return percent(view.ready_share) if view.state in ("intended", "raising", "held") else "–"


def _left(view: HotspotView) -> str:
    return "–" if view.state in ("lowering", "gone") else seconds(max(view.expires_in_s, 0.0))
