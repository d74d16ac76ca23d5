"""Turns what was decided about one fetch into frames, and frames into the body of an answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from starlette.types import Message, Receive, Scope, Send

from headrace.agent.agentlog import ServedRow
from headrace.agent.engine import Engine
from headrace.agent.fetches import Request, ServeAction
from headrace.agent.raw import ByteBudget, Encoded, RawReader
from headrace.agent.usage import Reading
from headrace.core.digest import Buffer
from headrace.core.errors import HeadraceError
from headrace.core.media import TierName
from headrace.policy.lookahead_events import Serve, ServeRaw, Visit
from headrace.prepare.job import Place
from headrace.trace.recording import wall_ns
from headrace.wire.frames import FrameHeader, encode_frame, encode_head, pack_fields
from headrace.wire.messages import FetchRequest

RAW_AHEAD = 8
"""Encoded samples of one answer in memory at once, so that a slow client leaves room to others."""

GROUP_BYTES = 1 << 18
"""Frames that are ready are sent together up to about so much: short ones one by one would cost
both sides a system call each, and the client a look at all its sockets [bytes]."""

HELD_PERIOD_S = 0.25
"""After its patience a client is told this often that its quota holds samples back [s]."""

MEDIA_TYPE = b"application/vnd.headrace.frames"


@dataclass(frozen=True, slots=True)
class RawSource:
    """Where raw answers come from, shared by all requests."""

    reader: RawReader
    budget: ByteBudget


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One frame on its way."""

    parts: list[Buffer]
    release: Callable[[], None]
    """Called once its bytes are with the connection."""

    raw: bool = False
    """It carries encoded bytes."""

    samples: int = 1
    """How many of those asked for it answers."""

    @property
    def nbytes(self) -> int:
        """Length of the frame [bytes]."""
        return sum(memoryview(part).nbytes for part in self.parts)


