"""The client's half of the wire, against a scripted server on a real socket."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import (
    AgentUnavailableError,
    AuthError,
    ConfigError,
    DeadlineError,
    ProtocolError,
    RefusedError,
)
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint, target_of
from headrace.wire.frames import FrameHeader, encode_frame, fresh_memory, pack_fields, read_frame
from headrace.wire.stream import BUFFER_BYTES, Body, SocketReader


class Pong(msgspec.Struct):
    n: int


class Script:
    """Answers each request with the next of ``answers``; None closes the connection instead."""

    def __init__(self, listener: socket.socket, answers: list[bytes | None]) -> None:
        self._listener = listener
        self._answers = answers
        self.requests: list[bytes] = []
        self.connections = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while self._answers:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with peer:
                self._serve_one(peer)

    def _serve_one(self, peer: socket.socket) -> None:
        while self._answers:
            request = _read_request(peer)
            if not request:
                return
            self.requests.append(request)
            answer = self._answers.pop(0)
            if answer is None:
                return
            peer.sendall(answer)


def _read_request(peer: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        part = peer.recv(65536)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while len(body) < length:
        body += peer.recv(65536)
    return head + b"\r\n\r\n" + body


def plain(body: bytes, status: str = "200 OK", extra: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    return head.encode() + body


def chunked(*chunks: bytes) -> bytes:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


@contextmanager
def scripted(*answers: bytes | None) -> Iterator[tuple[Script, Endpoint]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        script = Script(listener, list(answers))
        yield (
            script,
            Endpoint(address=f"http://127.0.0.1:{port}", token="secret", read_timeout_s=20.0),
        )


@contextmanager
def connected(endpoint: Endpoint) -> Iterator[Connection]:
    connection = Connection(endpoint)
    try:
        yield connection
    finally:
        connection.close()


def test_a_call_carries_the_token_and_decodes_the_answer() -> None:
    with scripted(plain(b'{"n": 3}')) as (script, endpoint), connected(endpoint) as connection:
        assert connection.call("PUT", "/v1/x", Pong, {"a": 1}).n == 3
    assert b"Authorization: Bearer secret" in script.requests[0]
    assert script.requests[0].endswith(b'{"a":1}')


def test_one_connection_serves_many_calls() -> None:
    answers = [chunked(b'{"n":', b" 1}"), plain(b'{"n": 2}'), plain(b'{"n": 3}')]
    with scripted(*answers) as (script, endpoint), connected(endpoint) as connection:
        assert [connection.call("GET", "/", Pong).n for _ in range(3)] == [1, 2, 3]
    assert script.connections == 1


def test_a_connection_that_the_agent_closed_while_idle_is_opened_again_once() -> None:
    answers = [plain(b'{"n": 1}'), None, plain(b'{"n": 2}')]
    with scripted(*answers) as (script, endpoint), connected(endpoint) as connection:
        assert connection.call("GET", "/", Pong).n == 1
        assert connection.call("GET", "/", Pong).n == 2
    assert script.connections == 2


def test_a_fresh_connection_that_breaks_is_not_tried_again() -> None:
    with (
        scripted(None, plain(b"{}")) as (script, endpoint),
        connected(endpoint) as connection,
        pytest.raises(AgentUnavailableError, match="is it running"),
    ):
        connection.call("GET", "/", Pong)
        assert len(script.requests) == 1


def test_after_an_answer_with_connection_close_the_next_call_connects_anew() -> None:
    answers = [plain(b'{"n": 1}', extra="Connection: close\r\n"), plain(b'{"n": 2}')]
    with scripted(*answers) as (_script, endpoint), connected(endpoint) as connection:
        assert connection.call("GET", "/", Pong).n == 1
        assert connection.call("GET", "/", Pong).n == 2


def test_a_refused_token_is_an_auth_error() -> None:
    body = b'{"error": "a token is needed", "code": "unauthorized"}'
    with (
        scripted(plain(body, "401 Unauthorized")) as (_, endpoint),
        connected(endpoint) as connection,
        pytest.raises(AuthError, match="token is needed"),
    ):
        connection.call("GET", "/", Pong)


def test_a_refusal_carries_its_code_and_sentence() -> None:
    body = b'{"error": "not below a root", "code": "outside-roots"}'
    with (
        scripted(plain(body, "403 Forbidden")) as (_, endpoint),
        connected(endpoint) as connection,
        pytest.raises(RefusedError, match="not below a root") as caught,
    ):
        connection.call("GET", "/", Pong)
    assert caught.value.code == "outside-roots"


def test_a_refusal_of_something_else_says_what_to_look_at() -> None:
    with (
        scripted(plain(b"<html>", "404 Not Found")) as (_, endpoint),
        connected(endpoint) as connection,
        pytest.raises(RefusedError, match="status 404 without a reason; is it the agent's port"),
    ):
        connection.call("GET", "/", Pong)


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH_9.6\r\n", plain(b"<html>"), plain(b'{"more":' + b"[" * 100_000)],
)
def test_something_else_behind_the_address_is_a_protocol_error(answer: bytes) -> None:
    with (
        scripted(answer) as (_, endpoint),
        connected(endpoint) as connection,
        pytest.raises(ProtocolError, match=r"agent http"),
    ):
        connection.call("GET", "/", Pong)


def test_silence_ends_in_a_deadline_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with (
            connected(Endpoint(address=address, read_timeout_s=0.05)) as connection,
            pytest.raises(DeadlineError, match="no answer in time"),
        ):
            connection.call("GET", "/", Pong)


def test_nobody_there_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with (
        connected(Endpoint(address=address)) as connection,
        pytest.raises(AgentUnavailableError, match="refused"),
    ):
        connection.call("GET", "/", Pong)


def test_an_answer_cut_off_in_a_chunk_is_noticed() -> None:
    cut = chunked(b"x" * 100)[:-60]
    with scripted(cut, None) as (script, endpoint), connected(endpoint) as connection:
        connection.send("POST", "/")
        answer = connection.receive()
        script._listener.close()
        connection.set_read_timeout(0.2)
        with pytest.raises((AgentUnavailableError, DeadlineError)):
            answer.read()


def test_frames_are_read_into_the_memory_they_are_given() -> None:
    image = np.arange(60_000, dtype=np.uint8).reshape(100, 200, 3)
    fields, payload = pack_fields({"image": image, "label": 3})
    parts = encode_frame(FrameHeader(kind="tensor", sample=1, fields=fields), payload)
    frame = b"".join(bytes(part) for part in parts)
    with (
        scripted(chunked(frame[:7], frame[7:50_000], frame[50_000:])) as (_, endpoint),
        connected(endpoint) as connection,
    ):
        connection.send("POST", "/")
        block = np.zeros((4, 100, 200, 3), np.uint8)
        place = block[2].reshape(-1).data
        label = memoryview(bytearray(8))
        read_frame(connection.receive(), lambda _: [place, label])
    assert np.array_equal(block[2], image)
    assert not block[[0, 1, 3]].any()


def test_a_unix_socket_is_an_address_too(tmp_path: Path) -> None:
    path = str(tmp_path / "a.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        Script(listener, [plain(b'{"n": 5}')])
        with connected(Endpoint(address=f"unix:{path}")) as connection:
            assert connection.call("GET", "/", Pong).n == 5


@pytest.mark.parametrize(
    "address", ["localhost:80", "ftp://h:1", "http://h", "unix:relative", "http://h:notaport", ""]
)
def test_an_address_of_no_known_form_is_refused_with_the_forms(address: str) -> None:
    with pytest.raises(ConfigError, match=r"unix:/|absolute"):
        Endpoint(address=address)


def test_a_token_never_appears_in_a_repr() -> None:
    assert "secret" not in repr(Endpoint(address="http://h:1", token="secret"))


def test_an_ipv6_address_is_taken_apart() -> None:
    assert target_of(Endpoint(address="http://[::1]:80")).host == "::1"


class PiecewiseSocket:
    """Hands out a byte string in pieces of given sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data, self._sizes = data, sizes

    def makefile(self, *_: object, **__: object) -> PiecewiseSocket:
        return self

    def recv_into(self, view: memoryview, _size: int = 0, _flags: int = 0) -> int:
        size = self._sizes.pop(0) if self._sizes else len(view)
        part = self._data[: min(size, len(view))]
        view[: len(part)] = part
        self._data = self._data[len(part) :]
        return len(part)


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=3 * BUFFER_BYTES), max_size=4),
    sizes=st.lists(st.integers(1, 2 * BUFFER_BYTES), max_size=30),
    reads=st.lists(st.integers(1, 2 * BUFFER_BYTES), min_size=1, max_size=8),
)
def test_a_chunked_body_is_the_same_however_it_arrives_and_is_read(
    chunks: list[bytes], sizes: list[int], reads: list[int]
) -> None:
    data = chunked(*chunks).partition(b"\r\n\r\n")[2]
    reader = SocketReader(PiecewiseSocket(data, sizes))  # type: ignore[arg-type]
    body = Body(reader, length=None, chunked=True)
    seen = b""
    for turn in range(1000):
        memory = bytearray(reads[turn % len(reads)])
        count = body.readinto(memoryview(memory))
        seen += memory[:count]
        if not count:
            break
    assert seen == b"".join(chunks)


