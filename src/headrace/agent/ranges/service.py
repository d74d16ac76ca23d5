"""Calls about ranges: ``GET /v1/ranges`` and ``/v1/preloads/{name}``."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from headrace.agent.agentlog import AgentLog
from headrace.agent.config import AgentConfig
from headrace.agent.ranges.leases import RangeLeases
from headrace.agent.ranges.memory import FileName, Piece, RangeMemory, Versioned
from headrace.agent.ranges.reading import BeyondEndError, ChangedError, RangeReading
from headrace.agent.raw import ByteBudget
from headrace.agent.roots import Located, Roots
from headrace.agent.statistics import RangeStatistics
from headrace.agent.storages import OpenStores
from headrace.agent.threads import DaemonThreads
from headrace.core.clock import Clock
from headrace.core.errors import HeadraceError, NotFoundError
from headrace.wire.ranges import (
    MOST_RANGE_BYTES,
    VERSION_HEADER,
    Preload,
    PreloadedFile,
    PreloadedFiles,
    PreloadState,
)
from headrace.wire.serving import ApiError, StatusOf, json_answer, read_message

STATUSES: tuple[StatusOf, ...] = (
    (ChangedError, 409, "changed"),
    (BeyondEndError, 416, "beyond-end"),
)

MOST_PRELOADS = 256
"""Preloads of one agent at the same time."""

MOST_RANGES = 16_384
"""Ranges of one preload."""

LONGEST_LEASE_S = 86_400.0
"""A lease that lasts longer is to be renewed [s]."""

BELIEVED_S = 2.0
"""How long after a look at a file it is taken for the one that is kept [s]."""

_PIECE_BYTES = 1 << 20

_LARGEST = 1 << 62


class RangeService:
    """Answers calls about ranges of files inside the agent's roots.

    Args:
        config: Of the agent.
        roots: What may be read.
        clock: Measures leases.
        stores: What is opened there.
        budget: Lends the bytes that are on their way to those who ask.
        threads: For looking at paths.
        log: Records what is sent and read.
    """

    def __init__(
        self,
        config: AgentConfig,
        roots: Roots,
        clock: Clock,
        *,
        stores: OpenStores,
        budget: ByteBudget,
        threads: DaemonThreads,
        log: AgentLog,
    ) -> None:
        self._roots = roots
        self._clock = clock
        self._threads = threads
        self._log = log
        self._memory = RangeMemory(config.range_memory_bytes)
        self._reading = RangeReading(budget, stores, log)
        self.leases = RangeLeases(self._memory, self._reading, clock)
        self._requests = self._sent_bytes = self._kept_bytes = 0

    def routes(self) -> Sequence[Route]:
        """Return what is answered."""
        preload = "/v1/preloads/{name}"
        return [
            Route("/v1/ranges", self._range, methods=["GET"]),
            Route("/v1/preloads", self._list, methods=["GET"]),
            Route(preload, self._put, methods=["PUT"]),
            Route(preload, self._state, methods=["GET"]),
            Route(preload, self._drop, methods=["DELETE"]),
        ]

    async def run(self) -> None:
        """Read what leases want, until cancelled."""
        await self.leases.run()

    def close(self) -> None:
        """Start no more reads."""
        self._reading.close()

    def statistics(self) -> RangeStatistics:
        """Return counts since the start and levels now."""
        return RangeStatistics(
            preloads=len(self.leases),
            memory_used_bytes=self._memory.used,
            memory_budget_bytes=self._memory.nbytes,
            requests=self._requests,
            sent_bytes=self._sent_bytes,
            kept_bytes=self._kept_bytes,
            read_bytes=self._reading.read_bytes,
            shared=self._reading.shared,
        )

    async def _range(self, request: Request) -> RangeAnswer:
        query = request.query_params
        offset, length = _number(query, "offset"), _number(query, "length")
        if not 0 < length <= MOST_RANGE_BYTES:
            raise _bad(f"length={length} must lie in [1, {MOST_RANGE_BYTES}]")
        place = await self._locate(query.get("url", ""))
        wanted = Piece(FileName(place, _path(query.get("path", ""))), offset, length)
        self._requests += 1
        return RangeAnswer(self, wanted, query.get("have"))

    async def _put(self, request: Request) -> Response:
        name, preload = _name(request), await read_message(request, Preload)
        _check_preload(preload)
        place = await self._locate(preload.url)
        if len(self.leases) >= MOST_PRELOADS and name not in self.leases:
            raise ApiError(
                503, "full", f"this agent has {MOST_PRELOADS} preloads already; end some, or wait"
            )
        return json_answer(self.leases.put(name, place, preload))

    async def _list(self, request: Request) -> Response:
        place = await self._locate(request.query_params.get("url", ""))
        files = (
            PreloadedFile(path=path, ready_bytes=ready) for path, ready in self._memory.below(place)
        )
        return json_answer(PreloadedFiles(files=tuple(files)))

    async def _state(self, request: Request) -> Response:
        return json_answer(self._state_of(_name(request)))

    async def _drop(self, request: Request) -> Response:
        self.leases.drop(_name(request))
        return Response(status_code=204)

    def _state_of(self, name: str) -> PreloadState:
        try:
            return self.leases.state(name)
        except KeyError:
            raise ApiError(
                404, "not-found", f"no preload {name} here: its lease has ended; PUT it first"
            ) from None

    async def _locate(self, url: str) -> Located:
        return await self._threads.run(lambda: self._roots.locate(url))

    @asynccontextmanager
    async def found(self, wanted: Piece, have: str | None) -> AsyncIterator[Versioned]:
        """Give the bytes of a range, which are held in memory until the block ends.

        Args:
            wanted: The range.
            have: Version that its file must have; None: any.

        Raises:
            ChangedError: the file has another version.
            HeadraceError: it cannot be read.
        """
        begin = time.monotonic()
        kept = await self._kept(wanted)
        if kept is not None:
            _check_version(kept, wanted, have)
            self._kept_bytes += wanted.length
            yield kept
        else:
            async with self._reading.shared_read(wanted) as read:
                _check_version(read, wanted, have)
                yield read
        file, is_kept = wanted.file.whole, kept is not None
        self._log.served_range(file, wanted.offset, wanted.length, begin, kept=is_kept)

    def count_sent(self, nbytes: int) -> None:
        """Count bytes of ranges that went out."""
        self._sent_bytes += nbytes

    async def _kept(self, wanted: Piece) -> Versioned | None:
        await self._look_again(wanted.file)
        return await self._memory.find(wanted)

    async def _look_again(self, file: FileName) -> None:
        """Look now and then whether a kept file is still the same; one that is away stays kept."""
        known = self._memory.seen(file)
        if known is None or self._clock.now() - known.at < BELIEVED_S:
            return
        self._memory.confirm(file, self._clock.now())  # whoever asks meanwhile need not look
        try:
            is_same = await self._reading.version(file) in (known.version, None)
        except NotFoundError:
            is_same = False
        except HeadraceError:
            return
        if not is_same:
            self._memory.forget(file, known.version)


class RangeAnswer:
    """ASGI answer that is the bytes of a range; their memory is held until they are sent."""

    def __init__(self, service: RangeService, wanted: Piece, have: str | None) -> None:
        self._service = service
        self._wanted = wanted
        self._have = have

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the answer."""
        async with self._service.found(self._wanted, self._have) as found:
            headers = [
                (b"content-type", b"application/octet-stream"),
                (b"content-length", str(self._wanted.length).encode()),
                (VERSION_HEADER.lower().encode(), found.version.encode()),
            ]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for part in found.parts:
                await self._send(part, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, part: memoryview, send: Send) -> None:
        for at in range(0, len(part), _PIECE_BYTES):
            piece = part[at : at + _PIECE_BYTES]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            self._service.count_sent(len(piece))


