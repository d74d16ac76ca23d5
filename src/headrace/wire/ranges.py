"""Messages about byte ranges of files that agents read, keep and serve: hot parts of checkpoints.

``GET /v1/ranges?url=…&path=…&offset=…&length=…`` answers with exactly these bytes and the header
``Headrace-Version`` (the file's version when they were read); ``have=VERSION`` in the query is
refused with 409 ``changed`` where the file is another one by now. What lies in a preload is
served from memory; anything else below the agent's roots is read for the one who asks, once for
all who ask at the same time.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode

import msgspec

from headrace.core.errors import AgentUnavailableError, ProtocolError
from headrace.wire.connection import Connection

VERSION_HEADER = "Headrace-Version"

MOST_RANGE_BYTES = 64 << 20
"""Longest range of one answer [bytes]."""


class WantedRange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes of one file."""

    path: str
    """Relative to the URL that goes with it."""

    offset: int
    length: int


class Preload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``PUT /v1/preloads/{name}``: read these and keep them; again to renew the lease.

    Answered with ``PreloadState`` at once, before they are read. ``GET`` tells how far it is,
    ``DELETE`` lets go of them.
    """

    url: str
    ranges: tuple[WantedRange, ...]
    lease_s: float
    """They are let go of this long after the last renewal [s]."""


class PreloadState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a preload is."""

    nbytes: int
    """Asked for [bytes]."""

    ready_bytes: int
    refused_bytes: int = 0
    """Not kept, as they do not fit into the agent's memory for them [bytes]."""

    reason: str = ""
    """Why bytes were refused, or could not be read."""

    expires_in_s: float = 0.0


class PreloadedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of which an agent keeps something, or is about to."""

    path: str
    """Relative to the URL that was asked about."""

    ready_bytes: int


class PreloadedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of ``GET /v1/preloads?url=…``: what the leases of an agent keep below a folder."""

    files: tuple[PreloadedFile, ...]


def fetch_range(
    connection: Connection,
    url: str,
    wanted: WantedRange,
    into: memoryview,
    *,
    have: str | None = None,
) -> str:
    """Read bytes of a file through an agent and return the version that they are from.

    Args:
        connection: To the agent, for this thread.
        url: Folder inside the agent's roots, or a URL inside its stores.
        wanted: The range, of 1 to ``MOST_RANGE_BYTES`` bytes.
        into: Takes them, uint8 ``[wanted.length]``; after an error it holds anything.
        have: Version that the file must have; None: any.

    Raises:
        RefusedError: ``changed``: the file has another version; ``beyond-end``: it is shorter;
            ``not-found``; ``outside-roots``; ``bad-request``.
        AgentUnavailableError: it cannot be reached or cannot read its storage for now, or it broke
            off in the middle.
        DeadlineError: no answer in time.
        AuthError, ProtocolError: as of ``Connection.call``.
    """
    named = {"url": url, "path": wanted.path, "offset": wanted.offset, "length": wanted.length}
    query = urlencode(named if have is None else {**named, "have": have}, errors="surrogateescape")
    connection.send("GET", f"/v1/ranges?{query}")
    answer = connection.receive()
    version = answer.header(VERSION_HEADER)
    if not version or answer.header("Content-Length") != str(wanted.length):
        connection.close()
        raise ProtocolError(
            f"{connection.endpoint.address}: no answer to a range of {wanted.length} B; is it an "
            "agent, and of this version?"
        )
    count = answer.readinto(into[: wanted.length])
    if count < wanted.length:
        connection.close()
        raise AgentUnavailableError(
            f"{connection.endpoint.address} broke off after {count} of {wanted.length} B; read the "
            "range elsewhere"
        )
    return version


def put_preload(connection: Connection, name: str, preload: Preload) -> PreloadState:
    """Have ranges read ahead and kept, or renew that.

    Raises: as ``Connection.call``.
    """
    return connection.call("PUT", _preload_path(name), PreloadState, preload)


def preload_state(connection: Connection, name: str) -> PreloadState:
    """Return how far a preload is.

    Raises:
        RefusedError: ``not-found``: there is none, or its lease has ended.
    """
    return connection.call("GET", _preload_path(name), PreloadState)


def preloaded_files(connection: Connection, url: str) -> tuple[PreloadedFile, ...]:
    """Return of which files below a folder an agent keeps something: it is the one to ask.

    Raises: as ``Connection.call``.
    """
    query = urlencode({"url": url}, errors="surrogateescape")
    return connection.call("GET", f"/v1/preloads?{query}", PreloadedFiles).files


def drop_preload(connection: Connection, name: str) -> None:
    """Let go of what a preload keeps; none of this name is not an error.

    Raises: as ``Connection.call``.
    """
    connection.send("DELETE", _preload_path(name))
    connection.receive()


def _preload_path(name: str) -> str:
    return f"/v1/preloads/{quote(name, safe='')}"
