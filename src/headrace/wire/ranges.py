"""Messages about byte ranges of files that agents read, keep and serve: hot parts of checkpoints.

``GET /v1/ranges?url=…&path=…&offset=…&length=…`` answers with exactly these bytes and the header
``Headrace-Version`` (the file's version when they were read); ``have=VERSION`` in the query is
refused with 409 ``changed`` where the file is another one by now. What lies in a preload is
served from memory; anything else below the agent's roots is read for the one who asks, once for
all who ask at the same time.
"""

from __future__ import annotations

import msgspec

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
