"""``headrace ledger``: every loan from the elastic pool, and every refusal, with its reason."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from headrace.cli.asking import Asker, controller_options
from headrace.cli.columns import Column, heading, line, name_column, print_line, width_of
from headrace.cli.durations import Duration
from headrace.cli.gauges import amount
from headrace.cli.outputs import json_option
from headrace.report.document import write_json
from headrace.report.units import seconds
from headrace.wire.estate import Ledger, LedgerEntry

_AT_ONCE = 1000
"""Entries that the controller tells in one answer at most."""


@click.command()
@controller_options
@click.option("--job", help="Only this job's entries (its identifier, as `headrace jobs --json`).")
@click.option("--since", type=Duration(), help="Only what began or ended since: 90s, 15m, 2h, 1d.")
@click.option("--open", "only_open", is_flag=True, help="Only loans that were not reclaimed yet.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Most entries, the newest first.",
)
@json_option("Write the same as JSON to a file, - for stdout.")
def command(
    *,
    controller: str | None,
    token_file: Path | None,
    ca_file: str | None,
    job: str | None,
    since: float | None,
    only_open: bool,
    limit: int,
    json_file: str | None,
) -> int:
    """List loans of bandwidth: to whom, how much, why, and why they ended; refusals as well.

    \b
    Examples:
      headrace ledger --controller http://controller:7410 --since 1h
      headrace ledger --open --json -
    """  # noqa: D301 - click reads the lone \b
    query: dict[str, str | float] = {}
    if job:
        query["job"] = job
    if since is not None:
        query["since"] = time.time() - since
    if only_open:
        query["open"] = "true"
    with Asker(controller, token_file, ca_file) as asker:
        found = _paged(asker, query, limit)
    if json_file:
        write_json(json_file, found)
    if json_file != "-":
        _print(found)
    return 0


def _paged(asker: Asker, query: dict[str, str | float], limit: int) -> Ledger:
    """Return the newest entries, asked for in as many parts as it takes."""
    entries: tuple[LedgerEntry, ...] = ()
    before: int | None = None
    while True:
        older = {} if before is None else {"before": before}
        most = min(limit - len(entries), _AT_ONCE)
        page = asker.get("/v1/ledger", Ledger, {**query, **older, "limit": most})
        entries, before = entries + page.entries, page.before
        if before is None or len(entries) >= limit:
            return Ledger(entries=entries, before=before)


def _print(found: Ledger) -> None:
    console = Console()
    if not found.entries:
        console.print("no entries")
        return
    columns = _columns(console.width)
    print_line(console, heading(columns))
    for entry in found.entries:
        print_line(console, line(columns, entry))
        console.print(Text(f"  ↳ {_why(entry)}", style="dim"), soft_wrap=True)
    if found.before is not None:
        console.print("… and older ones (--limit)")


def _columns(width: int) -> list[Column[LedgerEntry]]:
    columns: list[Column[LedgerEntry]] = [
        Column(name="BEGAN", width=14, cell=_began),
        Column(name="WHAT", width=7, cell=lambda entry: entry.kind),
        Column(name="TIER", width=6, cell=lambda entry: entry.tier),
        Column(name="HEALTH", width=6, right=True, cell=lambda entry: f"{entry.score:.0f}"),
        Column(name="AMOUNT/s", width=8, right=True, cell=lambda entry: amount(entry.bytes_per_s)),
        Column(name="LASTED", width=10, right=True, cell=_lasted),
    ]
    return [name_column("JOB", width - width_of(columns), _job), *columns]


def _job(entry: LedgerEntry) -> str:
    return entry.title or entry.job


def _began(entry: LedgerEntry) -> str:
    return datetime.fromtimestamp(entry.began_at).astimezone().strftime("%m-%d %H:%M:%S")


def _lasted(entry: LedgerEntry) -> str:
    """Return how long a loan lasted, or how long it is still to last; how often was refused."""
    if entry.kind == "refusal":
        return f"{entry.times} times" if entry.times > 1 else "once"
    if entry.ended_at is not None:
        return seconds(max(entry.ended_at - entry.began_at, 0.0))
    return f"{entry.expires_in_s:.0f} s left" if entry.expires_in_s is not None else "open"


def _why(entry: LedgerEntry) -> str:
    return f"{entry.reason}; {entry.end_reason}" if entry.end_reason else entry.reason
