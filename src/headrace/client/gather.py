"""Brings one step together: asks the agents, decodes what they leave, gives up waiting in time.

One thread per gatherer does everything to a step: it reads frames into the batch's
memory and takes what the decoding threads made, so a result that lost the race can never
overwrite one that won it.
"""

from __future__ import annotations

import logging
import math
import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import msgspec

from headrace.client.assembly import Assembly, Visit
from headrace.client.batch import Batch, Replaced
from headrace.client.counts import Counts
from headrace.client.crew import Crew
from headrace.client.fleet import Fleet
from headrace.client.framecounts import count_frame, link_s, made_s
from headrace.client.held import Held
from headrace.client.inbox import Delivery, Inbox, MakingTask
from headrace.client.maker import Made, Maker, raw_fields
from headrace.client.member import Member
from headrace.client.pace import Pace, Patience
from headrace.client.shares import Share, shares_of
from headrace.client.spotcheck import SpotChecks
from headrace.client.stepdetail import Fetch, StepDetail, StepDetails
from headrace.client.tail import Tail
from headrace.core.draws import SampleKey
from headrace.core.errors import (
    AuthError,
    DeadlineError,
    HeadraceError,
    ProtocolError,
    RemoteError,
)
from headrace.prepare.job import OpenJob
from headrace.wire.connection import Answer, Connection
from headrace.wire.frames import FrameHeader, read_frame, record_of
from headrace.wire.messages import FetchRequest

logger = logging.getLogger("headrace.client")

Buffers: TypeAlias = Sequence[memoryview]

POLL_S = 0.25
"""Longest wait before a gatherer looks whether it was closed [s]."""


RESULTS_AT_ONCE = 8
"""Samples made here that a gatherer takes together: waking up costs as much as placing one."""


class ClosedError(HeadraceError):
    """The loader was closed while a step was being gathered; never seen by a training loop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Workshop:
    """What all gatherers of one loader share."""

    job: OpenJob
    targets: Mapping[str, int]
    """Media kind → cut at which a batch takes its samples."""

    rank: int
    world: int
    fleet: Fleet
    crew: Crew
    maker: Maker
    pace: Pace
    patience: Patience
    checks: SpotChecks
    tail: Tail
    held: Held
    details: StepDetails
    timeout_s: float
    """Longest time that one step may take, beside what the job's quota holds it back [s]."""

    closed: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Gathered:
    """One step, ready to be handed over."""

    batch: Batch
    counts: Counts
    begin: float
    """When the first sample was asked for, monotonic [s]."""

    seconds: float
    """Time from the first request to the finished batch [s]."""

    peak_bytes: int
    """Memory held while it was put together [bytes]."""

    is_detailed: bool = False
    """Whether its requests were recorded one by one."""


@dataclass(slots=True)
class _Call:
    """One request to one agent, while its answer is being read."""

    share: Share
    connection: Connection
    visits: dict[Visit, SampleKey]
    """Asked for and not yet answered."""

    hedge_at: float
    """When what is still owed is made here; infinite: it is being made."""

    asked_at: float
    answer: Answer | None = None
    frames: int = 0
    nbytes: int = 0
    """Received of samples [bytes]."""

    queued_s: float = 0.0
    """Longest that one of its samples waited in the agent [s]."""


@dataclass(slots=True)
class _Work:
    """One step in the making."""

    step: int
    epoch: int
    assembly: Assembly
    begin: float
    begin_cpu: float
    hedge_at: float
    """When agents have had the time that they get."""

    lengths: Mapping[int, int]
    """Sample → its stored bytes."""

    detail: StepDetail | None
    counts: Counts = field(default_factory=Counts)
    calls: list[_Call] = field(default_factory=list)
    local: dict[Visit, str] = field(default_factory=dict)
    """Handed to the decoding threads, and how it is to be counted."""

    replaced: list[Replaced] = field(default_factory=list)


