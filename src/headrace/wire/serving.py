"""What headrace's HTTP services share: authorization, patience, messages, errors as messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Set
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.core.errors import (
    CallerError,
    CorruptDataError,
    HeadraceError,
    NotFoundError,
    StaleIndexError,
)
from headrace.wire.auth import is_authorized
from headrace.wire.control import BINARY
from headrace.wire.listening import SEND_TIMEOUT_S
from headrace.wire.messages import ErrorAnswer

MAX_BODY_BYTES = 64 << 20
"""Longest request body: a registration may carry a tokenizer [bytes]."""

BODY_TIMEOUT_S = 30.0
"""A request's body must be there within this time: one in small drops would last for ever [s]."""

OPEN_PATHS = frozenset({"/healthz"})
"""Paths that need no token, unless a service opens more."""

StatusOf = tuple[type[HeadraceError], int, str]
"""An error of the tree, the HTTP status that tells it, and its stable name."""

STATUSES: tuple[StatusOf, ...] = (
    (NotFoundError, 404, "not-found"),
    (StaleIndexError, 409, "stale-index"),
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


def application(
    routes: Sequence[Route],
    *,
    token: str,
    service: str,
    statuses: Sequence[StatusOf] = (),
    open_paths: Set[str] = OPEN_PATHS,
) -> ASGIApp:
    """Return an ASGI application that bounds its waits, asks for the token and explains errors.

    Args:
        routes: What it answers; handlers may raise ``ApiError`` and errors of the tree.
        token: What every request must show.
        service: What it is called in messages, as in "this agent's protocol".
        statuses: Errors of the service's own, looked at before ``STATUSES``.
        open_paths: Paths that need no token.
    """
    known = (*statuses, *STATUSES)

    async def answer_error(_: Request, error: HeadraceError) -> Response:
        for kind, status, code in known:
            if isinstance(error, kind):
                return error_answer(ApiError(status, code, str(error)))
        raise error

    async def answer_no_route(request: Request, error: HTTPException) -> Response:
        said = f"{request.method} {request.url.path} is not part of this {service}'s protocol"
        return error_answer(ApiError(error.status_code, "no-route", said))

    handlers: dict[Any, Any] = {
        ApiError: _answer_api_error,
        HeadraceError: answer_error,
        404: answer_no_route,
        405: answer_no_route,
    }
    inner = Starlette(routes=routes, exception_handlers=handlers)
    return Impatient(Authorized(inner, token, service, open_paths))


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
    """Lets a request through when it shows the token, or needs none."""

    def __init__(
        self, app: ASGIApp, token: str, service: str, open_paths: Set[str] = OPEN_PATHS
    ) -> None:
        self._app = app
        self._service = service
        self._open_paths = open_paths
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, or pass on."""
        if scope["type"] != "http" or scope["path"] in self._open_paths:
            await self._app(scope, receive, send)
            return
        shown = dict(scope["headers"]).get(b"authorization")
        if is_authorized(shown, self._token):
            await self._app(scope, receive, send)
        else:
            said = "it is wrong" if shown else "none was sent"
            error = ApiError(
                401,
                "unauthorized",
                f"a bearer token is needed and {said}; use the {self._service}'s own",
            )
            answer = error_answer(error, headers={"WWW-Authenticate": "Bearer"})
            await answer(scope, receive, send)


async def read_message(
    request: Request,
    form: type[M],
    *,
    most_bytes: int = MAX_BODY_BYTES,
    longest_s: float = BODY_TIMEOUT_S,
) -> M:
    """Return a request's body: MessagePack where the content type says so, else JSON.

    Raises:
        ApiError: it is too long, too slow, was cut off, or is no such message.
    """
    try:
        async with asyncio.timeout(longest_s):
            body = await _read_body(request, most_bytes)
    except TimeoutError as error:
        said = f"a body must be there within {longest_s:g} s; send it at once, or a shorter one"
        raise ApiError(408, "too-slow", said) from error
    except ClientDisconnect as error:
        raise ApiError(400, "cut-off", "the client left before its request was read") from error
    decode = msgspec.msgpack.decode if is_binary(request) else msgspec.json.decode
    try:
        return decode(body, type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(400, "bad-request", f"not a {form.__name__}: {error}") from error


async def _read_body(request: Request, most_bytes: int) -> bytearray:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise ApiError(413, "too-large", f"a body may have {most_bytes} B at most")
    return body


def is_binary(request: Request) -> bool:
    """Return whether a request's body is MessagePack; its answer is then, too."""
    return request.headers.get("content-type") == BINARY


def binary_answer(message: msgspec.Struct) -> Response:
    """Return a message as an answer in MessagePack."""
    return Response(msgspec.msgpack.encode(message), media_type=BINARY)


def json_answer(message: msgspec.Struct) -> Response:
    """Return a message as an answer."""
    return Response(msgspec.json.encode(message), media_type="application/json")


def error_answer(error: ApiError, headers: dict[str, str] | None = None) -> Response:
    """Return an error as an answer."""
    return Response(
        msgspec.json.encode(error.answer),
        status_code=error.status,
        headers=headers,
        media_type="application/json",
    )


async def _answer_api_error(_: Request, error: ApiError) -> Response:
    # What was too slow may go on coming in small drops: only its connection's end ends that.
    return error_answer(error, {"Connection": "close"} if error.status == 408 else None)
