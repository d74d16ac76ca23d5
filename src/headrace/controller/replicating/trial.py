"""Tells what a replication would do now, without doing any of it."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from tempfile import TemporaryDirectory

from headrace.controller.replicating.crew import Crew
from headrace.controller.replicating.destination import folder_above
from headrace.controller.replicating.progress import Progress
from headrace.controller.replicating.rows import terms_of
from headrace.controller.replicating.sharing import SharedBudget
from headrace.controller.replicating.way import Way
from headrace.core.errors import NotFoundError
from headrace.policy.replication.events import Began
from headrace.policy.replication.replicator import Replicator
from headrace.storage.opening import open_storage
from headrace.wire.replication import ReplicationView, ReplicationWanted


def tried(name: str, wanted: ReplicationWanted) -> ReplicationView:
    """Return the checkpoints of both roots, and which of them would be copied.

    Args:
        name: What it would be called.
        wanted: What would be done.

    Raises:
        CallerError: it makes no sense, or the source is not there.
        StorageError: a store does not answer.
    """
    replicator = Replicator()
    now = time.monotonic()
    replicator.handle(Began(replication=name, terms=terms_of(wanted)), now)
    with TemporaryDirectory() as empty, closing(_way(name, wanted, empty)) as way:
        replicator.handle(way.look(now), now)
    pair = replicator.pairs[name]
    idle = Crew(SharedBudget(None), lambda _: None)
    return ReplicationView(
        name=name,
        wanted=wanted,
        since_at=time.time(),
        listed=True,
        checkpoints=Progress(idle).views(pair),
    )


def _way(name: str, wanted: ReplicationWanted, empty: str) -> Way:
    """Open both stores; a destination that is not there yet is as good as an empty one."""
    with ExitStack() as opened:
        source = opened.enter_context(closing(open_storage(wanted.source)))
        try:
            destination = open_storage(wanted.destination)
        except NotFoundError:
            with folder_above(wanted.destination, source.url, open_storage):
                destination = open_storage(empty)
        opened.enter_context(closing(destination))
        way = Way(name, source, destination)
        opened.pop_all()
    return way