class Gatherer:
    """Gathers steps one after another. For one thread."""

    def __init__(self, shop: Workshop) -> None:
        self._shop = shop
        self._inbox = Inbox()
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

    def _begin(self, step: int) -> _Work:
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
            [shop.job.kind(key.sample) for key in keys],
            tail=shop.tail,
            targets=shop.targets,
        )
        lengths = shop.job.lengths(shard.samples).tolist()
        now = time.monotonic()
        return _Work(
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

    def _ask_all(self, work: _Work) -> None:
        keys = [work.assembly.key(visit) for visit in work.assembly.waiting]
        shares = shares_of(self._shop.job, work.step, keys, self._shop.fleet.standing)
        for share in shares:
            work.counts.beside += share.beside
            if time.monotonic() < work.hedge_at:
                self._ask(work, share)
                continue
            for key in share.keys:  # hosts that are gone took the time there was to connect
                self._make_here(work, key, "hedged")
        if not shares:
            for key in keys:
                self._make_here(work, key, "local")

    def _ask(self, work: _Work, share: Share) -> None:
        connection = self._connection(share.member)
        visits = {(key.sample, key.epoch): key for key in share.keys}
        call = _Call(share, connection, visits, work.hedge_at, time.monotonic())
        try:
            body = msgspec.json.encode(self._request(work.step, share))
            connection.send("POST", f"/v1/jobs/{self._shop.job.spec.id}/fetch", body)
        except RemoteError as error:
            self._lose(work, call, error)
            return
        work.calls.append(call)

    def _request(self, step: int, share: Share) -> FetchRequest:
        reading = self._shop.pace.read()
        return FetchRequest(
            step=step,
            rank=self._shop.rank,
            world=self._shop.world,
            samples=tuple(key.sample for key in share.keys),
            epochs=tuple(key.epoch for key in share.keys),
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

    def _advance(self, work: _Work) -> None:
        """Wait for the next thing to happen, and deal with it."""
        if self._shop.closed():
            raise ClosedError("closed")
        now = time.monotonic()
        if now >= self._shop.held.deadline(work.begin, self._shop.timeout_s):
            raise DeadlineError(self._overdue(work))
        for call in [call for call in work.calls if now >= call.hedge_at]:
            self._hedge(work, call)
        for number in self._wait(work, now):
            if number == self._inbox.fileno():
                for delivery in self._inbox.take():
                    self._take(work, delivery)
            else:
                self._read(work, number)

    def _wait(self, work: _Work, now: float) -> list[int]:
        alone = min(len(work.assembly.waiting), RESULTS_AT_ONCE)
        self._inbox.want(1 if work.calls else alone)
        poll = select.poll()
        poll.register(self._inbox.fileno(), select.POLLIN)
        for call in work.calls:
            poll.register(call.connection.fileno(), select.POLLIN)
        hedge_at = min((call.hedge_at for call in work.calls), default=math.inf)
        timeout_s = min(POLL_S, max(hedge_at - now, 0.0) or POLL_S)
        return [number for number, _ in poll.poll(timeout_s * 1000)]

    def _read(self, work: _Work, number: int) -> None:
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

    def _stall_s(self, call: _Call) -> float:
        """Return how long the rest of a frame may take to come: nothing else is done meanwhile."""
        left_s = call.hedge_at - time.monotonic()
        least_s = self._shop.patience.grace_s
        return left_s if least_s < left_s < math.inf else least_s

    def _read_frame(self, work: _Work, call: _Call, answer: Answer) -> bool:
        """Take one frame; True after the last of the answer."""
        header, buffers = read_frame(answer, work.assembly.memory_for)
        if header.kind == "end":
            return True
        if header.kind == "held":
            self._wait_longer(work, call)
            return False
        visit = (header.sample, header.epoch)
        key = call.visits.pop(visit, None)
        if key is None:
            raise ProtocolError(f"agent {call.share.member.name}: it sent {visit}, not asked for")
        call.frames += 1
        call.nbytes += sum(buffer.nbytes for buffer in buffers)
        call.queued_s = max(call.queued_s, header.queued_s)
        if visit in work.assembly.waiting:
            self._take_frame(work, call, key, header, buffers)
        if not call.visits:
            self._count_call(work, call)  # the end of the answer may come when it is forgotten
        return False

    def _wait_longer(self, work: _Work, call: _Call) -> None:
        """Leave an agent the time again: what it owes is held back by the job's own quota.

        To read it here instead would take from the same quota.
        """
        call.frames += 1
        self._shop.held.note()
        again_s = self._wait_s(work.step) + self._shop.patience.grace_s
        call.hedge_at = max(call.hedge_at, time.monotonic() + again_s)

    def _take_frame(
        self, work: _Work, call: _Call, key: SampleKey, header: FrameHeader, buffers: Buffers
    ) -> None:
        on_link_s = link_s(header, time.monotonic() - call.asked_at)
        count_frame(work.counts, header, buffers, length=work.lengths[key.sample], link_s=on_link_s)
        if work.detail is not None:
            work.detail.made(key.sample, made_s(header), call.share.member.name)
        maker = self._shop.maker
        match header.kind:
            case "tensor":
                self._shop.checks.consider(call.share.member, key, header, buffers)
                self._take_tensor(work, key, header, buffers)
            case "raw":
                fields, isolated = raw_fields(header, buffers), header.code == "crashed"
                self._hand_over(work, key, lambda: maker.from_raw(key, fields, isolated=isolated))
            case _ if header.code == "corrupt":
                self._hand_over(work, key, lambda: maker.replacement(key, header.reason))
            case _:
                self._make_here(work, key, "hedged")

    def _take_tensor(
        self, work: _Work, key: SampleKey, header: FrameHeader, buffers: Buffers
    ) -> None:
        if header.cut == work.assembly.target((key.sample, key.epoch)):
            work.assembly.take_frame(header, buffers)
            return
        if header.cut not in self._shop.job.program.cuts:
            raise ProtocolError(f"sample {key.sample}: the pipeline has no cut at {header.cut}")
        record = record_of(header, buffers)
        maker = self._shop.maker
        self._hand_over(work, key, lambda: maker.from_cut(key, record, cut=header.cut))

    def _end_call(self, work: _Work, call: _Call) -> None:
        work.calls.remove(call)
        if call.visits:
            self._count_call(work, call)
        for key in call.visits.values():
            self._make_here(work, key, "hedged")

    def _count_call(self, work: _Work, call: _Call) -> None:
        work.counts.fetches += 1
        work.counts.fetch_s += time.monotonic() - call.asked_at
        if work.detail is not None:
            work.detail.fetched(
                Fetch(
                    call.share.member,
                    call.asked_at,
                    samples=len(call.share.keys),
                    nbytes=call.nbytes,
                    queued_s=call.queued_s,
                )
            )

    def _lose(self, work: _Work, call: _Call, error: HeadraceError) -> None:
        """Go on without an agent that failed; a refused token is the caller's to mend.

        One that has answered some of it is late rather than away: it is asked for the next step.
        """
        call.connection.close()
        if isinstance(error, AuthError):
            raise error
        if not (call.frames and isinstance(error, DeadlineError)):
            self._shop.fleet.report(call.share.member, error, step=work.step)
        for key in call.visits.values():
            self._make_here(work, key, "hedged")

    def _hedge(self, work: _Work, call: _Call) -> None:
        """Make here what an agent still owes; whoever is first wins."""
        call.hedge_at = math.inf
        for key in call.visits.values():
            self._make_here(work, key, "hedged")
        if not call.frames:
            late = DeadlineError(f"agent {call.share.member.name}: nothing came in time")
            work.calls.remove(call)
            self._lose(work, call, late)

    def _make_here(self, work: _Work, key: SampleKey, how: str) -> None:
        maker = self._shop.maker
        self._hand_over(work, key, lambda: maker.make(key), how)

    def _hand_over(
        self, work: _Work, key: SampleKey, make: Callable[[], Made], how: str = ""
    ) -> None:
        """Let the decoding threads make a sample, unless they already do or it is settled."""
        visit = (key.sample, key.epoch)
        if visit in work.local or visit not in work.assembly.waiting:
            return
        work.local[visit] = how
        self._shop.crew.submit(work.step, MakingTask(work.step, key, make, self._inbox))

    def _take(self, work: _Work, delivery: Delivery) -> None:
        visit = (delivery.key.sample, delivery.key.epoch)
        if delivery.step != work.step or visit not in work.assembly.waiting:
            return
        work.counts.cpu_s += delivery.cpu_s
        if isinstance(delivery.outcome, BaseException):
            raise delivery.outcome
        if work.detail is not None:
            _detail(work.detail, delivery, delivery.outcome)
        self._settle(work, visit, delivery.key, delivery.outcome)

    def _settle(self, work: _Work, visit: Visit, key: SampleKey, made: Made) -> None:
        counts = work.counts
        counts.read_s += made.read_s
        counts.transform_s += made.transform_s
        counts.throttled_s += made.throttled_s
        counts.storage_bytes += made.storage_bytes
        if made.storage_bytes:
            counts.took(made.throttled_s + made.read_s)
            counts.storage_reads += 1
            counts.storage_read_s += made.throttled_s + made.read_s
        counts.local += work.local[visit] == "local"
        counts.hedged += work.local[visit] == "hedged"
        if made.reason:
            work.replaced.append(self._replaced(work.step, key, made))
        if made.record is None:
            counts.dropped += 1
            work.assembly.drop(visit)
            return
        counts.substituted += made.taken is not None
        work.assembly.put(visit, made.record, taken=made.taken)

    def _replaced(self, step: int, key: SampleKey, made: Made) -> Replaced:
        return Replaced(
            step=step,
            sample=key.sample,
            key=self._shop.maker.name(key),
            taken=made.taken,
            reason=made.reason,
        )

    def _abandon(self, work: _Work) -> None:
        """Drop answers that nobody needs any more."""
        for call in work.calls:
            if call.visits:
                call.connection.close()

    def _finish(self, work: _Work) -> Gathered:
        work.counts.samples = len(work.assembly.keys)
        held = work.assembly.nbytes
        batch = work.assembly.finish(
            step=work.step,
            epoch=work.epoch,
            replaced=tuple(sorted(work.replaced, key=lambda item: item.sample)),
        )
        work.counts.cpu_s += time.thread_time() - work.begin_cpu
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

    def _overdue(self, work: _Work) -> str:
        names = ", ".join(str(sample) for sample, _ in list(work.assembly.waiting)[:5])
        return (
            f"step {work.step}: {len(work.assembly.waiting)} samples are missing after "
            f"{self._shop.timeout_s:g} s (samples {names} …); is the storage hanging? "
            "timeout_s sets the limit"
        )


def _detail(detail: StepDetail, delivery: Delivery, made: Made) -> None:
    sample = delivery.key.sample
    if made.storage_bytes:
        detail.read(sample, delivery.begin, made)
    detail.made(sample, made.throttled_s + made.read_s + made.transform_s)
