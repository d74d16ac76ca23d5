"""``headrace jobs``: the jobs of an estate."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from headrace.cli.asking import Asker, controller_options
from headrace.cli.gauges import rate, short_name
from headrace.report.blocks import Table
from headrace.report.console import print_table
from headrace.report.document import write_json
from headrace.report.units import seconds
from headrace.wire.estate import Jobs, JobView, TierShare

_NAME_LETTERS = 12
"""Letters of a job's identifier that are shown where it has no title."""


@click.command()
@controller_options
@click.option(
    "--level",
    type=click.Choice(["tight", "danger", "critical"]),
    help="Only jobs in this level of health, or in a worse one.",
)
@click.option("--json", "json_file", help="Write the same as JSON to a file, - for stdout.")
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
    print_table(
        console,
        Table(
            title="",
            columns=("job", "health", "queue", "wait", "tier", "asked", "given", "lent", "used"),
            rows=tuple(row for job in worst_first for row in _rows(job)),
        ),
    )
    for job in worst_first:
        if job.reason:
            console.print(f"{_name(job)}: {job.reason}", soft_wrap=True, highlight=False)


def _rows(job: JobView) -> list[tuple[str, ...]]:
    """Return a line for each of the job's tiers; what is about the job is in the first."""
    queue = f"{job.queue_depth:.0f}/{job.queue_capacity:.0f}"
    about = (_name(job), f"{job.score:.0f} {job.level}", queue, seconds(job.wait_s))
    tiers = [(tier, *_amounts(share)) for tier, share in sorted(job.tiers.items())]
    first, *others = tiers or [("",) * 5]
    return [(*about, *first), *(("", "", "", "", *other) for other in others)]


def _amounts(share: TierShare) -> tuple[str, ...]:
    return (
        rate(share.asked_bytes_per_s),
        rate(share.granted_bytes_per_s),
        rate(share.lent_bytes_per_s),
        rate(share.used_bytes_per_s),
    )


def _name(job: JobView) -> str:
    return job.title or short_name(job.job, _NAME_LETTERS)
