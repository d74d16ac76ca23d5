"""``headrace jobs``: the jobs of an estate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from headrace.cli.asking import Asker, controller_options
from headrace.cli.columns import Column, heading, line, name_column, print_line, width_of
from headrace.cli.gauges import STYLES, amount, felt, needs_word, silence
from headrace.cli.outputs import json_option
from headrace.report.document import write_json
from headrace.wire.estate import Jobs, JobView, TierShare


@dataclass(frozen=True, slots=True)
class _Row:
    """A job on one tier."""

    job: JobView | None
    """None below the first row of a job."""

    tier: str
    share: TierShare | None


@click.command()
@controller_options
@click.option(
    "--level",
    type=click.Choice(["tight", "danger", "critical"]),
    help="Only jobs in this level of health, or in a worse one.",
)
@json_option("Write the same as JSON to a file, - for stdout.")
def command(
    *,
    controller: str | None,
    token_file: Path | None,
    ca_file: str | None,
    level: str | None,
    json_file: str | None,
) -> int:
    """List jobs: health, diagnosis, and per tier what they ask for, were given and use.

    \b
    Examples:
      headrace jobs --controller http://controller:7410
      headrace jobs --level danger --json -
    """  # noqa: D301 - click reads the lone \b
    with Asker(controller, token_file, ca_file) as asker:
        found = asker.get("/v1/jobs", Jobs, {"level": level} if level else None)
    if json_file:
        write_json(json_file, found)
    if json_file != "-":
        _print(found)
    return 0


def _print(found: Jobs) -> None:
    console = Console()
    if not found.jobs:
        console.print("no jobs")
        return
    worst_first = sorted(found.jobs, key=lambda job: (job.score, job.job))
    columns = _columns(console.width)
    print_line(console, heading(columns))
    for job in worst_first:
        tiers: list[tuple[str, TierShare | None]] = [*sorted(job.tiers.items())] or [("", None)]
        for place, (tier, share) in enumerate(tiers):
            print_line(console, line(columns, _Row(job if place == 0 else None, tier, share)))
        if needs_word(job):
            console.print(Text(f"  ↳ {job.reason}", style="dim"), soft_wrap=True)


def _columns(width: int) -> list[Column[_Row]]:
    columns: list[Column[_Row]] = [
        Column(name="HEALTH", width=12, cell=_health),
        Column(name="QUEUE", width=5, right=True, cell=_queue),
        Column(name="WAIT", width=7, right=True, cell=_wait),
        Column(name="TIER", width=6, cell=lambda row: row.tier),
        *(
            Column(name=name, width=7, right=True, cell=_amount(field))
            for name, field in (
                ("ASKED/s", "asked_bytes_per_s"),
                ("GIVEN/s", "granted_bytes_per_s"),
                ("LENT/s", "lent_bytes_per_s"),
                ("USED/s", "used_bytes_per_s"),
            )
        ),
    ]
    return [name_column("JOB", width - width_of(columns), _name), *columns]


def _name(row: _Row) -> str:
    return "" if row.job is None else row.job.title or row.job.job


def _health(row: _Row) -> str | Text:
    if row.job is None:
        return ""
    if silence(row.job):
        return Text(silence(row.job), style="red")
    if not row.job.hosts_reporting:
        return Text("–", style="dim")
    return Text(f"{row.job.score:.0f} {row.job.level}", style=STYLES.get(row.job.level, ""))


def _queue(row: _Row) -> str:
    return "" if row.job is None else f"{row.job.queue_depth:.0f}/{row.job.queue_capacity:.0f}"


def _wait(row: _Row) -> str:
    return "" if row.job is None else felt(row.job.wait_s)


def _amount(field: str) -> Callable[[_Row], str]:
    def cell(row: _Row) -> str:
        return amount(getattr(row.share, field) if row.share else 0.0)

    return cell
