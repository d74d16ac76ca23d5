"""Brings one step together: asks the agents, decodes what they leave, gives up waiting in time.

One thread per gatherer does everything to a step: it reads frames into the batch's
memory and takes what the decoding threads made, so a result that lost the race can never
overwrite one that won it.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import msgspec

from headrace.client.assembly import Assembly
from headrace.client.costs import HEAVY_S
from headrace.client.counts import Counts
from headrace.client.framecounts import count_frame, link_s, made_s
from headrace.client.inbox import Inbox
from headrace.client.maker import raw_fields
from headrace.client.making import Making
from headrace.client.member import Member
from headrace.client.parts import PartsInHand
from headrace.client.shares import Piece, Share, pieces_of_keys, shares_of
from headrace.client.stepdetail import Fetch
from headrace.client.work import Call, Gathered, PieceName, Work, Workshop, name_of
from headrace.core.draws import SampleKey
from headrace.core.errors import (
    AuthError,
    DeadlineError,
    HeadraceError,
    ProtocolError,
    RemoteError,
)
from headrace.transform.partial import divided_by
from headrace.wire.connection import Answer, Connection
from headrace.wire.frames import FrameHeader, read_frame, record_of
from headrace.wire.messages import FetchRequest

Buffers: TypeAlias = Sequence[memoryview]

POLL_S = 0.25
"""Longest wait before a gatherer looks whether it was closed [s]."""


RESULTS_AT_ONCE = 8
"""Samples made here that a gatherer takes together: waking up costs as much as placing one."""


class ClosedError(HeadraceError):
    """The loader was closed while a step was being gathered; never seen by a training loop."""


class Gatherer:
    """Gathers steps one after another. For one thread."""

    def __init__(self, shop: Workshop) -> None:
        self._shop = shop
        self._inbox = Inbox()
        self._making = Making(shop, self._inbox)
        self._connections: dict[str, Connection] = {}

    def gather(self, step: int) -> Gathered:
        """Return a step's batch.

        Raises:
            CorruptSampleError: a sample is corrupt and the job's policy is ``raise``.
            AuthError: an agent refuses the token.
            DeadlineError: the step was not complete within ``timeout_s``, and no quota was why.
            ClosedError: the loader was closed meanwhile.
        """
        work = self._begin(step)
        try:
            self._ask_all(work)
            while work.assembly.waiting:
                self._advance(work)
        finally:
            self._abandon(work)
        return self._finish(work)

    def close(self) -> None:
        """Close the connections; for the gatherer's own thread, or after it ended."""
        for connection in self._connections.values():
            connection.close()
        self._inbox.close()

    def _begin(self, step: int) -> Work:
        shop = self._shop
        begin, begin_cpu = time.monotonic(), time.thread_time()
        shard = shop.job.schedule.shard(step, shop.rank, shop.world)
        seed = shop.job.spec.schedule.seed
        keys = [
            SampleKey(seed, epoch, sample)
            for sample, epoch in zip(shard.samples.tolist(), shard.epochs.tolist(), strict=True)
        ]
        assembly = Assembly(
            keys,
            shop.job.kinds(shard.samples),
            tail=shop.tail,
            targets=shop.targets,
        )
        lengths = shop.job.lengths(shard.samples).tolist()
        now = time.monotonic()
        return Work(
            step=step,
            epoch=shard.epoch,
            assembly=assembly,
            begin=begin,
            begin_cpu=begin_cpu,
            hedge_at=now + self._wait_s(step) + shop.patience.grace_s,
            lengths=dict(zip(shard.samples.tolist(), lengths, strict=True)),
            detail=shop.details.begin(step, shard.epoch, samples=len(keys)),
            counts=Counts(metadata_s=now - begin),
        )

    def _wait_s(self, step: int) -> float:
        return self._shop.patience.wait_s(self._shop.pace.read(), step)

    def _ask_all(self, work: Work) -> None:
        job, cuts = self._shop.job, self._shop.part_cuts
        keys = [work.assembly.key(visit) for visit in work.assembly.waiting]
        every = pieces_of_keys(job, keys, cuts)
        self._foresee(work, every)
        pieces = self._left_by_head_start(work, every)
        shares = shares_of(job, work.step, pieces, self._shop.fleet.standing, cuts)
        for share in shares:
            work.counts.beside += share.beside
            if time.monotonic() < work.hedge_at:
                self._ask(work, share)
                continue
            for piece in share.pieces:  # hosts that are gone took the time there was to connect
                self._making.make(work, piece, "hedged")
        if not shares:
            for piece in pieces:
                self._making.make(work, piece, "local")
        if self._shop.early is not None:
            self._shop.early.look_beyond(work.step)

    def _left_by_head_start(self, work: Work, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Take what was begun here while no agent answered; return the other pieces."""
        early = self._shop.early
        if early is None:
            return pieces
        left = []
        for piece in pieces:
            if early.has_begun(work.step, piece):
                self._making.make(work, piece, "local")
            else:
                left.append(piece)
        return left

    def _foresee(self, work: Work, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            work.costs[piece.visit] = piece.cost_s
            if not piece.part.is_whole and piece.part.number == 0:
                cut = self._shop.part_cuts[self._shop.job.kind(piece.key.sample)]
                decoder = divided_by(self._shop.job.program, cut)
                assert decoder is not None
                work.parts[piece.visit] = PartsInHand(piece.part.count, cut, decoder)

    def _ask(self, work: Work, share: Share) -> None:
        connection = self._connection(share.member)
        owed = {name_of(piece): piece for piece in share.pieces}
        urgent = self._urgent(work, share.pieces)
        call = Call(share, connection, owed, work.hedge_at, urgent, time.monotonic())
        try:
            body = msgspec.json.encode(self._request(work.step, share))
            connection.send("POST", f"/v1/jobs/{self._shop.job.spec.id}/fetch", body)
        except RemoteError as error:
            self._lose(work, call, error)
            return
        work.calls.append(call)

    def _urgent(self, work: Work, pieces: Sequence[Piece]) -> list[tuple[float, PieceName]]:
        """Return the pieces that take so long here that they are not waited for as the others."""
        heavy = [piece for piece in pieces if piece.cost_s >= HEAVY_S]
        reading, patience = self._shop.pace.read(), self._shop.patience
        usual_s = patience.hedge_s(reading, work.step, cost_s=0.0)
        found = []
        for piece in heavy:
            hedge_s = patience.hedge_s(reading, work.step, self._shop.costs.seconds(piece))
            if hedge_s < usual_s:
                found.append((work.begin + hedge_s, name_of(piece)))
        return sorted(found, reverse=True)

    def _request(self, step: int, share: Share) -> FetchRequest:
        reading, pieces = self._shop.pace.read(), share.pieces
        in_parts = not all(piece.part.is_whole for piece in pieces)
        return FetchRequest(
            step=step,
            rank=self._shop.rank,
            world=self._shop.world,
            samples=tuple(piece.key.sample for piece in pieces),
            epochs=tuple(piece.key.epoch for piece in pieces),
            parts=tuple(piece.part for piece in pieces) if in_parts else (),
            consumed_step=reading.consumed_step,
            step_time_s=reading.step_time_s,
            wait_s=self._wait_s(step),
            want="raw" if share.member.distrusted else "any",
        )

    def _connection(self, member: Member) -> Connection:
        """Return the connection to an agent; one that takes longer than the agent may is no use."""
        endpoint, patience = member.endpoint, self._shop.patience
        if endpoint.address not in self._connections:
            longest_s = min(endpoint.connect_timeout_s, patience.least_s + patience.grace_s)
            endpoint = replace(endpoint, connect_timeout_s=longest_s)
            self._connections[endpoint.address] = Connection(endpoint)
        return self._connections[endpoint.address]

    def _advance(self, work: Work) -> None:
        """Wait for the next thing to happen, and deal with it."""
        if self._shop.closed():
            raise ClosedError("closed")
        now = time.monotonic()
        if now >= self._shop.held.deadline(work.begin, self._shop.timeout_s):
            raise DeadlineError(self._overdue(work))
        for call in [call for call in work.calls if now >= call.next_hedge_at]:
            self._hedge(work, call, now)
        for number in self._wait(work, now):
            if number == self._inbox.fileno():
                for delivery in self._inbox.take():
                    self._making.take(work, delivery)
            else:
                self._read(work, number)

    def _wait(self, work: Work, now: float) -> list[int]:
        alone = min(len(work.assembly.waiting), RESULTS_AT_ONCE)
        self._inbox.want(1 if work.calls else alone)
        poll = select.poll()
        poll.register(self._inbox.fileno(), select.POLLIN)
        for call in work.calls:
            poll.register(call.connection.fileno(), select.POLLIN)
        hedge_at = min((call.next_hedge_at for call in work.calls), default=math.inf)
        timeout_s = min(POLL_S, max(hedge_at - now, 0.0) or POLL_S)
        return [number for number, _ in poll.poll(timeout_s * 1000)]

    def _read(self, work: Work, number: int) -> None:
        """Read whole frames of one agent for as long as there is something to read."""
        call = next((call for call in work.calls if call.connection.fileno() == number), None)
        try:
            if call is not None:
                call.connection.set_read_timeout(self._stall_s(call))
            while call is not None:
                if call.answer is None:
                    call.answer = call.connection.receive()
                elif self._read_frame(work, call, call.answer):
                    self._end_call(work, call)
                    return
                if not call.answer.more_nowait():
                    return
        except RemoteError as error:
            assert call is not None
            work.calls.remove(call)
            self._lose(work, call, error)

    def _stall_s(self, call: Call) -> float:
        """Return how long the rest of a frame may take to come: nothing else is done meanwhile."""
        left_s = call.hedge_at - time.monotonic()
        least_s = self._shop.patience.grace_s
        return left_s if least_s < left_s < math.inf else least_s

    def _read_frame(self, work: Work, call: Call, answer: Answer) -> bool:
        """Take one frame; True after the last of the answer."""
        header, buffers = read_frame(answer, work.assembly.memory_for)
        self._shop.splitting.waited(call.connection.take_wait())
        if header.kind == "end":
            return True
        if header.kind == "held":
            self._wait_longer(work, call)
            return False
        name = (header.sample, header.epoch, header.part.number)
        piece = call.owed.pop(name, None)
        if piece is None or piece.part != header.part:
            raise ProtocolError(f"agent {call.share.member.name}: it sent {name}, not asked for")
        nbytes = sum([buffer.nbytes for buffer in buffers])
        call.frames += 1
        call.nbytes += nbytes
        call.queued_s = max(call.queued_s, header.queued_s)
        if piece.visit in work.assembly.waiting:
            self._count_frame(work, call, piece, header, nbytes)
            self._take_frame(work, call, piece, header, buffers)
        if not call.owed:
            self._count_call(work, call)  # the end of the answer may come when it is forgotten
        return False

    def _wait_longer(self, work: Work, call: Call) -> None:
        """Leave an agent the time again: what it owes is held back by the job's own quota.

        To read it here instead would take from the same quota.
        """
        call.frames += 1
        self._shop.held.note()
        again_s = self._wait_s(work.step) + self._shop.patience.grace_s
        call.hedge_at = max(call.hedge_at, time.monotonic() + again_s)
        call.urgent.clear()

    def _take_frame(
        self, work: Work, call: Call, piece: Piece, header: FrameHeader, buffers: Buffers
    ) -> None:
        key, maker, making = piece.key, self._shop.maker, self._making
        match header.kind:
            case "tensor":
                self._shop.checks.consider(call.share.member, key, header, buffers)
                if piece.part.is_whole:
                    self._take_tensor(work, key, header, buffers)
                else:
                    self._take_part(work, piece, header, buffers)
            case "raw":
                fields, isolated = raw_fields(header, buffers), header.code == "crashed"
                making.hand_over(work, key, lambda: maker.from_raw(key, fields, isolated=isolated))
            case _ if header.code == "corrupt" and piece.part.is_whole:
                making.hand_over(work, key, lambda: maker.replacement(key, header.reason))
            case _:
                making.make(work, piece, "hedged", late=call.share.member.name)

    def _count_frame(
        self, work: Work, call: Call, piece: Piece, header: FrameHeader, nbytes: int
    ) -> None:
        sample, is_whole = piece.key.sample, piece.part.is_whole
        on_link_s = link_s(header, time.monotonic() - call.asked_at)
        length = work.lengths[sample] if is_whole else piece.part.of(work.lengths[sample])
        count_frame(work.counts, header, nbytes, length=length, link_s=on_link_s)
        call.link_s = max(call.link_s, on_link_s)
        if is_whole:
            kind = work.assembly.waiting[piece.visit].kind
            work.tally.came(piece.visit, kind, header, nbytes)
        if header.kind == "tensor":
            seconds = header.read_s + header.transform_s
            self._shop.costs.learn(sample, foreseen_s=piece.cost_s, seconds=seconds)
        if work.detail is not None:
            work.detail.made(sample, made_s(header), call.share.member.name)

    def _take_tensor(
        self, work: Work, key: SampleKey, header: FrameHeader, buffers: Buffers
    ) -> None:
        if header.cut == work.assembly.target((key.sample, key.epoch)):
            work.assembly.take_frame(header, buffers)
            return
        if header.cut not in self._shop.job.program.cuts:
            raise ProtocolError(f"sample {key.sample}: the pipeline has no cut at {header.cut}")
        record = record_of(header, buffers)
        maker = self._shop.maker
        self._making.hand_over(work, key, lambda: maker.from_cut(key, record, cut=header.cut))

    def _take_part(self, work: Work, piece: Piece, header: FrameHeader, buffers: Buffers) -> None:
        parts = work.parts[piece.visit]
        if piece.visit in work.local:
            return  # the whole is being made
        if not parts.are_at(header.cut):
            self._making.make(work, piece, "hedged")
            return
        parts.are_ready &= header.ready
        self._making.take_part(work, piece.key, piece.part, record_of(header, buffers))

    def _end_call(self, work: Work, call: Call) -> None:
        work.calls.remove(call)
        if call.owed:
            self._count_call(work, call)
        self._make_owed(work, call)

    def _count_call(self, work: Work, call: Call) -> None:
        work.counts.fetches += 1
        work.counts.fetch_s += time.monotonic() - call.asked_at
        work.tally.carried(call.nbytes, call.link_s)
        if work.detail is not None:
            work.detail.fetched(
                Fetch(
                    call.share.member,
                    call.asked_at,
                    samples=len(call.share.pieces),
                    nbytes=call.nbytes,
                    queued_s=call.queued_s,
                )
            )

    def _lose(self, work: Work, call: Call, error: HeadraceError) -> None:
        """Go on without an agent that failed; a refused token is the caller's to mend.

        One that has answered some of it is late rather than away: it is asked for the next step.
        """
        call.connection.close()
        if isinstance(error, AuthError):
            raise error
        if not (call.frames and isinstance(error, DeadlineError)):
            self._shop.fleet.report(call.share.member, error, step=work.step)
        self._make_owed(work, call)

    def _hedge(self, work: Work, call: Call, now: float) -> None:
        """Make here what an agent still owes and is late with; whoever is first wins."""
        while call.urgent and call.urgent[-1][0] <= now:
            _, name = call.urgent.pop()
            if name in call.owed:
                self._making.make(work, call.owed[name], "hedged", late=call.share.member.name)
        if now < call.hedge_at:
            return
        call.hedge_at = math.inf
        call.urgent.clear()
        self._make_owed(work, call)
        if not call.frames:
            late = DeadlineError(f"agent {call.share.member.name}: nothing came in time")
            work.calls.remove(call)
            self._lose(work, call, late)

    def _make_owed(self, work: Work, call: Call) -> None:
        for piece in call.owed.values():
            self._making.make(work, piece, "hedged", late=call.share.member.name)

    def _abandon(self, work: Work) -> None:
        """Drop answers that nobody needs any more."""
        for call in work.calls:
            if call.owed:
                call.connection.close()

    def _finish(self, work: Work) -> Gathered:
        work.counts.samples = len(work.assembly.keys)
        held = work.assembly.nbytes
        batch = work.assembly.finish(
            step=work.step,
            epoch=work.epoch,
            replaced=tuple(sorted(work.replaced, key=lambda item: item.sample)),
        )
        work.counts.cpu_s += time.thread_time() - work.begin_cpu
        work.tally.cpu_s = work.counts.cpu_s
        self._shop.splitting.add(work.tally, time.monotonic())
        if work.detail is not None:
            work.detail.end()
        return Gathered(
            batch,
            work.counts,
            begin=work.begin,
            seconds=time.monotonic() - work.begin,
            peak_bytes=held + batch.nbytes,
            is_detailed=work.detail is not None,
        )

    def _overdue(self, work: Work) -> str:
        names = ", ".join(str(sample) for sample, _ in list(work.assembly.waiting)[:5])
        return (
            f"step {work.step}: {len(work.assembly.waiting)} samples are missing after "
            f"{self._shop.timeout_s:g} s (samples {names} …); is the storage hanging? "
            "timeout_s sets the limit"
        )
