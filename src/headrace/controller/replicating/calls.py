"""What can be asked of the controller about checkpoints that are copied to another root."""

from __future__ import annotations

import re

from headrace.controller.call import Asked, Call
from headrace.core.errors import CallerError
from headrace.wire.replication import (
    Replications,
    ReplicationView,
    ReplicationWanted,
    SignalSent,
    SignalTaken,
)

MOST_BYTES = 64 << 10
"""Longest message [bytes]."""

MOST_KIND = 100
"""Longest kind of a signal [letters]."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@=-]{0,99}")


def _begin(asked: Asked) -> ReplicationView:
    message: ReplicationWanted = asked.message
    name = asked.names["name"]
    if not _NAME.fullmatch(name):
        raise CallerError(
            f"a replication cannot be called {name!r}: up to 100 letters, digits and . _ @ = - "
            "can be, a letter or digit first"
        )
    return asked.parts.replicating.begin(name, message)


def _signal(asked: Asked) -> SignalTaken:
    sent: SignalSent = asked.message
    if not sent.kind or len(sent.kind) > MOST_KIND:
        raise CallerError(f"a signal's kind has 1 to {MOST_KIND} letters, such as loss_spike")
    if sent.step is not None and sent.step < 0:
        raise CallerError(f"a signal's step is 0 or more, not {sent.step}")
    return asked.parts.replicating.signal(sent)


REPLICATION_CALLS: tuple[Call, ...] = (
    Call(
        method="GET",
        path="/v1/replications",
        summary="List replications and how far their checkpoints are.",
        act=lambda asked: Replications(replications=asked.parts.replicating.views()),
        answers=Replications,
        waits=True,
    ),
    Call(
        method="PUT",
        path="/v1/replications/{name}",
        summary="Copy checkpoints from one root to another as they are saved, or change the terms.",
        act=_begin,
        answers=ReplicationView,
        takes=ReplicationWanted,
        most_bytes=MOST_BYTES,
        waits=True,
    ),
    Call(
        method="GET",
        path="/v1/replications/{name}",
        summary="Show one replication.",
        act=lambda asked: asked.parts.replicating.view(asked.names["name"]),
        answers=ReplicationView,
        waits=True,
    ),
    Call(
        method="DELETE",
        path="/v1/replications/{name}",
        summary="End a replication; what is published stays.",
        act=lambda asked: asked.parts.replicating.end(asked.names["name"]),
        answers=ReplicationView,
        waits=True,
    ),
    Call(
        method="POST",
        path="/v1/signals",
        summary="Let the checkpoint that an anomaly of training concerns be copied first.",
        act=_signal,
        answers=SignalTaken,
        takes=SignalSent,
        most_bytes=MOST_BYTES,
        waits=True,
    ),
)
