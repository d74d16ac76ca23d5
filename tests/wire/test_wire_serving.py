"""Reading a request's body: bounded in length and in time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message

from headrace.wire.serving import ApiError, application, json_answer, read_message


class Said(msgspec.Struct):
    """A message."""

    word: str


def request_of(drops: Sequence[bytes], pause_s: float) -> Request:
    """Return a request whose body comes in drops, of which the last is repeated for ever."""
    left = list(drops)

    async def receive() -> Message:
        await asyncio.sleep(pause_s)
        body = left.pop(0) if len(left) > 1 else left[0]
        return {"type": "http.request", "body": body, "more_body": True}

    scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
    return Request(scope, receive)


def test_a_body_in_small_drops_is_given_up_in_time() -> None:
    request = request_of([b'{"word": "', b"a"], pause_s=0.02)
    with pytest.raises(ApiError, match=r"within 0\.2 s") as refused:
        asyncio.run(read_message(request, Said, longest_s=0.2))
    assert (refused.value.status, refused.value.answer.code) == (408, "too-slow")


def test_a_body_without_an_end_is_given_up_when_it_is_too_long() -> None:
    request = request_of([b"a" * 100], pause_s=0.0)
    with pytest.raises(ApiError, match="1000 B at most"):
        asyncio.run(read_message(request, Said, most_bytes=1000))


def test_a_body_that_is_nested_without_end_is_refused() -> None:
    body: Message = {"type": "http.request", "body": b'{"zz":' + b"[" * 100_000, "more_body": False}

    async def receive() -> Message:
        return body

    request = Request({"type": "http", "method": "POST", "path": "/", "headers": []}, receive)
    with pytest.raises(ApiError, match="not a Said") as refused:
        asyncio.run(read_message(request, Said))
    assert refused.value.status == 400


def test_the_connection_of_a_body_that_was_too_slow_is_closed() -> None:
    async def take(request: Request) -> Response:
        return json_answer(await read_message(request, Said, longest_s=0.1))

    async def answer_to_drops() -> list[Message]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        app = application([Route("/", take, methods=["POST"])], token="t" * 20, service="test")
        request = request_of([b"a"], pause_s=0.02)
        shown = (b"authorization", b"Bearer " + b"t" * 20)
        await app({**request.scope, "headers": [shown]}, request.receive, send)
        return sent

    head = asyncio.run(answer_to_drops())[0]
    assert head["status"] == 408
    assert (b"connection", b"close") in head["headers"]
