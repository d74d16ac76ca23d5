"""One keep-alive HTTP/1.1 connection to an agent or the controller, for one thread.

``send`` and ``receive`` are separate, so that one thread can ask several agents first and
read their answers as they come. Every request of the protocol may be repeated, so
one that met a connection which the agent had closed meanwhile is sent once more.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import socket
import ssl
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from headrace.core.errors import (
    AgentUnavailableError,
    AuthError,
    ConfigError,
    DeadlineError,
    HeadraceError,
    ProtocolError,
    RefusedError,
)
from headrace.wire.endpoint import Endpoint, Target, target_of
from headrace.wire.messages import ErrorAnswer
from headrace.wire.stream import Body, SocketReader, Wait

MAX_CONTROL_BYTES = 16 << 20
"""Longest JSON answer that is read: a controller's orders name every job [bytes]."""

PIECE_BYTES = 1 << 16
"""Bytes that are read at once of an answer whose length is not known."""

DRAIN_TIMEOUT_S = 1.0
"""Longest wait for the last bytes of an answer before its connection is given up [s]."""

_FOR_NOW = (502, 503, 504)
"""Statuses of an agent that cannot answer for now: its storage is away, or it is full."""

A = TypeVar("A")


class Answer:
    """The body of one answer, to be read in order."""

    def __init__(self, response: http.client.HTTPResponse, reader: SocketReader, peer: str) -> None:
        self.status = response.status
        self._response = response
        self._body = Body(reader, length=response.length, chunked=bool(response.chunked))
        self._peer = peer

    def more_nowait(self) -> bool:
        """Tell whether more can be read without waiting for the network.

        At the end of a connection there is nothing to wait for either; the next read tells.
        """
        try:
            return self._body.more_nowait()
        except OSError as error:
            raise _named(error, self._peer) from error

    def take(self, count: int) -> memoryview:
        """Return the next bytes, valid until the next read; fewer only at the end of the body."""
        try:
            return self._body.take(count)
        except (OSError, ValueError) as error:
            raise _named(error, self._peer) from error

    def readinto(self, buffer: memoryview) -> int:
        """Fill ``buffer``; fewer bytes, or 0, only at the end of the body."""
        try:
            return self._body.readinto(buffer)
        except (OSError, ValueError) as error:
            raise _named(error, self._peer) from error

    def read(self, limit: int = MAX_CONTROL_BYTES) -> bytes:
        """Return the rest of the body.

        Raises:
            ProtocolError: it is longer than ``limit``.
        """
        body, piece = bytearray(), memoryview(bytearray(PIECE_BYTES))
        while (count := self.readinto(piece)) and len(body) <= limit:
            body += piece[:count]
        if len(body) > limit:
            raise ProtocolError(f"{self._peer}: the answer is longer than {limit} B")
        return bytes(body)

    def header(self, name: str) -> str:
        """Return a header of the answer; empty where there is none."""
        return self._response.getheader(name, "")

    def finish(self) -> bool:
        """Read the last few bytes; False when there is more to come than a chunk's end."""
        try:
            ended = self.readinto(memoryview(bytearray(1))) == 0
        except HeadraceError:
            return False
        self._response.close()
        return ended