def test_the_end_of_a_chunk_does_not_tell_that_another_one_came() -> None:
    near, far = socket.socketpair()
    with near, far:
        body = Body(SocketReader(near), length=None, chunked=True)
        far.sendall(b"3\r\nabc\r\n")
        assert body.more_nowait()
        assert bytes(body.take(3)) == b"abc"
        assert not body.more_nowait()
        far.sendall(b"2\r\nde\r\n0\r\n\r\n")
        assert body.more_nowait()
        assert bytes(body.take(9)) == b"de"
        assert not body.more_nowait()


def test_only_bytes_that_had_to_be_waited_for_are_told_as_waited_for() -> None:
    near, far = socket.socketpair()
    with near, far:
        reader = SocketReader(near)
        memory = bytearray(4 * BUFFER_BYTES)
        far.sendall(bytes(len(memory)))
        reader.readinto(memoryview(memory))
        assert reader.take_wait() is None
        far.sendall(bytes(BUFFER_BYTES))
        late = threading.Timer(0.05, far.sendall, [bytes(3 * BUFFER_BYTES)])
        late.start()
        reader.readinto(memoryview(memory))
        late.join()
        wait = reader.take_wait()
        assert wait is not None
        assert wait.nbytes == 3 * BUFFER_BYTES
        assert 0.02 < wait.end - wait.begin < 5
        assert reader.take_wait() is None


