"""Decides which chunks of which checkpoints are sent next, over all replications of a process.

Urgent checkpoints go first, and all others move nothing meanwhile: their chunks give way between
two pieces, for a moment also while the checkpoint that a signal concerns is looked for. Among
others the earliest deadline goes first, of one deadline the newest. What fails is tried again
after a pause that doubles; while one pauses, the others go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headrace.policy.replication.copy import Copy
from headrace.policy.replication.events import (
    Action,
    Began,
    Chunk,
    ChunkDone,
    ChunkReturned,
    CopyKey,
    Ended,
    EvaluationStarted,
    Event,
    Failed,
    GiveUp,
    GiveWay,
    LinkChanged,
    Listed,
    Look,
    Prepare,
    Prepared,
    Prune,
    Pruned,
    Publish,
    Published,
    Signalled,
    StartChunk,
)
from headrace.policy.replication.pair import Pair
from headrace.policy.replication.terms import ReplicationLimits

_MOST_AHEAD = 2
"""Checkpoints whose chunks wait at once, urgent ones aside: a large one has many thousands."""


class Replicator:
    """What all replications of a process do. Not thread-safe.

    Args:
        limits: What they share.
    """

    def __init__(self, limits: ReplicationLimits | None = None) -> None:
        self._limits = limits or ReplicationLimits()
        self._pairs: dict[str, Pair] = {}
        self._way: frozenset[CopyKey] | None = None

    @property
    def pairs(self) -> Mapping[str, Pair]:
        """The replications by name, to be looked at."""
        return self._pairs

    def handle(self, event: Event, now: float) -> list[Action]:
        """Take an event and return what is to be done, in this order.

        Args:
            event: What happened.
            now: Monotonic time [s].
        """
        taken = list(self._take(event, now))
        # Chunks come by the thousand: what only other events can change is not looked at then.
        if not isinstance(event, Prepared | ChunkDone | ChunkReturned):
            taken += self._judge(now)
            taken += self._prepare(self._able(now), now)
        return [*taken, *self._go_on(now)]

    def _take(self, event: Event, now: float) -> Iterator[Action]:
        match event:
            case Began():
                pair = self._pairs.setdefault(
                    event.replication, Pair(event.replication, event.terms)
                )
                pair.agree(event.terms)
            case Ended():
                pair = self._pairs.pop(event.replication)
                open_ones = [copy for copy in pair.copies.values() if copy.is_open]
                yield from self._give_up(open_ones, "the replication was ended", now)
            case Signalled():
                for pair in self._meant(event.replication):
                    pair.signals.append((event, now))
            case Listed() | EvaluationStarted() | LinkChanged() | Pruned():
                if event.replication in self._pairs:
                    yield from self._take_of_pair(event, self._pairs[event.replication], now)
            case Prepared() | ChunkDone() | ChunkReturned() | Failed() | Published():
                copy = self._find(event.key)
                if copy is not None:
                    yield from self._take_of_copy(event, copy, now)

    def _take_of_pair(
        self, event: Listed | EvaluationStarted | LinkChanged | Pruned, pair: Pair, now: float
    ) -> Iterator[Action]:
        match event:
            case Listed():
                for copy, reason in list(pair.list(event, now)):
                    yield from self._give_up([copy], reason, now)
            case EvaluationStarted():
                pair.evaluations.happened(now)
            case LinkChanged():
                pair.down = "" if event.up else event.reason
            case Pruned():
                pair.prune_at = now + self._limits.prune_s if event.waits else None

    def _take_of_copy(
        self,
        event: Prepared | ChunkDone | ChunkReturned | Failed | Published,
        copy: Copy,
        now: float,
    ) -> Iterator[Action]:
        match event:
            case Prepared() if copy.preparing:
                copy.prepared(event.chunks, event.here_bytes)
            case ChunkDone():
                copy.done(event.chunk)
                copy.failures, copy.held_up = 0, ""
            case ChunkReturned():
                copy.put_back(event.chunk)
            case Failed():
                yield from self._failed(event, copy, now)
            case Published():
                self._published(copy, now)

    def _published(self, copy: Copy, now: float) -> None:
        pair = self._pairs[copy.key.replication]
        copy.state, copy.over_at, copy.reason, copy.held_up = "published", now, "", ""
        pair.left_one = False
        if pair.terms.keep is not None:
            pair.prune_at = now

    # What fails

    def _failed(self, event: Failed, copy: Copy, now: float) -> Iterator[Action]:
        self._take_back(event, copy, now)
        if copy.is_over:
            return
        copy.held_up = event.reason
        if now >= copy.retry_at:  # else others of the same moment have been counted
            copy.failures += 1
            pause_s = self._limits.first_pause_s * 2.0 ** min(copy.failures - 1, 30)
            copy.retry_at = now + min(pause_s, self._limits.longest_pause_s)
        if self._is_hopeless(event, copy):
            yield from self._give_up([copy], event.reason, now)

    def _take_back(self, event: Failed, copy: Copy, now: float) -> None:
        """Undo what was begun and failed."""
        if event.chunk is not None:
            chunk = copy.running.get(event.chunk)
            copy.put_back(event.chunk)
            if chunk is not None and event.kind in ("gone", "changed"):
                copy.recut(chunk.files, now)
        elif copy.preparing:
            copy.recut(copy.preparing, now)
            copy.preparing = ()
        elif copy.state == "publishing":
            copy.state = "copying"
            copy.recut_all(now)

    def _is_hopeless(self, event: Failed, copy: Copy) -> bool:
        if event.kind == "refused":
            return True
        once = self._pairs[copy.key.replication].terms.once
        if event.kind == "wrong" and copy.failures >= self._limits.wrong_tries:
            return True
        return once and copy.failures >= self._limits.once_tries

    def _give_up(self, copies: Iterable[Copy], reason: str, now: float) -> Iterator[Action]:
        for copy in copies:
            copy.state, copy.reason, copy.over_at = "given-up", reason, now
            copy.abandon()
            yield GiveUp(key=copy.key, reason=reason)

    # What is to be done

    def _judge(self, now: float) -> Iterator[Action]:
        for pair in self._pairs.values():
            for copy, reason in list(pair.judge(self._limits, now)):
                copy.skip(reason, now)
                yield GiveUp(key=copy.key, reason=reason)

    def _go_on(self, now: float) -> Iterator[Action]:
        able = self._able(now)
        yield from self._publish(able)
        yield from self._give_way(able, now)
        yield from self._start_chunks(able, now)
        yield from self._prune(now)

    def _able(self, now: float) -> list[Copy]:
        """Return copies that something can be done for, the first to be served first."""
        able = [
            (not copy.urgent, copy.deadline, copy.began_at is None, pair.newest_first(copy), copy)
            for pair in self._pairs.values()
            if not pair.down
            for copy in pair.copies.values()
            if copy.is_open and copy.retry_at <= now
        ]
        return [copy for *_, copy in sorted(able, key=lambda one: one[:4])]

    def _prepare(self, able: list[Copy], now: float) -> Iterator[Action]:
        """Have files cut into chunks, of few checkpoints ahead of what is sent."""
        ahead = 0
        for copy in able:
            files = copy.closed_files(now, self._limits.stable_s)
            may = not copy.preparing and copy.state != "publishing"
            if files and may and (copy.urgent or ahead < _MOST_AHEAD):
                copy.prepare(files)
                yield Prepare(key=copy.key, files=files)
            ahead += bool(copy.waiting or copy.preparing)

    def _publish(self, able: list[Copy]) -> Iterator[Action]:
        for copy in able:
            if copy.state == "publishing" or not copy.is_whole():
                continue
            if copy.confirmed:
                copy.state = "publishing"
                terms = self._pairs[copy.key.replication].terms
                yield Publish(key=copy.key, replace=terms.replace)
            elif not copy.asked_again:
                copy.asked_again = True
                yield Look(replication=copy.key.replication)

    def _give_way(self, able: list[Copy], now: float) -> Iterator[Action]:
        urgent = frozenset(copy.key for copy in able if copy.urgent and copy.is_busy)
        searched = any(pair.searches(now) for pair in self._pairs.values())
        way = urgent if urgent or searched else None
        if way != self._way:
            self._way = way
            yield GiveWay(to=way)

    def _start_chunks(self, able: list[Copy], now: float) -> Iterator[Action]:
        """Start what there is room for; urgent copies have as much room again for themselves."""
        rooms = {is_urgent: self._room(is_urgent) for is_urgent in (True, False)}
        for copy in able:
            if self._way is not None and not copy.urgent:
                return
            room = rooms[bool(copy.urgent)]
            while copy.waiting and room.takes(copy.waiting[0]):
                chunk = copy.start(now)
                room.take(chunk)
                yield StartChunk(key=copy.key, chunk=chunk, deadline=copy.deadline)

    def _room(self, is_urgent: bool) -> _Room:
        room = _Room(self._limits.chunks, self._limits.chunk_bytes)
        for pair in self._pairs.values():
            for copy in pair.copies.values():
                if bool(copy.urgent) == is_urgent:
                    for chunk in copy.running.values():
                        room.take(chunk)
        return room

    def _prune(self, now: float) -> Iterator[Action]:
        for pair in self._pairs.values():
            due = pair.prune_at is not None and pair.prune_at <= now
            if due and pair.terms.keep is not None and not pair.down:
                pair.prune_at = now + self._limits.prune_s
                yield Prune(replication=pair.name, keep=pair.terms.keep)

    def _find(self, key: CopyKey) -> Copy | None:
        pair = self._pairs.get(key.replication)
        return None if pair is None else pair.copies.get(key.checkpoint)

    def _meant(self, name: str | None) -> list[Pair]:
        if name is None:
            return list(self._pairs.values())
        return [self._pairs[name]] if name in self._pairs else []


@dataclass(slots=True)
class _Room:
    """What may still be in flight."""

    chunks: int
    nbytes: int
    is_empty: bool = True

    def takes(self, chunk: Chunk) -> bool:
        """Tell whether a chunk may be sent now; one alone always may."""
        return self.is_empty or (self.chunks > 0 and chunk.nbytes <= self.nbytes)

    def take(self, chunk: Chunk) -> None:
        """Take note of a chunk in flight."""
        self.chunks -= 1
        self.nbytes -= chunk.nbytes
        self.is_empty = False
