"""Sockets that a daemon listens at: opened before anything else, so that a clash is told early."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import CallerError, ConfigError

SEND_TIMEOUT_S = 30.0
"""A client that takes nothing for this long is cut off, for it holds memory [s]."""

MAX_CONNECTIONS = 1 << 14
"""Connections at once, idle ones included: every rank of a large job keeps one or two."""

_BACKLOG = 1024
_OTHER_FILES = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Listen:
    """One address to listen at: TCP, or a Unix socket."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: any free port; the ready line tells which."""

    unix_path: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether only this host can connect."""
        return self.unix_path is not None or self.host in ("127.0.0.1", "::1", "localhost")

    @classmethod
    def parse(cls, text: str) -> Listen:
        """Read ``HOST:PORT``, ``[v6]:PORT`` or ``unix:PATH``.

        Raises:
            ConfigError: it has another form.
        """
        if text.startswith("unix:"):
            return cls(unix_path=str(Path(text.removeprefix("unix:")).absolute()))
        host, separator, port = text.rpartition(":")
        if not separator or not port.isdigit() or int(port) > 65535:
            raise ConfigError(
                f"listen={text!r} must be HOST:PORT (port 0: any free one) or unix:PATH"
            )
        return cls(host=host.strip("[]") or "0.0.0.0", port=int(port))


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsFiles:
    """Certificate and key of the TCP address, PEM."""

    cert: Path
    key: Path

    def check(self) -> None:
        """Make sure that they can be used.

        Raises:
            ConfigError: they cannot be read, or do not belong together.
        """
        try:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"TLS certificate {self.cert} and key {self.key} cannot be used: {error}; "
                "both must be PEM files that belong together"
            ) from error


def open_socket(listen: Listen) -> socket.socket:
    """Return a listening socket.

    Raises:
        CallerError: the address is taken, not one of this host, or not permitted.
    """
    if listen.unix_path is not None:
        return _open_unix(Path(listen.unix_path))
    return _open_tcp(listen.host, listen.port)


def allow_connections() -> int:
    """Let this process hold as many sockets as the system allows; return how many [connections]."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + _OTHER_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(MAX_CONNECTIONS, soft - _OTHER_FILES))


def address_of(sock: socket.socket, *, tls: bool) -> str:
    """Return the address that clients are given."""
    if sock.family == socket.AF_UNIX:
        return f"unix:{sock.getsockname()}"
    host, port = sock.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def close_socket(sock: socket.socket, listen: Listen) -> None:
    """Close what ``open_socket`` returned, if nobody did, and remove its file."""
    sock.close()
    if listen.unix_path is not None:
        Path(listen.unix_path).unlink(missing_ok=True)


def _open_tcp(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise CallerError(f"cannot listen at {host}: {error}; use this host's own") from error
    family, kind, protocol, _, address = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit it: what a dead or stuck client has not taken is let go.
        cut_off_ms = round(SEND_TIMEOUT_S * 1000)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, cut_off_ms)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise CallerError(_why(f"{host}:{port}", error)) from error
    return sock


def _open_unix(path: Path) -> socket.socket:
    _remove_dead(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        previous = os.umask(0o177)
        try:
            sock.bind(str(path))
        finally:
            os.umask(previous)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise CallerError(_why(f"unix:{path}", error)) from error
    return sock


def _remove_dead(path: Path) -> None:
    """Remove the socket of a daemon that was killed; one that answers is left alone."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
            except OSError:
                return


def _why(address: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"cannot listen at {address}: another process does; stop it, or choose another "
            "address with --listen (port 0: any free one)"
        )
    return f"cannot listen at {address}: {error.strerror or error}; choose another with --listen"
