"""``headrace signal``: makes a checkpoint urgent."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from headrace.cli.asking import controller_options, require_https
from headrace.wire.auth import load_token
from headrace.wire.replication import SignalSent


@click.command()
@click.argument("kind")
@click.option("--step", type=click.IntRange(min=0), help="At which it happened.")
@click.option("--job", help="Whose training it is, for people.")
@click.option(
    "--source",
    metavar="URL",
    help="Root of the checkpoints; else $HEADRACE_CHECKPOINTS is taken, or with a controller all "
    "its replications are meant.",
)
@controller_options
def command(
    *,
    kind: str,
    step: int | None,
    job: str | None,
    source: str | None,
    controller: str | None,
    token_file: Path | None,
    ca_file: str | None,
) -> int:
    """Let the checkpoint that KIND concerns be copied before all others.

    That is the newest one up to the step; where it was copied already, the next. Without a
    controller, a file in the checkpoints' root tells whoever copies from there.

    \b
    Examples:
      headrace signal loss_spike --step 12000 --controller http://controller:7410
      headrace signal quality_drop --source hdfs://nn:8020/checkpoints
    """  # noqa: D301 - click reads the lone \b
    from headrace.client.signals import CHECKPOINTS_VARIABLE, send_signal

    require_https("--ca-file", ca_file, controller)
    sent = SignalSent(kind=kind, step=step, job=job, source=source, sent_at=time.time())
    token = load_token(token_file) if controller else None
    heeded = send_signal(sent, controller=controller, token=token, ca_file=ca_file)
    if not controller:
        root = source or os.environ[CHECKPOINTS_VARIABLE]
        click.echo(f"headrace: left in {root} for whoever copies from there", err=True)
        return 0
    if not heeded:
        click.echo("headrace: no replication of this controller is concerned", err=True)
        return 1
    click.echo(f"headrace: heeded by {', '.join(heeded)}", err=True)
    return 0
