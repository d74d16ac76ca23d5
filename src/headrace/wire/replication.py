"""Messages about replications: which checkpoints are copied from where to where.

Where no controller is told, they are files as well: a signal lies in the checkpoints' root, for
whoever copies from there to see.
"""

from __future__ import annotations

from typing import Literal

import msgspec

CopyState = Literal["waiting", "copying", "publishing", "published", "skipped", "given-up"]

SIGNALS = ".headrace/signals"
"""Folder of signals below a root of checkpoints; each is a file ``NAME.json``."""

SIGNAL_S = 3600.0
"""A signal that is older means nothing any more [s]."""

MOST_SIGNAL_BYTES = 4096
"""Longest signal [bytes]."""


class ReplicationWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``PUT /v1/replications/{name}``: copy checkpoints as they are saved; again to change it.

    Answered with ``ReplicationView``. ``GET`` tells how far it is, ``DELETE`` ends it: what is on
    its way is given up, what is published stays.
    """

    source: str
    """URL of the folder that checkpoints are saved in."""

    destination: str
    """URL of the folder that gets them, under the same names."""

    once: bool = False
    """Only what is complete now."""

    keep: int | None = None
    """Newest checkpoints that stay at the destination; None: all."""

    replace: bool = False
    """Replace other checkpoints of the same names at the destination, once nobody reads them."""

    save_every_s: float | None = None
    """Time between saves [s]; None: it is learned."""

    evaluate_every_s: float | None = None
    """Time between evaluations [s]; None: it is learned."""

    evaluate_every_steps: int | None = None
    """Only checkpoints whose step is a multiple are copied; None: any."""


class CopyView(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint on its way."""

    checkpoint: str
    """Path of its folder below the source."""

    step: int | None
    state: CopyState
    reason: str = ""
    """Why it is in this state, or what failed last; for people."""

    urgent: str = ""
    """Why it goes before all others; empty: it does not."""

    nbytes: int = 0
    """Of its files that are known [bytes]."""

    here_bytes: int = 0
    """Of them, what the destination has, what it had included [bytes]."""

    sent_bytes: int = 0
    """Of these, what was sent over the link [bytes]."""

    bytes_per_s: float = 0.0
    """What is moved of it now [B/s]."""

    eta_s: float | None = None
    """Time until all of it is there, at this rate [s]; None: unknown, or it is over."""

    took_s: float | None = None
    """From its first chunk to its publication [s]; None: it is not published by this process."""


class ReplicationView(msgspec.Struct, frozen=True, kw_only=True):
    """One replication."""

    name: str
    wanted: ReplicationWanted
    since_at: float
    """When it began [s since 1970]."""

    down: str = ""
    """Why a store does not answer; empty: both do."""

    listed: bool = False
    """Both roots were looked at; before, nothing is known of checkpoints."""

    over: bool = False
    """It was to be done once and is, as far as it can be."""

    budget_bytes_per_s: float | None = None
    """Most that all replications of the process move in any second [B/s]; None: no limit."""

    save_period_s: float | None = None
    """Time between saves as it was told or learned [s]; None: unknown."""

    evaluation_period_s: float | None = None
    checkpoints: tuple[CopyView, ...] = ()
    """The newest last."""


class Replications(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /v1/replications``."""

    replications: tuple[ReplicationView, ...]


class SignalSent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``POST /v1/signals``: training, or somebody, needs a checkpoint to be looked at soon.

    Answered with ``SignalTaken``.
    """

    kind: str
    """``loss_spike`` and the like, for people."""

    step: int | None = None
    """At which it happened; None: the newest checkpoint is meant."""

    source: str | None = None
    """URL of the folder whose checkpoints are meant; None: of all replications."""

    job: str | None = None
    """Whose training it is, for people."""

    sent_at: float = 0.0
    """[s since 1970]."""


class SignalTaken(msgspec.Struct, frozen=True, kw_only=True):
    """Who heeds a signal."""

    replications: tuple[str, ...]