def test_frames_through_fresh_memory_round_trip() -> None:
    fields, payload = pack_fields({"text": "ü"})
    parts = encode_frame(FrameHeader(kind="raw", sample=1, fields=fields), payload)
    with (
        scripted(plain(b"".join(bytes(part) for part in parts))) as (_, endpoint),
        connected(endpoint) as connection,
    ):
        connection.send("POST", "/")
        header, buffers = read_frame(connection.receive(), fresh_memory)
    assert (header.kind, bytes(buffers[0]).decode()) == ("raw", "ü")


@contextmanager
def tls_server(authority: trustme.CA, *answers: bytes) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as plain_listener:
        port = plain_listener.getsockname()[1]
        with context.wrap_socket(plain_listener, server_side=True) as listener:
            Script(listener, list(answers))
            yield port


def test_tls_is_spoken_with_a_certificate_that_the_ca_file_vouches_for(tmp_path: Path) -> None:
    authority = trustme.CA()
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    large = b"x" * 300_000
    with tls_server(authority, plain(b'{"n": 1}'), chunked(large)) as port:
        endpoint = Endpoint(address=f"https://localhost:{port}", ca_file=str(ca_file))
        with connected(endpoint) as connection:
            assert connection.call("GET", "/", Pong).n == 1
            connection.send("GET", "/")
            assert connection.receive().read() == large


def test_a_certificate_that_nobody_vouches_for_is_an_auth_error(tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    with tls_server(trustme.CA(), plain(b"{}")) as port:
        endpoint = Endpoint(address=f"https://localhost:{port}", ca_file=str(other))
        with connected(endpoint) as connection, pytest.raises(AuthError, match="not trusted"):
            connection.call("GET", "/", Pong)


def test_a_ca_file_that_is_not_there_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        endpoint = Endpoint(address=f"https://localhost:{port}", ca_file="/no/ca.pem")
        with connected(endpoint) as connection, pytest.raises(ConfigError, match=r"/no/ca\.pem"):
            connection.call("GET", "/", Pong)
