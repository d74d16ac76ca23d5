"""All replications of one process: in a controller, or embedded in ``headrace replicate``.

One thread takes what happened, asks the policy and has the crew do what it decides; looking and
copying are done by others. What a restart must know is journaled: what is to be replicated, and
what was urgent. What was sent already is told by the destination itself.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import assert_never

import msgspec

from headrace.controller.controllerlog import ControllerLog
from headrace.controller.journal import ANSWER_S, Journal
from headrace.controller.replicating.agents import AgentPool
from headrace.controller.replicating.crew import Crew
from headrace.controller.replicating.destination import opened_or_made
from headrace.controller.replicating.progress import Progress
from headrace.controller.replicating.rows import (
    ReplicationRow,
    TransferRow,
    decoded,
    require_same_roots,
    terms_of,
    transfer_row,
)
from headrace.controller.replicating.sharing import SharedBudget
from headrace.controller.replicating.watch import Watch, WatchPeriods
from headrace.controller.replicating.way import Way
from headrace.core.clock import Clock, SystemClock
from headrace.core.errors import CallerError, HeadraceError, NotFoundError
from headrace.policy.replication.events import (
    Action,
    Began,
    Ended,
    Event,
    GiveUp,
    GiveWay,
    Look,
    Prepare,
    Prune,
    Publish,
    Signalled,
    StartChunk,
    Tick,
)
from headrace.policy.replication.pair import Pair
from headrace.policy.replication.replicator import Replicator
from headrace.policy.replication.terms import ReplicationLimits
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage
from headrace.wire.replication import (
    ReplicationView,
    ReplicationWanted,
    SignalSent,
    SignalTaken,
)

log = logging.getLogger("headrace.controller.replicating")

TICK_S = 0.25
"""How often time alone may change what is done [s]."""

RETRY_S = 5.0
"""A replication of the journal that cannot begin is tried again after this [s]."""

MOST_REPLICATIONS = 100
"""Replications of one process; more are a sender that names each anew."""

_ONCE_LOOKS = 3
"""What is to be done once ends when so many looks in a row failed."""

_END_S = 5.0
"""Longest wait for threads at the end [s]; they die with the process."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicatingConfig:
    """What all replications of a process share."""

    bytes_per_s: float | None = None
    """Most that is moved in any second [B/s]; None: no limit."""

    limits: ReplicationLimits = field(default_factory=ReplicationLimits)
    periods: WatchPeriods = field(default_factory=WatchPeriods)
    open_store: Callable[[str], Storage] = open_storage
    """Opens the store that a URL names."""


@dataclass(slots=True)
class _Replication:
    """One replication; without a way while its stores could not be opened."""

    row: ReplicationRow
    progress: Progress
    way: Way | None = None
    watch: Watch | None = None
    refused: str = ""
    """Why they could not."""