def _check_version(found: Versioned, wanted: Piece, have: str | None) -> None:
    if have is not None and found.version != have:
        raise ChangedError(
            f"{wanted.file.path} has version {found.version} by now, not {have}; "
            "look at the checkpoint again"
        )


def _check_preload(preload: Preload) -> None:
    if not 0 < preload.lease_s <= LONGEST_LEASE_S:
        raise _bad(f"lease_s={preload.lease_s:g} must lie in (0, {LONGEST_LEASE_S:g}]")
    if not 0 < len(preload.ranges) <= MOST_RANGES:
        raise _bad(f"{len(preload.ranges)} ranges; give 1 to {MOST_RANGES}")
    for wanted in preload.ranges:
        _path(wanted.path)
        if not (0 <= wanted.offset < _LARGEST and 0 < wanted.length < _LARGEST):
            raise _bad(f"a range of {wanted.length} B at {wanted.offset} is none")


def _number(query: QueryParams, name: str) -> int:
    text = query.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise _bad(f"{name}={text!r} must be a number of bytes")
    return int(text)


def _path(path: str) -> str:
    if not path or "\0" in path or path.startswith("/") or ".." in path.split("/"):
        raise _bad(f"path={path!r} must name a file below url, without '..'")
    return path


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    return name


def _bad(what: str) -> ApiError:
    return ApiError(400, "bad-request", f"the request makes no sense: {what}")
