"""An agent in this process that can be told to lie, stall, refuse or die."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import numpy as np

from headrace.core.draws import SampleKey
from headrace.core.errors import CorruptSampleError
from headrace.core.parts import WHOLE, SamplePart
from headrace.core.record import Record
from headrace.prepare.job import OpenJob, open_job
from headrace.wire.frames import FrameHeader, encode_frame, pack_fields
from headrace.wire.messages import (
    ErrorAnswer,
    FetchRequest,
    JobPlaces,
    JobRegistered,
    JobRoster,
    RegisterJob,
)

Frames = Iterator[tuple[FrameHeader, Record]]
Behaviour = Callable[["FakeAgent", FetchRequest], Frames]


class FakeAgent:
    """Serves one job; ``behave`` decides what a fetch is answered with."""

    def __init__(self, name: str, behave: Behaviour, token: str = "") -> None:
        self.name, self.behave, self.token = name, behave, token
        self.boot = 1
        self.refusal: ErrorAnswer | None = None
        """What a registration is answered with, instead of being accepted."""
        self.refusal_status = 403
        self.is_frozen = False
        """Registrations are not answered until the agent is released."""
        self.registered: list[RegisterJob] = []
        self.told: list[JobRoster] = []
        self.hosts: tuple[str, ...] = ()
        self.weight = 1
        self.newest = JobPlaces()
        """The map that it offers."""
        self.maps: dict[str, JobPlaces] = {}
        """The maps that it was brought."""
        self.fetches: list[FetchRequest] = []
        self.released = threading.Event()
        """Ends every stall."""
        self._known: set[str] = set()
        self._jobs: dict[str, OpenJob] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def restart(self) -> None:
        """Forget all jobs, as a new process would."""
        self._known.clear()
        self.boot += 1

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def meet(self) -> None:
        """Called with each registration that is accepted."""

    def register(self, job: str, message: RegisterJob) -> JobRegistered:
        self.meet()
        self.registered.append(message)
        if job not in self._jobs:
            self._jobs[job] = open_job(message.spec)
        self._known.add(job)
        return self.answer()

    def answer(self, places: str = "") -> JobRegistered:
        return JobRegistered(
            agent=self.name,
            mode="transform",
            boot=str(self.boot),
            hosts=self.hosts,
            weight=self.weight,
            needs_places=bool(places) and places not in self.maps,
        )

    def take_map(self, places: JobPlaces) -> None:
        self.maps[places.version] = self.newest = places

    def knows(self, job: str) -> bool:
        return job in self._known

    def honest(self, request: FetchRequest) -> Frames:
        """What a real agent would answer."""
        if request.want == "raw":
            yield from all_raw(self, request)
            return
        parts = request.parts or (WHOLE,) * len(request.samples)
        for sample, epoch, part in zip(request.samples, request.epochs, parts, strict=True):
            yield self.tensor(sample, epoch, part=part)

    def tensor(
        self, sample: int, epoch: int, cut: int | None = None, part: SamplePart = WHOLE
    ) -> tuple[FrameHeader, Record]:
        job, message = next(iter(self._jobs.values())), self.registered[-1]
        place = job.place(sample)
        preparer = job.preparer(place.source)
        assert preparer is not None
        stop = message.cuts[place.location.kind] if cut is None else cut
        key = SampleKey(job.spec.schedule.seed, epoch, sample)
        try:
            record = preparer.prepare(place.location, key, stop=stop, part=part).record
        except CorruptSampleError as error:
            return self.missing(sample, epoch, "corrupt", str(error))
        header = FrameHeader(kind="tensor", sample=sample, epoch=epoch, part=part, cut=stop)
        return header, record

    def raw(self, sample: int, epoch: int, code: str) -> tuple[FrameHeader, Record]:
        job = next(iter(self._jobs.values()))
        place = job.place(sample)
        preparer = job.preparer(place.source)
        assert preparer is not None
        fields: Record = dict(preparer.raw(place.location))
        return FrameHeader(kind="raw", sample=sample, epoch=epoch, code=code), fields

    def missing(
        self, sample: int, epoch: int, code: str, reason: str
    ) -> tuple[FrameHeader, Record]:
        header = FrameHeader(kind="missing", sample=sample, epoch=epoch, code=code, reason=reason)
        return header, {}


class HalfSent(dict[str, Any]):
    """A record of which the second half is held back until the agent is released."""


class CutOff(Exception):
    """Raised by a behaviour: close the connection in the middle of the answer."""


def _handler(agent: FakeAgent) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            if self._refused():
                return
            if self.path.endswith("/roster"):
                self._share(msgspec.json.decode(self._body(), type=JobRoster))
                return
            if self.path.endswith("/places"):
                agent.take_map(msgspec.json.decode(self._body(), type=JobPlaces))
                self._answer(204, None)
                return
            message = msgspec.json.decode(self._body(), type=RegisterJob)
            if agent.is_frozen:
                agent.released.wait(30)
            if agent.refusal is not None:
                self._answer(agent.refusal_status, agent.refusal)
                return
            self._answer(200, agent.register(self.path.rpartition("/")[2], message))

        def do_GET(self) -> None:
            path, _, have = self.path.partition("?have=")
            if not agent.knows(path.split("/")[3]):
                self._unknown()
            elif path.endswith("/roster"):
                self._answer(200, agent.told[-1])
            elif agent.newest.version and agent.newest.version == have:
                self._answer(204, None)
            else:
                self._answer(200, agent.newest)

        def _share(self, message: JobRoster) -> None:
            if not agent.knows(self.path.split("/")[3]):
                self._unknown()
                return
            agent.told.append(message)
            self._answer(200, agent.answer(message.places))

        def _unknown(self) -> None:
            self._answer(404, ErrorAnswer(error="no such job", code="unknown-job"))

        def do_POST(self) -> None:
            if self._refused():
                return
            request = msgspec.json.decode(self._body(), type=FetchRequest)
            if not agent.knows(self.path.split("/")[3]):
                self._unknown()
                return
            agent.fetches.append(request)
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                for header, record in agent.behave(agent, request):
                    self._frame(header, record)
                self._frame(FrameHeader(kind="end"), {})
                self.wfile.write(b"0\r\n\r\n")
            except (CutOff, OSError):
                self.close_connection = True

        def _frame(self, header: FrameHeader, record: Record) -> None:
            fields, payload = pack_fields(record)
            header = msgspec.structs.replace(header, fields=fields)
            data = b"".join(bytes(part) for part in encode_frame(header, payload))
            chunk = b"%x\r\n%b\r\n" % (len(data), data)
            if isinstance(record, HalfSent):
                self.wfile.write(chunk[: len(chunk) // 2])
                agent.released.wait(30)
                raise CutOff
            self.wfile.write(chunk)

        def _refused(self) -> bool:
            shown = self.headers.get("Authorization", "")
            if shown == f"Bearer {agent.token}" or not agent.token:
                return False
            self._body()
            self._answer(401, ErrorAnswer(error="the token is wrong", code="unauthorized"))
            return True

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def _answer(self, status: int, message: Any) -> None:
            body = b"" if message is None else msgspec.json.encode(message)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Stay silent."""

    return Handler


