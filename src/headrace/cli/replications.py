"""How replications are shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.text import Text

from headrace.cli.columns import (
    Column,
    heading,
    line,
    name_column,
    path_column,
    print_line,
    width_of,
)
from headrace.report.printable import printable
from headrace.report.units import bytes_, percent, seconds
from headrace.wire.replication import CopyView, ReplicationView

MOST_ROWS = 50
"""Checkpoints that are shown, the newest; ``--json`` tells all."""

_STYLES = {"published": "green", "given-up": "red", "skipped": "dim"}
_UNDER_WAY = ("copying", "publishing")


def show(view: ReplicationView) -> None:
    """Print a replication's checkpoints."""
    console = Console()
    if not view.checkpoints:
        console.print("no checkpoints" if view.listed else "nothing is known of checkpoints yet")
        return
    columns = _columns(console.width)
    print_line(console, heading(columns))
    for copy in view.checkpoints[-MOST_ROWS:]:
        print_line(console, line(columns, copy))
        for remark in _remarks(copy):
            console.print(Text(f"  ↳ {printable(remark)}", style="dim"), soft_wrap=True)
    if len(view.checkpoints) > MOST_ROWS:
        console.print(f"… and {len(view.checkpoints) - MOST_ROWS} older (--json tells all)")


def show_all(views: Sequence[ReplicationView]) -> None:
    """Print replications, one a line, and what each copies from where to where."""
    console = Console()
    if not views:
        console.print("no replications")
        return
    columns = _columns_of_all(console.width)
    print_line(console, heading(columns))
    for view in views:
        print_line(console, line(columns, view))
        roots = f"{view.wanted.source} → {view.wanted.destination}"
        for remark in [roots, *([f"waits: {view.down}"] if view.down else [])]:
            console.print(Text(f"  ↳ {printable(remark)}", style="dim"), soft_wrap=True)


class Progress:
    """Tells on standard error how far a replication is.

    One line that changes on a terminal; else a line when something ended, and one now and then.
    """

    EVERY_S = 10.0
    """Time between two lines where nobody looks at a terminal [s]."""

    def __init__(self) -> None:
        self._is_live = sys.stderr.isatty()
        self._told: dict[str, str] = {}
        self._down = ""
        self._next_at = 0.0
        self._is_open = False

    def tell(self, view: ReplicationView, now: float) -> None:
        """Tell what is new, and how far it is if that is due; ``now`` is monotonic [s]."""
        for copy in view.checkpoints:
            known = self._told.get(copy.checkpoint)
            self._told[copy.checkpoint] = copy.state
            if copy.state != known and _is_news(copy):
                self._line(_ended(copy))
        if view.down != self._down:
            self._line(f"waits: {view.down}" if view.down else "both stores answer again")
            self._down = view.down
        self._tell_progress(view, now)

    def end(self) -> None:
        """Leave the line that changes."""
        if self._is_open:
            click.echo("", err=True)
            self._is_open = False

    def _tell_progress(self, view: ReplicationView, now: float) -> None:
        text = "; ".join(_progress(one) for one in view.checkpoints if one.state in _UNDER_WAY)
        if self._is_live:
            click.echo(f"\r\x1b[K{text[: Console(stderr=True).width - 1]}", nl=False, err=True)
            self._is_open = bool(text)
        elif text and now >= self._next_at:
            self._next_at = now + self.EVERY_S
            self._line(text)

    def _line(self, text: str) -> None:
        clear = "\r\x1b[K" if self._is_live else ""
        click.echo(f"{clear}headrace: {text}", err=True)
        self._is_open = False


def _is_news(copy: CopyView) -> bool:
    """Tell whether something came of a copy here: not what was there before."""
    return copy.state == "given-up" or copy.took_s is not None


def _ended(copy: CopyView) -> str:
    if copy.state == "given-up":
        return printable(f"{copy.checkpoint} is not copied: {copy.reason}")
    took_s = copy.took_s or 0.0
    sent = f"{bytes_(copy.sent_bytes)} of {bytes_(copy.nbytes)} sent"
    return f"{printable(copy.checkpoint)} is there: {sent} in {seconds(took_s)}"


def _progress(copy: CopyView) -> str:
    name = printable(copy.checkpoint)
    left = f", {seconds(copy.eta_s)} left" if copy.eta_s is not None else ""
    share = percent(copy.here_bytes / max(1, copy.nbytes))
    urgent = "urgent, " if copy.urgent else ""
    if copy.state == "publishing":
        return f"{name}: {urgent}is moved into place"
    return f"{name}: {urgent}{share} at {bytes_(copy.bytes_per_s)}/s{left}"


def _columns(width: int) -> list[Column[CopyView]]:
    columns: list[Column[CopyView]] = [
        Column(name="STEP", width=9, right=True, cell=_step),
        Column(name="STATE", width=11, cell=_state),
        Column(name="SIZE", width=9, right=True, cell=lambda copy: bytes_(copy.nbytes)),
        Column(name="THERE", width=7, right=True, cell=_there),
        Column(name="SENT", width=9, right=True, cell=lambda copy: bytes_(copy.sent_bytes)),
        Column(name="TOOK", width=8, right=True, cell=_took),
    ]
    return [
        path_column("CHECKPOINT", width - width_of(columns), lambda copy: copy.checkpoint or "."),
        *columns,
    ]


def _columns_of_all(width: int) -> list[Column[ReplicationView]]:
    columns: list[Column[ReplicationView]] = [
        Column(name="STATE", width=8, cell=_state_of_all),
        Column(name="NEWEST", width=9, right=True, cell=_newest),
        Column(name="ON ITS WAY", width=10, right=True, cell=_under_way),
        Column(name="LEFT", width=9, right=True, cell=_left),
        Column(name="RATE", width=9, right=True, cell=_rate),
    ]
    return [name_column("NAME", width - width_of(columns), lambda view: view.name), *columns]


def _state_of_all(view: ReplicationView) -> str:
    if view.down:
        return "waits"
    if view.over:
        return "over"
    return "copies" if _moving(view) else "watches"


def _newest(view: ReplicationView) -> str:
    """Return the step of the newest that arrived."""
    steps = [one.step for one in view.checkpoints if one.state == "published"]
    return str(max((step for step in steps if step is not None), default="–"))


def _under_way(view: ReplicationView) -> str:
    return str(len(_moving(view)))


def _left(view: ReplicationView) -> str:
    return bytes_(sum(one.nbytes - one.here_bytes for one in _moving(view)))


def _rate(view: ReplicationView) -> str:
    return f"{bytes_(sum(one.bytes_per_s for one in _moving(view)))}/s"


def _moving(view: ReplicationView) -> list[CopyView]:
    return [one for one in view.checkpoints if one.state in _UNDER_WAY]


def _remarks(copy: CopyView) -> list[str]:
    urgent = [f"urgent: {copy.urgent}"] if copy.urgent else []
    return [*urgent, copy.reason] if copy.reason and copy.state != "published" else urgent


def _step(copy: CopyView) -> str:
    return "–" if copy.step is None else str(copy.step)


def _state(copy: CopyView) -> Text:
    return Text(copy.state, style=_STYLES.get(copy.state, ""))


def _there(copy: CopyView) -> str:
    return percent(copy.here_bytes / copy.nbytes) if copy.nbytes else "–"


def _took(copy: CopyView) -> str:
    return "–" if copy.took_s is None else seconds(copy.took_s)
