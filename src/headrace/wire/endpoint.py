"""Where a service listens and how to be let in, parsed from the address people write."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from headrace.core.errors import ConfigError

CONTROLLER_VARIABLE = "HEADRACE_CONTROLLER"
"""Environment variable that holds the controller's address where none is given."""

_SCHEMES = "http://HOST:PORT, https://HOST:PORT or unix:/PATH"


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """One address of a service of headrace's: an agent's, or the controller's."""

    address: str
    """``http://HOST:PORT``, ``https://HOST:PORT`` or ``unix:/PATH``."""

    token: str | None = field(default=None, repr=False)
    """Bearer token; it never appears in a message or a log."""

    ca_file: str | None = None
    """Certificates to trust besides the system's, PEM; for ``https`` only."""

    connect_timeout_s: float = 3.0
    """Longest wait for a connection [s]."""

    read_timeout_s: float = 30.0
    """Longest silence in the middle of an answer [s]."""

    service: str = "agent"
    """What listens there, as messages call it."""

    def __post_init__(self) -> None:
        if min(self.connect_timeout_s, self.read_timeout_s) <= 0:
            raise ConfigError(
                f"{self.service} {self.address}: timeouts must be positive seconds, not "
                f"{self.connect_timeout_s:g} and {self.read_timeout_s:g}"
            )
        target_of(self)
        if self.token is not None and not _is_header_safe(self.token):
            raise ConfigError(
                f"{self.service} {self.address}: the token has blanks or line ends; "
                "strip it where it is read from its file"
            )


@dataclass(frozen=True, slots=True)
class Target:
    """An address taken apart."""

    host: str
    port: int
    socket_path: str | None
    """Path of a Unix socket; host and port then mean nothing."""

    tls: bool


def target_of(endpoint: Endpoint) -> Target:
    """Take an endpoint's address apart.

    Raises:
        ConfigError: the address has no such form; the message names the forms.
    """
    address = endpoint.address
    if address.startswith("unix:"):
        return Target("localhost", 0, _socket_path(endpoint), tls=False)
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(
            f"{endpoint.service} address {address!r}: {error}; write {_SCHEMES}"
        ) from error
    if parts.scheme not in ("http", "https") or not host or port is None or parts.path.strip("/"):
        raise ConfigError(f"{endpoint.service} address {address!r} is not of the form {_SCHEMES}")
    return Target(host, port, None, tls=parts.scheme == "https")


def _socket_path(endpoint: Endpoint) -> str:
    path = endpoint.address.removeprefix("unix:").removeprefix("//")
    if not Path(path).is_absolute():
        raise ConfigError(
            f"{endpoint.service} address {endpoint.address!r}: write an absolute path, "
            "as in unix:/run/a"
        )
    return path


def _is_header_safe(token: str) -> bool:
    return bool(token) and all(33 <= ord(letter) < 127 for letter in token)
