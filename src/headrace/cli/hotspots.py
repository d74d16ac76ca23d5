"""How announcements are shown."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import click
from rich.console import Console
from rich.text import Text

from headrace.cli.columns import Column, heading, line, path_column, print_line, width_of
from headrace.report.printable import printable
from headrace.report.units import bytes_, percent, seconds
from headrace.wire.hotspots import HotspotFile, HotspotView

MOST_FILES = 20
"""Files that are shown; ``--json`` tells all."""


def show(view: HotspotView) -> None:
    """Print one announcement with its files."""
    console = Console()
    console.print(Text(headline(view)), soft_wrap=True)
    if not view.files:
        return
    columns = _columns(console.width, view.url)
    print_line(console, heading(columns))
    for file in view.files[:MOST_FILES]:
        print_line(console, line(columns, file))
        console.print(Text(f"  ↳ {_why(file)}", style="dim"), soft_wrap=True)
    if len(view.files) > MOST_FILES:
        console.print(f"… and {len(view.files) - MOST_FILES} more (--json tells all)")


def headline(view: HotspotView) -> str:
    """Return how an announcement is, in one line."""
    named = f"{view.id} {printable(view.url)}"
    if view.state in ("planning", "gone", "failed", "lowering"):
        return f"{named}: {view.state}, {view.reason}"
    return f"{named}: {view.state}, {progress(view)}; {view.reason}"


def progress(view: HotspotView) -> str:
    """Return how far the copies are."""
    if view.state == "skipped":
        return "nothing to wait for"
    is_estimated = view.ready_in_s is not None and view.ready_share < 1
    left = f", all in {seconds(view.ready_in_s or 0.0)}" if is_estimated else ""
    return f"{percent(view.ready_share)} ready{left}"


class Progress:
    """Tells on standard error how far an announcement is, when there is something new to tell."""

    def __init__(self) -> None:
        self._told: tuple[str, int, str] | None = None

    def tell(self, view: HotspotView) -> None:
        """Print a line if the state or its reason changed, or a tenth more is ready."""
        now = (view.state, int(view.ready_share * 10), view.reason)
        if now != self._told:
            click.echo(f"headrace: {headline(view)}", err=True)
            self._told = now


def _columns(width: int, url: str) -> list[Column[HotspotFile]]:
    columns: list[Column[HotspotFile]] = [
        Column(name="SIZE", width=8, right=True, cell=lambda file: bytes_(file.nbytes)),
        Column(name="HOT", width=8, right=True, cell=lambda file: bytes_(file.hot_bytes)),
        Column(name="READERS", width=8, right=True, cell=lambda file: f"{file.readers:,}"),
        Column(name="COPIES", width=8, right=True, cell=_copies),
        Column(name="LIVE", width=5, right=True, cell=lambda file: str(file.live)),
        Column(name="STATE", width=9, cell=lambda file: file.state),
    ]
    room = width - width_of(columns)
    return [path_column("FILE", room, lambda file: _in_folder(file.path, url)), *columns]


def _in_folder(path: str, url: str) -> str:
    """Return a file's path in the folder that was announced, else from the store's root."""
    folder = url if url.startswith("/") else unquote(urlsplit(url).path)
    inside = path.removeprefix(f"{folder.strip('/')}/")
    return inside if inside != path else f"/{path}"


def _copies(file: HotspotFile) -> str:
    return f"{file.original} → {file.wanted}" if file.wanted > file.original else str(file.original)


def _why(file: HotspotFile) -> str:
    saved = f"; saves {seconds(file.saved_s)} of loading" if file.saved_s > 0 else ""
    return printable(f"{file.reason}{saved}")
