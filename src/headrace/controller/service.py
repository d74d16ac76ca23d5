"""The controller's HTTP interface: its calls as routes, and pages for people and tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.controller.call import Asked, Call, Parts
from headrace.controller.calls import CALLS
from headrace.controller.metrics import CONTENT_TYPE, exposition
from headrace.controller.openapi import describe
from headrace.controller.refusals import StaleReportError, UnknownAgentError, UnknownJobError
from headrace.controller.reservation_calls import VERSION, estate
from headrace.core.errors import HeadraceError, ReportError
from headrace.wire.serving import (
    OPEN_PATHS,
    ApiError,
    StatusOf,
    application,
    binary_answer,
    is_binary,
    json_answer,
    read_message,
)

_STATUSES: tuple[StatusOf, ...] = (
    (UnknownJobError, 404, "unknown-job"),
    (UnknownAgentError, 404, "unknown-agent"),
    (StaleReportError, 409, "stale-report"),
    (ReportError, 400, "bad-report"),
)


class Service:
    """Answers requests. Everything it decides is decided elsewhere."""

    def __init__(self, parts: Parts, *, token: str, open_metrics: bool) -> None:
        self._parts = parts
        self._token = token
        self._open = OPEN_PATHS | ({"/metrics"} if open_metrics else frozenset())
        self._description = msgspec.json.encode(describe(CALLS, version=VERSION))

    def app(self) -> ASGIApp:
        """Return the ASGI application."""
        routes = [
            *(Route(call.path, self._endpoint(call), methods=[call.method]) for call in CALLS),
            Route("/healthz", self._healthz, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
            Route("/openapi.json", self._openapi, methods=["GET"]),
        ]
        return application(
            routes,
            token=self._token,
            service="controller",
            statuses=_STATUSES,
            open_paths=self._open,
        )

    def _endpoint(self, call: Call) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                return await self._answer(call, request)
            except (ApiError, HeadraceError):
                self._parts.steward.refused += 1
                raise

        return answer

    async def _answer(self, call: Call, request: Request) -> Response:
        call.check(request.query_params)
        message = None
        if call.takes is not None:
            message = await read_message(request, call.takes, most_bytes=call.most_bytes)
        asked = Asked(
            parts=self._parts,
            names=request.path_params,
            query=request.query_params,
            message=message,
        )
        answer = await run_in_threadpool(call.act, asked) if call.waits else call.act(asked)
        if answer is None:
            return Response(status_code=204)
        return binary_answer(answer) if is_binary(request) else json_answer(answer)

    async def _healthz(self, _: Request) -> Response:
        degraded = self._parts.steward.journal.view().degraded
        said = f"degraded: the journal cannot be written: {degraded}\n" if degraded else "ok\n"
        return Response(said, media_type="text/plain")

    async def _metrics(self, _: Request) -> Response:
        return Response(exposition(estate(self._parts)), media_type=CONTENT_TYPE)

    async def _openapi(self, _: Request) -> Response:
        return Response(self._description, media_type="application/json")
