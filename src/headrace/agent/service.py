"""The agent's HTTP interface: routes, authorization, limits, errors as messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.agent.answer import FrameStream, RawSource
from headrace.agent.config import AgentConfig
from headrace.agent.copying import Copying
from headrace.agent.engine import Engine
from headrace.agent.jobs import ServedJob
from headrace.agent.ranges.service import STATUSES as RANGE_STATUSES
from headrace.agent.ranges.service import RangeService
from headrace.agent.raw import ByteBudget, RawReader
from headrace.agent.registry import Registry, UnsupportedError
from headrace.agent.roots import OutsideRootsError
from headrace.agent.statistics import AgentStatistics
from headrace.agent.storages import OpenStores
from headrace.agent.threads import DaemonThreads
from headrace.core.job import MAX_STEP
from headrace.core.parts import MOST_PARTS
from headrace.wire.messages import (
    FetchRequest,
    JobPlaces,
    JobRoster,
    RegisterJob,
)
from headrace.wire.serving import ApiError, StatusOf, application, json_answer, read_message

MAX_SAMPLES = 1 << 16
"""Most samples of one fetch."""

MAX_WAIT_S = 600.0
"""Longest patience that a fetch may have [s]."""

INDEXES_AT_ONCE = 2
"""Indexes that are encoded and sent at once; the others wait, for each is held in memory."""

_PIECE_BYTES = 1 << 20

_STATUSES: tuple[StatusOf, ...] = (
    (OutsideRootsError, 403, "outside-roots"),
    (UnsupportedError, 400, "unsupported"),
    *RANGE_STATUSES,
)


class Service:
    """Answers requests. Everything it decides is decided elsewhere."""

    def __init__(
        self,
        engine: Engine,
        config: AgentConfig,
        *,
        unix_socket: str | None,
        statistics: Callable[[], AgentStatistics],
        weight: Callable[[], int],
    ) -> None:
        self._engine = engine
        self._registry = Registry(engine, config, unix_socket=unix_socket, weight=weight)
        self._statistics = statistics
        self._source = RawSource(RawReader(), ByteBudget(config.raw_memory_bytes))
        self._stores = OpenStores()
        self.ranges = RangeService(
            config,
            self._registry.roots,
            engine.clock,
            stores=self._stores,
            budget=self._source.budget,
            threads=engine.threads,
            log=engine.books.log,
        )
        self.copying = Copying(
            config.copies,
            self._registry.roots,
            engine.clock,
            stores=self._stores,
            threads=engine.threads,
        )
        self._index_turns = asyncio.Semaphore(INDEXES_AT_ONCE)
        self._token = config.token

    def app(self) -> ASGIApp:
        """Return the ASGI application."""
        routes = [
            Route("/healthz", self._healthz, methods=["GET"]),
            Route("/v1/statistics", self._answer_statistics, methods=["GET"]),
            Route("/v1/index", self._index_of_url, methods=["GET"]),
            Route("/v1/jobs/{job}", self._register, methods=["PUT"]),
            Route("/v1/jobs/{job}", self._remove, methods=["DELETE"]),
            Route("/v1/jobs/{job}/roster", self._share, methods=["PUT"]),
            Route("/v1/jobs/{job}/roster", self._roster, methods=["GET"]),
            Route("/v1/jobs/{job}/places", self._take_places, methods=["PUT"]),
            Route("/v1/jobs/{job}/places", self._places, methods=["GET"]),
            Route("/v1/jobs/{job}/fetch", self._fetch, methods=["POST"]),
            Route("/v1/jobs/{job}/index/{source:int}", self._index, methods=["GET"]),
            *self.ranges.routes(),
            *self.copying.routes(),
        ]
        return application(routes, token=self._token, service="agent", statuses=_STATUSES)

    async def run(self) -> None:
        """Do what goes on between requests, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._registry.run())
            group.create_task(self.ranges.run())

    def close(self) -> None:
        """Start no more reads, and close what was read."""
        self._source.reader.close()
        self.ranges.close()
        self.copying.close()
        self._stores.close()
        self._registry.close()

    async def _healthz(self, _: Request) -> Response:
        return Response(b"ok\n", media_type="text/plain")

    async def _answer_statistics(self, _: Request) -> Response:
        return json_answer(self._statistics())

    async def _register(self, request: Request) -> Response:
        message = await read_message(request, RegisterJob)
        return json_answer(await self._registry.register(_job_name(request), message))

    async def _remove(self, request: Request) -> Response:
        self._job_of(request)
        self._engine.remove_job(_job_name(request))
        return Response(status_code=204)

    async def _share(self, request: Request) -> Response:
        message = await read_message(request, JobRoster)
        self._job_of(request)
        return json_answer(self._registry.share(_job_name(request), message))

    async def _roster(self, request: Request) -> Response:
        known = self._job_of(request).message
        return json_answer(JobRoster(roster=known.roster, places=known.places, cuts=known.cuts))

    async def _take_places(self, request: Request) -> Response:
        places = await read_message(request, JobPlaces)
        self._job_of(request)
        await self._registry.place(_job_name(request), places)
        return Response(status_code=204)

    async def _places(self, request: Request) -> Response:
        places = self._job_of(request).atlas.newest
        if places.version and places.version == request.query_params.get("have"):
            return Response(status_code=204)
        return json_answer(places)

    async def _fetch(self, request: Request) -> FrameStream:
        message = await read_message(request, FetchRequest)
        job = self._job_of(request)
        _check_fetch(message, job.samples)
        return FrameStream(self._engine, _job_name(request), message, self._source)

    async def _index(self, request: Request) -> IndexAnswer:
        source: int = request.path_params["source"]
        job = self._job_of(request)
        if source >= len(job.open.sources):
            raise ApiError(404, "not-found", f"the job has {len(job.open.sources)} sources, from 0")
        return self._index_answer(job.open.sources[source].index.to_bytes)

    async def _index_of_url(self, request: Request) -> IndexAnswer:
        url = request.query_params.get("url", "")
        return self._index_answer(lambda: self._registry.index_of(url))

    def _index_answer(self, make: Callable[[], bytes]) -> IndexAnswer:
        return IndexAnswer(make, self._index_turns, self._engine.threads)

    def _job_of(self, request: Request) -> ServedJob:
        job = self._engine.jobs.get(_job_name(request))
        if job is None:
            raise ApiError(
                404, "unknown-job", "no such job here (the agent may have restarted); PUT it first"
            )
        return job


