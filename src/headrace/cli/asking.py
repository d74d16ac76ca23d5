"""How verbs about an estate ask its controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlencode

import click
import msgspec

from headrace.core.errors import ConfigError, NotFoundError, ProtocolError, RefusedError
from headrace.wire.auth import load_token
from headrace.wire.connection import Connection
from headrace.wire.endpoint import CONTROLLER_VARIABLE, Endpoint

MOST_BYTES = 256 << 20
"""Longest answer: an estate of many thousand jobs [bytes]."""

PATIENCE_S = 10.0
"""Longest wait for an answer, unless it is known to take longer [s]."""

A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])


def controller_options(command: F) -> F:
    """Add the options that say where the controller is and how to be let in."""
    for option in (
        click.option("--ca-file", help="Certificates to trust besides the system's, PEM."),
        click.option(
            "--token-file",
            type=click.Path(path_type=Path),
            help="Bearer token; else $HEADRACE_TOKEN is taken.",
        ),
        click.option(
            "--controller",
            metavar="URL",
            envvar=CONTROLLER_VARIABLE,
            help=f"Where it answers; else ${CONTROLLER_VARIABLE} is taken.",
        ),
    ):
        command = option(command)
    return command


def require_https(option: str, ca_file: object, controller: str | None) -> None:
    """Refuse certificates for a controller that would be talked to in clear.

    Raises:
        ConfigError: there are some, and its address is not ``https``.
    """
    if ca_file and not (controller or "").startswith("https://"):
        raise ConfigError(
            f"{option}={ca_file} is for a controller at an https:// address, not {controller}; "
            "write --controller https://…, or leave it out"
        )


class Asker:
    """A connection to a controller, for one thread; closed at the end of a ``with`` block."""

    def __init__(
        self,
        controller: str | None,
        token_file: Path | None,
        ca_file: str | None,
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        if not controller:
            raise ConfigError(
                "no controller is named; give --controller http://HOST:PORT, or set "
                f"${CONTROLLER_VARIABLE}"
            )
        require_https("--ca-file", ca_file, controller)
        endpoint = Endpoint(
            address=controller,
            token=load_token(token_file),
            ca_file=ca_file,
            read_timeout_s=patience_s,
            service="controller",
        )
        self.address = controller
        self._connection = Connection(endpoint)

    def __enter__(self) -> Asker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def get(self, path: str, answer: type[A], query: Mapping[str, str | float] | None = None) -> A:
        """Return what the controller answers.

        Raises:
            RemoteError: it does not, or refuses; the message says what to do.
        """
        return self.ask("GET", f"{path}?{urlencode(query)}" if query else path, answer)

    def end(self, path: str, answer: type[A]) -> A:
        """End what the caller named, and return the answer.

        Raises:
            NotFoundError: the controller has nothing of that name.
            RemoteError: as ``ask``.
        """
        try:
            return self.ask("DELETE", path, answer)
        except RefusedError as error:
            if error.code == "not-found":
                raise NotFoundError(str(error)) from error
            raise

    def ask(
        self, method: str, path: str, answer: type[A], message: msgspec.Struct | None = None
    ) -> A:
        """Send a message, if there is one, and return the answer.

        Raises:
            RemoteError: there is none, or it is a refusal; the message says what to do.
        """
        body = b"" if message is None else msgspec.json.encode(message)
        self._connection.send(method, path, body)
        text = self._connection.receive().read(MOST_BYTES)
        try:
            return msgspec.json.decode(text, type=answer)
        except msgspec.MsgspecError as error:
            raise ProtocolError(
                f"controller {self.address} {path}: not a controller's answer ({error}); is it "
                "the controller's port, and of this version?"
            ) from error