class Connection:
    """A connection that opens when first used and again after a failure. Not thread-safe."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._target = target_of(endpoint)
        self._http: http.client.HTTPConnection | None = None
        self._reader: SocketReader | None = None
        self._sent: tuple[str, str, bytes] = ("", "", b"")
        self._reused = False
        self._answer: Answer | None = None

    def call(self, method: str, path: str, answer: type[A], message: Any = None) -> A:
        """Send one message and return the decoded answer.

        Raises:
            AgentUnavailableError: no connection, or it broke.
            AuthError: the token or the certificate was refused.
            RefusedError: the agent refused the request and says why.
            AgentUnavailableError: it cannot answer for now, and says why.
            DeadlineError: no answer in time.
            ProtocolError: the answer is not what the protocol says.
        """
        self.send(method, path, b"" if message is None else msgspec.json.encode(message))
        body = self.receive().read()
        try:
            return msgspec.json.decode(body, type=answer)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ProtocolError(f"{self._peer} {path}: not the answer of one: {error}") from error

    def check(self) -> None:
        """Look whether the certificates to trust can be read, before anything is sent.

        Raises:
            ConfigError: they cannot.
        """
        if self._target.tls:
            _trusting(self.endpoint)

    def send(self, method: str, path: str, body: bytes = b"") -> None:
        """Write one request; ``receive`` must follow."""
        self._finish_previous()
        self._sent = (method, path, body)
        self._reused = self._http is not None
        try:
            self._write()
        except AgentUnavailableError:
            if not self._reused:
                raise
            self._again()

    def receive(self) -> Answer:
        """Wait for the head of the answer; its body is then read from what is returned.

        Raises:
            AuthError, RefusedError: the status says so; the body's sentence is the message.
        """
        try:
            response = self._read_head()
        except AgentUnavailableError:
            if not self._reused:
                raise
            self._again()
            response = self._read_head()
        assert self._reader is not None
        self._answer = Answer(response, self._reader, self._peer)
        if response.status >= 300:
            raise self._refusal(self._answer)
        return self._answer

    def fileno(self) -> int:
        """Return the socket's descriptor, to wait for an answer; -1 when not connected."""
        return self._reader.fileno() if self._reader else -1

    def take_wait(self) -> Wait | None:
        """Return how long large reads waited for bytes since this was asked last."""
        return None if self._reader is None else self._reader.take_wait()

    def set_read_timeout(self, seconds: float) -> None:
        """Bound each wait for bytes of the current answer."""
        if self._reader is not None:
            self._reader.set_timeout(max(seconds, 0.001))

    def close(self) -> None:
        """Drop the connection and whatever was still to come on it."""
        self._answer = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._http is not None:
            self._http.close()
            self._http = None

    @property
    def _peer(self) -> str:
        return f"{self.endpoint.service} {self.endpoint.address}"

    def _write(self) -> None:
        method, path, body = self._sent
        with self._closing_on_error(), _errors_named(self._peer):
            if self._http is None:
                self._open()
            assert self._http is not None
            self.set_read_timeout(self.endpoint.read_timeout_s)
            self._http.request(method, path, body or None, self._headers())

    def _read_head(self) -> http.client.HTTPResponse:
        with self._closing_on_error(), _errors_named(self._peer):
            assert self._http is not None
            return self._http.getresponse()

    def _again(self) -> None:
        self._reused = False
        self.close()
        self._write()

    def _headers(self) -> dict[str, str]:
        token = self.endpoint.token
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def _open(self) -> None:
        sock = _connected(self._target, self.endpoint)
        reader = SocketReader(sock)
        client = http.client.HTTPConnection(self._target.host, self._target.port or None)
        client.sock = sock
        client.response_class = functools.partial(_response, reader)  # type: ignore[assignment]
        self._http, self._reader = client, reader

    def _finish_previous(self) -> None:
        answer, self._answer = self._answer, None
        self.set_read_timeout(DRAIN_TIMEOUT_S)
        if (answer and not answer.finish()) or (self._http and self._http.sock is None):
            self.close()

    def _refusal(self, answer: Answer) -> HeadraceError:
        try:
            said = msgspec.json.decode(answer.read(), type=ErrorAnswer)
        except (msgspec.MsgspecError, ProtocolError, RecursionError):
            why = f"status {answer.status} without a reason"
            hint = f"is it the {self.endpoint.service}'s port, and of this version?"
            said = ErrorAnswer(error=f"{why}; {hint}", code="")
        message = f"{self._peer}: {said.error}"
        if answer.status == 401:
            return AuthError(message)
        if answer.status in _FOR_NOW:
            return AgentUnavailableError(message)
        return RefusedError(message, code=said.code)

    @contextlib.contextmanager
    def _closing_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


class _Shim:
    """What ``HTTPResponse`` takes for a socket: it hands out the connection's own reader."""

    def __init__(self, reader: SocketReader) -> None:
        self._reader = reader

    def makefile(self, _mode: str) -> _Borrowed:
        return _Borrowed(self._reader)


class _Borrowed:
    """A reader that a response may close without closing the connection's."""

    def __init__(self, reader: SocketReader) -> None:
        self.readinto = reader.readinto
        self.readline = reader.readline
        self.read = reader.read
        self.flush = reader.flush

    def close(self) -> None:
        """Do nothing: the connection closes its reader."""


def _response(reader: SocketReader, _sock: Any, **options: Any) -> http.client.HTTPResponse:
    return http.client.HTTPResponse(_Shim(reader), **options)  # type: ignore[arg-type]


def _connected(target: Target, endpoint: Endpoint) -> socket.socket:
    if target.socket_path is not None:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(endpoint.connect_timeout_s)
        try:
            sock.connect(target.socket_path)
        except BaseException:
            sock.close()
            raise
        return sock
    context = _trusting(endpoint) if target.tls else None
    sock = socket.create_connection((target.host, target.port), endpoint.connect_timeout_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock if context is None else context.wrap_socket(sock, server_hostname=target.host)


def _trusting(endpoint: Endpoint) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if endpoint.ca_file is not None:
        try:
            context.load_verify_locations(endpoint.ca_file)
        except OSError as error:
            raise ConfigError(
                f"ca_file={endpoint.ca_file} cannot be read ({error}); name a PEM file"
            ) from error
    return context


@contextlib.contextmanager
def _errors_named(peer: str) -> Iterator[None]:
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _named(error, peer) from error


def _named(error: Exception, peer: str) -> HeadraceError:
    """Return what a socket raised as an error of the tree that says what to do next."""
    match error:
        case ssl.SSLCertVerificationError():
            return AuthError(
                f"{peer}: its certificate is not trusted ({error.verify_message}); "
                "give ca_file, or the name that the certificate was made for"
            )
        case TimeoutError() | BlockingIOError():
            return DeadlineError(f"{peer}: no answer in time; is it overloaded or cut off?")
        case OSError():
            said = error.strerror or str(error) or type(error).__name__
            return AgentUnavailableError(
                f"{peer}: {said}; is it running, is the address right (https:// where it has TLS)?"
            )
        case _:
            return ProtocolError(f"{peer}: not HTTP/1.1 ({error!r}); is it the right port?")