class IndexAnswer:
    """ASGI answer that is a Parquet file: made in a thread when its turn comes, sent in pieces."""

    def __init__(
        self, make: Callable[[], bytes], turns: asyncio.Semaphore, threads: DaemonThreads
    ) -> None:
        self._make = make
        self._threads = threads
        self._turns = turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        async with self._turns:
            data = await self._threads.run(self._make)
            answer = StreamingResponse(
                _pieces(data),
                media_type="application/vnd.apache.parquet",
                headers={"Content-Length": str(len(data))},
            )
            await answer(scope, receive, send)


def _job_name(request: Request) -> str:
    name: str = request.path_params["job"]
    return name


def _check_fetch(message: FetchRequest, samples: int) -> None:
    wrong = None
    if len(message.samples) != len(message.epochs):
        wrong = f"{len(message.samples)} samples and {len(message.epochs)} epochs"
    elif message.parts and len(message.parts) != len(message.samples):
        wrong = f"{len(message.samples)} samples and {len(message.parts)} parts"
    elif not all(part.is_valid for part in message.parts):
        wrong = f"there are at most {MOST_PARTS} parts of a sample, counted from 0"
    elif not 0 < len(message.samples) <= MAX_SAMPLES:
        wrong = f"{len(message.samples)} samples; ask for 1 to {MAX_SAMPLES}"
    elif not 0 <= min(message.samples) <= max(message.samples) < samples:
        wrong = f"sample ids must be in [0, {samples})"
    elif not 0 <= message.rank < message.world:
        wrong = f"rank {message.rank} of {message.world}"
    elif message.wait_s > MAX_WAIT_S:
        wrong = f"wait_s={message.wait_s:g} is more than {MAX_WAIT_S:g}"
    elif min(*message.epochs, message.step, message.wait_s, message.step_time_s) < 0:
        wrong = "epochs, step, wait_s and step_time_s must not be negative"
    elif message.consumed_step < -1:
        wrong = "consumed_step must not be below -1, which is before the first step"
    elif max(*message.epochs, message.step, message.consumed_step) > MAX_STEP:
        wrong = f"steps and epochs must not be above {MAX_STEP}"
    if wrong is not None:
        raise ApiError(400, "bad-request", f"the fetch makes no sense: {wrong}")


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for begin in range(0, len(data), _PIECE_BYTES):
        yield data[begin : begin + _PIECE_BYTES]