@contextmanager
def faking(*agents: FakeAgent) -> Iterator[list[str]]:
    try:
        yield [agent.address for agent in agents]
    finally:
        for agent in agents:
            agent.close()


def honest(agent: FakeAgent, request: FetchRequest) -> Frames:
    return agent.honest(request)


def backwards(agent: FakeAgent, request: FetchRequest) -> Frames:
    """Honest, in the opposite order."""
    yield from reversed(list(agent.honest(request)))


def silent(agent: FakeAgent, request: FetchRequest) -> Frames:
    """Answers nothing until it is released."""
    agent.released.wait(30)
    yield from ()


def all_raw(agent: FakeAgent, request: FetchRequest) -> Frames:
    for sample, epoch in zip(request.samples, request.epochs, strict=True):
        yield agent.raw(sample, epoch, "busy")


def crashing_raw(agent: FakeAgent, request: FetchRequest) -> Frames:
    for number, (sample, epoch) in enumerate(zip(request.samples, request.epochs, strict=True)):
        yield agent.raw(sample, epoch, "busy" if number else "crashed")


def unreadable(agent: FakeAgent, request: FetchRequest) -> Frames:
    for sample, epoch in zip(request.samples, request.epochs, strict=True):
        yield agent.missing(sample, epoch, "unreadable", "a disk error")


def earlier_cut(agent: FakeAgent, request: FetchRequest) -> Frames:
    for sample, epoch in zip(request.samples, request.epochs, strict=True):
        yield agent.tensor(sample, epoch, cut=3)


def lying(agent: FakeAgent, request: FetchRequest) -> Frames:
    """Turns one bit in every picture."""
    for header, record in agent.honest(request):
        image = record.get("image")
        if isinstance(image, np.ndarray):
            wrong = image.copy()
            wrong[0, 0, 0] ^= 1
            yield header, {**record, "image": wrong}
        else:
            yield header, record


def half_then_dead(agent: FakeAgent, request: FetchRequest) -> Frames:
    yield from list(agent.honest(request))[: len(request.samples) // 2]
    raise CutOff


def half_then_end(agent: FakeAgent, request: FetchRequest) -> Frames:
    yield from list(agent.honest(request))[: len(request.samples) // 2]


def not_asked_for(agent: FakeAgent, request: FetchRequest) -> Frames:
    yield agent.missing(10**9, 0, "corrupt", "")


def slow(agent: FakeAgent, request: FetchRequest) -> Frames:
    """The first half at once, the rest much later than anyone waits."""
    frames = list(agent.honest(request))
    yield from frames[: len(frames) // 2]
    agent.released.wait(3)
    time.sleep(0.01)
    yield from frames[len(frames) // 2 :]


def half_a_frame(agent: FakeAgent, request: FetchRequest) -> Frames:
    """Honest but for the last frame, which stops in the middle shortly before nobody waits."""
    *frames, (header, record) = list(agent.honest(request))
    yield from frames
    agent.released.wait(0.8 * request.wait_s)
    yield header, HalfSent(record)
