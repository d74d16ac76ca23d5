"""What is written down of replications, and what of it comes from where."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from headrace.core.errors import CallerError
from headrace.policy.replication.copy import Copy
from headrace.policy.replication.terms import Terms
from headrace.wire.replication import ReplicationWanted

log = logging.getLogger("headrace.controller.replicating")

R = TypeVar("R", bound=msgspec.Struct)


class ReplicationRow(msgspec.Struct, frozen=True, kw_only=True):
    """A replication in the journal."""

    name: str
    wanted: ReplicationWanted
    since_at: float
    """[s since 1970]."""


class TransferRow(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint on its way in the journal."""

    replication: str
    checkpoint: str
    step: int | None
    state: str
    urgent: str = ""
    """Why it goes before all others; a restart must know."""

    since_at: float = 0.0
    """[s since 1970]."""


def decoded(bodies: Iterable[bytes], form: type[R]) -> Iterator[R]:
    """Yield the rows of a journal; one that cannot be read, such as a later version's, is left."""
    for body in bodies:
        try:
            yield msgspec.json.decode(body, type=form)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.warning("the journal has a %s that cannot be read: %s", form.__name__, error)


def transfer_row(copy: Copy, at: float, known: TransferRow | None) -> TransferRow:
    """Return what is to be written down of a copy; what was known at first stays."""
    return TransferRow(
        replication=copy.key.replication,
        checkpoint=copy.key.checkpoint,
        step=copy.step,
        state=copy.state,
        urgent=copy.urgent,
        since_at=at if known is None else known.since_at,
    )


def terms_of(wanted: ReplicationWanted) -> Terms:
    """Return what the policy is told.

    Raises:
        ConfigError: it makes no sense.
    """
    return Terms(
        once=wanted.once,
        keep=wanted.keep,
        replace=wanted.replace,
        save_every_s=wanted.save_every_s,
        evaluate_every_s=wanted.evaluate_every_s,
        evaluate_every_steps=wanted.evaluate_every_steps,
    )


def require_same_roots(known: ReplicationRow, wanted: ReplicationWanted) -> None:
    """Refuse to turn a replication into another one.

    Raises:
        CallerError: it copies from or to somewhere else.
    """
    before = known.wanted
    if (before.source, before.destination) != (wanted.source, wanted.destination):
        raise CallerError(
            f"replication {known.name!r} copies from {before.source} to {before.destination}; "
            "end it first, or take another name"
        )
