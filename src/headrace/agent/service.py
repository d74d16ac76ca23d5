"""The agent's HTTP interface: routes, authorization, limits, errors as messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.agent.answer import FrameStream, RawSource
from headrace.agent.config import AgentConfig
from headrace.agent.engine import Engine
from headrace.agent.jobs import ServedJob
from headrace.agent.listening import SEND_TIMEOUT_S
from headrace.agent.raw import ByteBudget, RawReader
from headrace.agent.registry import MAX_STEP, Registry, UnsupportedError
from headrace.agent.roots import OutsideRootsError
from headrace.agent.statistics import AgentStatistics
from headrace.core.errors import (
    CallerError,
    CorruptDataError,
    HeadraceError,
    NotFoundError,
    StaleIndexError,
)
from headrace.wire.auth import is_authorized
from headrace.wire.messages import (
    ErrorAnswer,
    FetchRequest,
    JobPlaces,
    JobRoster,
    RegisterJob,
)

MAX_BODY_BYTES = 64 << 20
"""Longest request body: a registration may carry a tokenizer [bytes]."""

MAX_SAMPLES = 1 << 16
"""Most samples of one fetch."""

MAX_WAIT_S = 600.0
"""Longest patience that a fetch may have [s]."""

INDEXES_AT_ONCE = 2
"""Indexes that are encoded and sent at once; the others wait, for each is held in memory."""

_PIECE_BYTES = 1 << 20

_STATUS: tuple[tuple[type[HeadraceError], int, str], ...] = (
    (OutsideRootsError, 403, "outside-roots"),
    (NotFoundError, 404, "not-found"),
    (StaleIndexError, 409, "stale-index"),
    (UnsupportedError, 400, "unsupported"),
    (CallerError, 400, "bad-request"),
    (CorruptDataError, 409, "corrupt-index"),
    (HeadraceError, 502, "storage"),
)

M = TypeVar("M")


class ApiError(Exception):
    """An answer other than success."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.answer = ErrorAnswer(error=message, code=code)


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
        ]
        handlers: dict[Any, Any] = {
            ApiError: _answer_api_error,
            HeadraceError: _answer_error,
            404: _answer_no_route,
            405: _answer_no_route,
        }
        inner = Starlette(routes=routes, exception_handlers=handlers)
        return Impatient(Authorized(inner, self._token))

    async def run(self) -> None:
        """Do what goes on between requests, until cancelled."""
        await self._registry.run()

    def close(self) -> None:
        """Start no more reads, and close what was read."""
        self._source.reader.close()
        self._registry.close()

    async def _healthz(self, _: Request) -> Response:
        return Response(b"ok\n", media_type="text/plain")

    async def _answer_statistics(self, _: Request) -> Response:
        return _json(self._statistics())

    async def _register(self, request: Request) -> Response:
        message = await _read(request, RegisterJob)
        return _json(await self._registry.register(_job_name(request), message))

    async def _remove(self, request: Request) -> Response:
        self._job_of(request)
        self._engine.remove_job(_job_name(request))
        return Response(status_code=204)

    async def _share(self, request: Request) -> Response:
        message = await _read(request, JobRoster)
        self._job_of(request)
        return _json(self._registry.share(_job_name(request), message))

    async def _roster(self, request: Request) -> Response:
        known = self._job_of(request).message
        return _json(JobRoster(roster=known.roster, places=known.places))

    async def _take_places(self, request: Request) -> Response:
        places = await _read(request, JobPlaces)
        self._job_of(request)
        await self._registry.place(_job_name(request), places)
        return Response(status_code=204)

    async def _places(self, request: Request) -> Response:
        places = self._job_of(request).atlas.newest
        if places.version and places.version == request.query_params.get("have"):
            return Response(status_code=204)
        return _json(places)

    async def _fetch(self, request: Request) -> FrameStream:
        message = await _read(request, FetchRequest)
        job = self._job_of(request)
        _check_fetch(message, job.samples)
        return FrameStream(self._engine, _job_name(request), message, self._source)

    async def _index(self, request: Request) -> IndexAnswer:
        source: int = request.path_params["source"]
        job = self._job_of(request)
        if source >= len(job.open.sources):
            raise ApiError(404, "not-found", f"the job has {len(job.open.sources)} sources, from 0")
        return IndexAnswer(job.open.sources[source].index.to_bytes, self._index_turns)

    async def _index_of_url(self, request: Request) -> IndexAnswer:
        url = request.query_params.get("url", "")
        return IndexAnswer(lambda: self._registry.index_of(url), self._index_turns)

    def _job_of(self, request: Request) -> ServedJob:
        job = self._engine.jobs.get(_job_name(request))
        if job is None:
            raise ApiError(
                404, "unknown-job", "no such job here (the agent may have restarted); PUT it first"
            )
        return job