class FrameStream:
    """ASGI answer to one fetch: frames in the order in which samples get ready, then ``end``."""

    def __init__(self, engine: Engine, job: str, message: FetchRequest, source: RawSource) -> None:
        self._engine = engine
        self._job = job
        self._message = message
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the answer; stop when the client leaves."""
        with self._engine.fetch(self._job, self._message) as request:
            sender = _Sender(self._engine, request, self._source)
            sending = asyncio.ensure_future(sender.send_all(send))
            leaving = asyncio.ensure_future(_disconnected(receive))
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                leaving.cancel()
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                sender.release()
            if not sending.cancelled():
                sending.result()
                sender.record()


class _Sender:
    """Makes and sends the frames of one request.

    When every sample lies ready the body has a length and needs no chunks, which is what
    clients read fastest. While the job's quota holds samples back, a client whose patience has
    ended is told so: what it would read by itself instead is held to the same quota.
    """

    def __init__(self, engine: Engine, request: Request, source: RawSource) -> None:
        self._engine = engine
        self._request = request
        self._source = source
        self._left = len(request.message.samples)
        self._frames: asyncio.Queue[Outgoing] = asyncio.Queue()
        self._unsent: Counter[int] = Counter()
        self._raw_turns = asyncio.Semaphore(RAW_AHEAD)
        self._name = request.name
        self._telling: asyncio.TimerHandle | None = None
        self._queued_s = 0.0
        """Longest that one of the samples waited for its turn [s]."""

        self._samples: Counter[str] = Counter()
        """How many were sent, by how."""

        self._sent_bytes = 0
        self._last_s = 0.0
        """From the request until the last sample was to be sent [s]."""

    def record(self) -> None:
        """Record the answer, from the request until its last sample was to be sent.

        So the rank, which need not wait for more, sees it lie within its own request.
        """
        message = self._request.message
        self._engine.books.log.served(
            ServedRow(
                job=self._name,
                rank=message.rank,
                step=message.step,
                begin=wall_ns(self._request.asked_at),
                duration=int(self._last_s * 1e9),
                queue=int(self._queued_s * 1e9),
                nbytes=self._sent_bytes,
                samples=len(message.samples),
                samples_tensor=self._samples["tensor"],
                samples_raw=self._samples["raw"],
            )
        )

    def release(self) -> None:
        """Free what was decided to be sent and was not."""
        if self._telling is not None:
            self._telling.cancel()
        for ticket in self._unsent.elements():
            self._engine.sent(ticket)
        self._unsent.clear()

    async def send_all(self, send: Send) -> None:
        ready = self._all_ready()
        if ready is not None:
            await self._send_with_length(ready, send)
            return
        await send(_start())
        self._tell_later(self._request.message.wait_s)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._make_frames(group))
            while self._left:
                group_of = self._take_group(await self._frames.get())
                await self._send_group(group_of, send)
                self._left -= sum(frame.samples for frame in group_of)
        await send(_body(b"".join(_end()), more=False))

    def _all_ready(self) -> list[Outgoing] | None:
        answers = self._request.answers
        if answers.qsize() < self._left or self._engine.bandwidth.limits_egress(self._name):
            return None
        actions = [answers.get_nowait() for _ in range(self._left)]
        if any(isinstance(action, ServeRaw) for action in actions):
            for action in actions:
                answers.put_nowait(action)
            return None
        return [self._frame(action) for action in actions if not isinstance(action, ServeRaw)]

    async def _send_with_length(self, frames: list[Outgoing], send: Send) -> None:
        end = b"".join(_end())
        await send(_start(sum(frame.nbytes for frame in frames) + len(end)))
        for frame in frames:
            self._frames.put_nowait(frame)
        while not self._frames.empty():
            await self._send_group(self._take_group(self._frames.get_nowait()), send)
        await send(_body(end, more=False))

    def _take_group(self, first: Outgoing) -> list[Outgoing]:
        """Return a frame and those that lie ready behind it, as many as are sent together."""
        group, nbytes = [first], first.nbytes
        while nbytes < GROUP_BYTES and not self._frames.empty():
            group.append(self._frames.get_nowait())
            nbytes += group[-1].nbytes
        return group

    async def _send_group(self, frames: Sequence[Outgoing], send: Send) -> None:
        body = b"".join([part for frame in frames for part in frame.parts])
        if any(frame.samples for frame in frames):
            self._last_s = self._waited_s()
        await send(_body(body, more=True))
        for frame in frames:
            frame.release()
            self._engine.books.sent(self._name, frame.nbytes, raw=frame.raw)
        self._sent_bytes += len(body)

    def _tell_later(self, after_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._telling = loop.call_later(max(after_s, HELD_PERIOD_S), self._tell)

    def _tell(self) -> None:
        """Let the client know if its quota is why it waits."""
        if self._engine.bandwidth.holds_back(self._name) and self._frames.empty():
            self._frames.put_nowait(_held())
        self._tell_later(HELD_PERIOD_S)

    async def _make_frames(self, group: asyncio.TaskGroup) -> None:
        for _ in range(len(self._request.message.samples)):
            action = await self._request.answers.get()
            if isinstance(action, ServeRaw) and action.visit.part.is_whole:
                group.create_task(self._make_raw(action))
            elif isinstance(action, Serve) and self._engine.bandwidth.limits_egress(self._name):
                group.create_task(self._put_in_time(action))
            else:
                self._frames.put_nowait(self._frame(action))

    async def _put_in_time(self, action: Serve) -> None:
        self._unsent[action.ticket] += 1
        done, _ = self._engine.prepared.result(action.ticket)
        step = self._request.message.step
        held_s = await self._engine.wait_for_egress(self._name, done.nbytes, step=step)
        self._frames.put_nowait(self._tensor_frame(action, held_s=held_s))

    def _frame(self, action: ServeAction) -> Outgoing:
        """Return the frame of a sample; of a part that is not made there are no raw bytes."""
        if not isinstance(action, Serve):
            return _missing(action.visit, action.code, action.reason)
        self._unsent[action.ticket] += 1
        return self._tensor_frame(action, held_s=0.0)

    def _tensor_frame(self, action: Serve, *, held_s: float) -> Outgoing:
        """Return the frame of a sample that the quota of a link held back for so long."""
        done, parts = self._engine.prepared.result(action.ticket)
        reading, own = self._engine.prepared.reading(action.ticket), not action.shared
        throttled_s = reading.throttled_s + held_s if own else held_s
        after_s = self._waited_s()
        known_s = done.read_s + done.transform_s + throttled_s
        queued_s = 0.0 if action.ready else max(0.0, after_s - known_s)
        self._count("tensor", queued_s)
        on_cores = self._engine.books.effort.on_cores_since(self._request.effort)
        header = FrameHeader(
            kind="tensor",
            sample=action.visit.sample,
            epoch=action.visit.epoch,
            part=action.visit.part,
            cut=done.cut,
            fields=done.fields,
            digest=done.digest,
            queued_s=queued_s,
            cores_s=queued_s * on_cores,
            after_s=after_s,
            throttled_s=throttled_s,
            read_s=done.read_s,
            transform_s=done.transform_s,
            cpu_s=done.cpu_s,
            tier=reading.tier if own else "",
            hit=own and done.passage.hit,
            has_cache=own and self._engine.fast.in_use,
            ready=action.ready,
            shared=action.shared,
        )
        return Outgoing([encode_head(header), *parts], lambda: self._sent(action.ticket))

    def _sent(self, ticket: int) -> None:
        self._unsent[ticket] -= 1
        self._engine.sent(ticket)

    async def _make_raw(self, action: ServeRaw) -> None:
        visit = action.visit
        job = self._request.job
        place = job.open.place(visit.sample)
        stored = job.plan.stored(visit.sample)
        async with self._raw_turns:
            throttled_s = await self._engine.bandwidth.wait(
                self._name, stored.tier, stored.nbytes, step=visit.step
            )
            held_s = await self._engine.wait_for_egress(self._name, stored.nbytes, step=visit.step)
            async with self._source.budget.lent(stored.nbytes):
                try:
                    encoded, tier = await self._read(visit, place)
                except HeadraceError as error:
                    self._frames.put_nowait(_missing(visit, "unreadable", str(error)))
                    return
                reading = Reading(self._name, tier, stored.nbytes, throttled_s)
                self._engine.books.read(reading, encoded.read_s)
                self._engine.books.log.made(
                    job.open,
                    visit,
                    nbytes=stored.nbytes,
                    cached=self._engine.fast.cached(stored.nbytes, hit=encoded.passage.hit),
                    read_s=encoded.read_s,
                )
                left = asyncio.Event()
                parts = self._raw_frame(action, encoded, tier, throttled_s + held_s)
                self._frames.put_nowait(Outgoing(parts, left.set, raw=True))
                await left.wait()

    async def _read(self, visit: Visit, place: Place) -> tuple[Encoded, TierName]:
        """Read a sample, through the fast tier where there is one; return also its tier."""
        job, fast = self._request.job, self._engine.fast
        await fast.wait_for_copy(job, place.source, visit.sample)
        number, errand = self._engine.begin_raw(job, visit, place)
        ended = partial(self._engine.end_raw, number)
        encoded = await self._source.reader.read(
            job.preparers[place.source], place.location, errand, fast.files, ended
        )
        kept = errand.kept if encoded.passage.hit else None
        return encoded, self._engine.tier_of(job, place.source, kept)

    def _raw_frame(
        self, action: ServeRaw, encoded: Encoded, tier: TierName, throttled_s: float
    ) -> list[Buffer]:
        described, payload = pack_fields(dict(encoded.fields))
        after_s = self._waited_s()
        queued_s = max(0.0, after_s - encoded.read_s - throttled_s)
        self._count("raw", queued_s)
        header = FrameHeader(
            kind="raw",
            sample=action.visit.sample,
            epoch=action.visit.epoch,
            fields=described,
            queued_s=queued_s,
            after_s=after_s,
            throttled_s=throttled_s,
            read_s=encoded.read_s,
            tier=tier,
            hit=encoded.passage.hit,
            has_cache=self._engine.fast.in_use,
            reason=action.reason,
            code=action.code,
        )
        return encode_frame(header, payload)

    def _count(self, how: str, queued_s: float) -> None:
        self._samples[how] += 1
        self._queued_s = max(self._queued_s, queued_s)

    def _waited_s(self) -> float:
        return self._engine.clock.now() - self._request.asked_at


def _missing(visit: Visit, code: str, reason: str) -> Outgoing:
    header = FrameHeader(
        kind="missing",
        sample=visit.sample,
        epoch=visit.epoch,
        part=visit.part,
        code=code,
        reason=reason,
    )
    return Outgoing(encode_frame(header), _nothing)


def _nothing() -> None:
    """Release nothing: the frame holds no memory of its own."""


def _held() -> Outgoing:
    header = FrameHeader(kind="held", reason="the job's quota of bandwidth is used up for now")
    return Outgoing(encode_frame(header), _nothing, samples=0)


def _end() -> list[Buffer]:
    return encode_frame(FrameHeader(kind="end"))


def _start(length: int | None = None) -> Message:
    headers = [(b"content-type", MEDIA_TYPE)]
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    return {"type": "http.response.start", "status": 200, "headers": headers}


def _body(data: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