class Replicating:
    """Replications, and the threads that do them, until ``close``. Thread-safe.

    Args:
        config: What they share.
        journal: Where it is written down what a restart must know; it begins with what is there.
        agents: Who sends chunks instead of this process, where they can.
        clock: Monotonic time.
        wall: Time since 1970 [s].
    """

    def __init__(
        self,
        config: ReplicatingConfig,
        journal: Journal,
        *,
        agents: AgentPool | None = None,
        log: ControllerLog | None = None,
        clock: Clock | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._journal = journal
        self._clock = clock or SystemClock()
        self._wall = wall
        self._replicator = Replicator(config.limits)
        self._replications: dict[str, _Replication] = {}
        self._written: dict[str, TransferRow] = {}
        self._lock = threading.RLock()
        self._beginning = threading.Lock()
        self._ending = threading.Event()
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._budget = SharedBudget(config.bytes_per_s, clock=self._clock)
        self._crew = Crew(self._budget, self._events.put, agents, log)
        self._restore()
        self._thread = threading.Thread(target=self._run, name="replicate", daemon=True)
        self._thread.start()

    # What people ask for

    def begin(self, name: str, wanted: ReplicationWanted) -> ReplicationView:
        """Begin a replication, go on with it on other terms, or do it once more.

        Raises:
            CallerError: it makes no sense, or another process copies to the destination.
            StorageError: a store does not answer.
        """
        terms_of(wanted)
        with self._beginning:
            known = self._replications.get(name)
            with self._lock:
                is_over = known is not None and self._is_over(known)
            if known is not None and is_over:
                require_same_roots(known.row, wanted)
                self._forget(known)
                self._leave(known)
                known = None
            if known is None:
                self._require_room()
                row = ReplicationRow(name=name, wanted=wanted, since_at=self._wall())
                replication = _Replication(row, Progress(self._crew))
                self._open(replication)
            else:
                require_same_roots(known.row, wanted)
                known.row = msgspec.structs.replace(known.row, wanted=wanted)
                self._agree(known.row)
            self._journal.put("replication", name, self._replications[name].row)
        self._journal.sync(ANSWER_S)
        return self.view(name)

    def end(self, name: str) -> ReplicationView:
        """End a replication, and return how it was: what is published stays, all else is given up.

        Raises:
            NotFoundError: there is none of this name.
        """
        with self._beginning, self._lock:
            replication = self._find(name)
            view = self._view(replication)
            self._forget(replication)
        self._journal.sync(ANSWER_S)
        self._leave(replication)
        return view

    def signal(self, sent: SignalSent) -> SignalTaken:
        """Let the checkpoint that a signal concerns go before all others."""
        with self._lock:
            meant = [
                one
                for one in self._replications.values()
                if sent.source is None or _is_of(sent.source, one)
            ]
        for one in meant:
            name = one.row.name
            self._events.put(Signalled(kind=sent.kind, step=sent.step, replication=name))
            if one.watch is not None:
                one.watch.hurry()
        return SignalTaken(replications=tuple(one.row.name for one in meant))

    def view(self, name: str) -> ReplicationView:
        """Return how far a replication is.

        Raises:
            NotFoundError: there is none of this name.
        """
        with self._lock:
            return self._view(self._find(name))

    def views(self) -> tuple[ReplicationView, ...]:
        """Return how far all are."""
        with self._lock:
            return tuple(self._view(one) for one in self._replications.values())

    def close(self) -> None:
        """Stop all; what was staged stays, for whoever goes on."""
        self._ending.set()
        self._events.put(None)
        self._thread.join(_END_S)
        self._crew.stop_all()
        for one in self._replications.values():
            if one.watch is not None:
                one.watch.end()
        until = self._clock.now() + _END_S
        for one in self._replications.values():
            self._leave(one, max(0.0, until - self._clock.now()))
        self._crew.wait_closed(max(0.0, until - self._clock.now()))

    # How they begin

    def _restore(self) -> None:
        """Go on with what the journal has."""
        documents = self._journal.kept.documents
        for row in decoded(documents.get("replication", ()), ReplicationRow):
            replication = _Replication(row, Progress(self._crew), refused="it begins just now")
            self._replications[row.name] = replication
        for transfer in decoded(documents.get("transfer", ()), TransferRow):
            self._written[f"{transfer.replication}/{transfer.checkpoint}"] = transfer
        if self._replications:
            threading.Thread(target=self._open_restored, name="restore", daemon=True).start()

    def _open_restored(self) -> None:
        """Open what the journal had, again and again while a store is away or not free yet."""
        while not self._ending.is_set():
            with self._lock:
                closed = [one for one in self._replications.values() if one.way is None]
            for one in closed:
                self._open_again(one)
            if not closed:
                return
            self._ending.wait(RETRY_S if any(one.refused for one in closed) else 0.0)

    def _open_again(self, replication: _Replication) -> None:
        with self._beginning:
            name = replication.row.name
            if self._replications.get(name) is not replication:
                return
            urgent = [
                row for row in self._written.values() if row.replication == name and row.urgent
            ]
            try:
                self._open(replication)
            except (HeadraceError, OSError) as error:
                log.warning("replication %s cannot begin yet: %s", name, error)
                replication.refused = str(error)
                return
        for row in urgent:
            kind = row.urgent.partition(" at step ")[0]
            self._events.put(Signalled(kind=kind, step=row.step, replication=name))

    def _open(self, replication: _Replication) -> None:
        """Open both stores, and begin to watch them."""
        row, open_store = replication.row, self._config.open_store
        with ExitStack() as opened:
            source = opened.enter_context(closing(open_store(row.wanted.source)))
            destination = opened_or_made(row.wanted.destination, source.url, open_store)
            opened.enter_context(closing(destination))
            way = Way(row.name, source, destination)
            watch = Watch(
                way,
                self._events.put,
                lambda: self._is_busy(row.name),
                self._config.periods,
                self._clock,
            )
            watch.take()
            opened.pop_all()
        with self._lock:
            replication.way, replication.watch, replication.refused = way, watch, ""
            self._replications[row.name] = replication
            self._agree(row)
        watch.start()

    def _agree(self, row: ReplicationRow) -> None:
        """Let the policy know the terms at once: what is ended next is then known to have begun."""
        with self._lock:
            self._handle(Began(replication=row.name, terms=terms_of(row.wanted)))

    def _forget(self, replication: _Replication) -> None:
        name = replication.row.name
        with self._lock:
            if name in self._replicator.pairs:
                self._handle(Ended(replication=name))
            del self._replications[name]
            self._journal.drop("replication", name)

    def _leave(self, replication: _Replication, timeout_s: float = _END_S) -> None:
        if replication.watch is not None:
            replication.watch.stop(timeout_s)
        if replication.way is not None:
            self._crew.close(replication.way)

    def _require_room(self) -> None:
        if len(self._replications) >= MOST_REPLICATIONS:
            raise CallerError(
                f"{MOST_REPLICATIONS} replications are done already; end those that are not "
                "needed any more"
            )

    # How they go on

    def _run(self) -> None:
        while True:
            try:
                event = self._events.get(timeout=TICK_S)
            except queue.Empty:
                event = Tick()
            if event is None:
                return
            with self._lock:
                self._handle(event)
                self._free_destinations()

    def _free_destinations(self) -> None:
        """Let others copy to where all was done that was to be done once."""
        for one in self._replications.values():
            if one.watch is not None and not one.watch.failures and self._is_over(one):
                one.watch.end()

    def _handle(self, event: Event) -> None:
        now = self._clock.now()
        for action in self._replicator.handle(event, now):
            self._carry_out(action)
        self._write_down()
        for name, pair in self._replicator.pairs.items():
            if name in self._replications:
                self._replications[name].progress.sample(pair, now)

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, GiveWay):
            self._budget.give_way(action.to)
            return
        name = action.replication if isinstance(action, Prune | Look) else action.key.replication
        way, watch = self._replications[name].way, self._replications[name].watch
        assert way is not None
        assert watch is not None
        match action:
            case Prepare():
                self._crew.prepare(way, action.key, action.files)
            case StartChunk():
                self._crew.send(way, action)
            case Publish():
                self._crew.publish(way, action)
            case GiveUp():
                log.warning("%s is not copied: %s", action.key.checkpoint, action.reason)
                self._crew.drop(way, action.key)
            case Look():
                watch.hurry()
            case Prune():
                self._crew.prune(way, action.keep)
            case _:
                assert_never(action)

    def _write_down(self) -> None:
        """Journal what is on its way, as far as it changed."""
        rows: dict[str, TransferRow] = {}
        for name, pair in self._replicator.pairs.items():
            for path, copy in pair.copies.items():
                if copy.is_open and (copy.urgent or copy.began_at is not None):
                    key = f"{name}/{path}"
                    rows[key] = transfer_row(copy, self._wall(), self._written.get(key))
        waiting = {
            key: row
            for key, row in self._written.items()
            if not self._is_listed(row.replication) and row.replication in self._replications
        }
        rows = waiting | rows
        for key in self._written.keys() - rows.keys():
            self._journal.drop("transfer", key)
        for key, row in rows.items():
            if self._written.get(key) != row:
                self._journal.put("transfer", key, row)
        self._written = rows

    # How they are told of

    def _view(self, replication: _Replication) -> ReplicationView:
        name = replication.row.name
        pair = self._replicator.pairs.get(name)
        view = ReplicationView(
            name=name,
            wanted=replication.row.wanted,
            since_at=replication.row.since_at,
            down=replication.refused,
            over=self._is_over(replication),
            budget_bytes_per_s=self._budget.bytes_per_s,
        )
        if pair is None:
            return view
        return msgspec.structs.replace(
            view,
            down=replication.refused or pair.down,
            listed=pair.listed,
            save_period_s=pair.saves.period_s,
            evaluation_period_s=pair.evaluations.period_s,
            checkpoints=replication.progress.views(pair),
        )

    def _is_over(self, replication: _Replication) -> bool:
        """Tell whether what was to be done once is done, as far as it can be."""
        pair = self._replicator.pairs.get(replication.row.name)
        if not replication.row.wanted.once or pair is None or replication.watch is None:
            return False
        if replication.watch.failures >= _ONCE_LOOKS and not self._crew.is_busy(pair.name):
            return True
        return pair.listed and not self._is_open(pair) and not self._crew.is_busy(pair.name)

    def _is_open(self, pair: Pair) -> bool:
        due = pair.prune_at is not None and pair.prune_at <= self._clock.now()
        return due or any(copy.is_open for copy in pair.copies.values())

    def _is_busy(self, name: str) -> bool:
        with self._lock:
            pair = self._replicator.pairs.get(name)
            return pair is not None and any(copy.is_open for copy in pair.copies.values())

    def _is_listed(self, name: str) -> bool:
        pair = self._replicator.pairs.get(name)
        return pair is not None and pair.listed

    def _find(self, name: str) -> _Replication:
        if name not in self._replications:
            known = ", ".join(self._replications)
            there = f"there are: {known}" if known else "there is none at all"
            raise NotFoundError(f"no replication {name!r} here; {there}")
        return self._replications[name]


def _is_of(source: str, replication: _Replication) -> bool:
    """Tell whether a URL, as written or in its one form, is the source of a replication."""
    roots = {replication.row.wanted.source}
    if replication.way is not None:
        roots.add(replication.way.source.url)
    return source.rstrip("/") in {root.rstrip("/") for root in roots}