class IndexAnswer:
    """ASGI answer that is a Parquet file: made in a thread when its turn comes, sent in pieces."""

    def __init__(self, make: Callable[[], bytes], turns: asyncio.Semaphore) -> None:
        self._make = make
        self._turns = turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        async with self._turns:
            data = await asyncio.to_thread(self._make)
            answer = StreamingResponse(
                _pieces(data),
                media_type="application/vnd.apache.parquet",
                headers={"Content-Length": str(len(data))},
            )
            await answer(scope, receive, send)


class Impatient:
    """Gives up on a client that takes nothing of its answer for long, for it holds memory."""

    def __init__(self, app: ASGIApp, patience_s: float = SEND_TIMEOUT_S) -> None:
        self._app = app
        self._patience_s = patience_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with every wait for the client bounded.

        Raises:
            TimeoutError: the client took nothing in time; the server closes the connection.
        """

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(self._patience_s):
                await send(message)

        await self._app(scope, receive, send_in_time)


class Authorized:
    """Lets a request through when it shows the token; ``/healthz`` needs none."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, or pass on."""
        if scope["type"] != "http" or scope["path"] == "/healthz":
            await self._app(scope, receive, send)
            return
        shown = dict(scope["headers"]).get(b"authorization")
        if is_authorized(shown, self._token):
            await self._app(scope, receive, send)
        else:
            said = "it is wrong" if shown else "none was sent"
            error = ApiError(
                401, "unauthorized", f"a bearer token is needed and {said}; use the agent's own"
            )
            answer = _error(error, headers={"WWW-Authenticate": "Bearer"})
            await answer(scope, receive, send)


def _job_name(request: Request) -> str:
    name: str = request.path_params["job"]
    return name


async def _read(request: Request, form: type[M]) -> M:
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise ApiError(413, "too-large", f"a body may have {MAX_BODY_BYTES} B at most")
    except ClientDisconnect as error:
        raise ApiError(400, "cut-off", "the client left before its request was read") from error
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ApiError(400, "bad-request", f"not a {form.__name__}: {error}") from error


def _check_fetch(message: FetchRequest, samples: int) -> None:
    wrong = None
    if len(message.samples) != len(message.epochs):
        wrong = f"{len(message.samples)} samples and {len(message.epochs)} epochs"
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


def _json(message: msgspec.Struct) -> Response:
    return Response(msgspec.json.encode(message), media_type="application/json")


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for begin in range(0, len(data), _PIECE_BYTES):
        yield data[begin : begin + _PIECE_BYTES]


def _error(error: ApiError, headers: dict[str, str] | None = None) -> Response:
    return Response(
        msgspec.json.encode(error.answer),
        status_code=error.status,
        headers=headers,
        media_type="application/json",
    )


async def _answer_api_error(_: Request, error: ApiError) -> Response:
    return _error(error)


async def _answer_error(_: Request, error: HeadraceError) -> Response:
    for kind, status, code in _STATUS:
        if isinstance(error, kind):
            return _error(ApiError(status, code, str(error)))
    raise error


async def _answer_no_route(request: Request, error: HTTPException) -> Response:
    said = f"{request.method} {request.url.path} is not part of this agent's protocol"
    return _error(ApiError(error.status_code, "no-route", said))
