"""What is said of files that are about to turn hot, between who announces and the controller.

``POST /v1/hotspots`` announces (``?dry_run=true`` only plans) and is answered at once with a
``HotspotView`` that names it; ``GET /v1/hotspots`` lists, ``GET /v1/hotspots/{id}`` shows one,
``PUT`` renews its lease, ``DELETE`` releases it. Times that end in ``_at`` are seconds since
1970, others are from now.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from headrace.core.errors import CallerError

HotspotState = Literal[
    "planning",  # the checkpoint is read, and its files are looked at
    "intended",  # written down, not asked for yet
    "raising",  # copies are being made
    "held",  # all that are wanted are there
    "lowering",  # the lease is over, and copies are given back
    "gone",  # all is as it was before
    "skipped",  # nothing of it is worth more copies, or can have them
    "failed",  # the checkpoint cannot be read
]

DEFAULT_ETA_S = 10.0
DEFAULT_LEASE_S = 900.0
LONGEST_LEASE_S = 24 * 3600.0
"""A lease that is to last longer is renewed meanwhile [s]."""

MOST_FILES = 1000
"""Files of one announcement; of a checkpoint, those that gain most are taken."""


class HotspotAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A checkpoint, or files, that many ranks are about to read."""

    url: str
    """The checkpoint's folder; with ``files``: the folder they are relative to."""

    world_size: int
    """Ranks that read."""

    files: tuple[str, ...] = ()
    """Files that every rank reads whole; empty: what the checkpoint's own metadata tells."""

    hosts: int | None = None
    """Hosts the ranks run on, if each host reads once what its ranks share; None: each rank
    reads for itself."""

    job: str = ""
    eta_s: float = DEFAULT_ETA_S
    """Time until they read [s]."""

    lease_s: float = DEFAULT_LEASE_S
    """How long copies are held unless the lease is renewed or released [s]."""


class HotspotRenewed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The copies are needed on."""

    lease_s: float = DEFAULT_LEASE_S
    """From now [s]."""


class HotspotFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of an announcement."""

    path: str
    """As the store calls it."""

    nbytes: int
    """[bytes]."""

    hot_bytes: int
    """That many read [bytes]."""

    readers: int
    wanted: int
    original: int
    live: int
    """Copies that the block with the fewest has."""

    state: HotspotState
    reason: str
    saved_s: float = 0.0
    """What loading is reckoned to take less [s]."""


class HotspotView(msgspec.Struct, frozen=True, kw_only=True):
    """How one announcement is."""

    id: str
    job: str
    url: str
    world_size: int
    hosts: int | None
    state: HotspotState
    reason: str
    ready_share: float
    """Part of the raised bytes that have all copies wanted, told by what lives, 0 to 1."""

    ready_in_s: float | None
    """Until all are there, from the rate measured; none: not known [s]."""

    announced_at: float
    hot_in_s: float
    """Until its files turn hot [s]."""

    expires_in_s: float
    """Until its copies are given back unless it is renewed [s]."""

    kept: bool
    """Whether it survives the end of the controller; if not, there is no journal, or it cannot be
    written, and copies may stay raised then."""

    files: tuple[HotspotFile, ...] = ()


class Hotspots(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of ``GET /v1/hotspots``: those that hold copies or are about to, newest first.

    Their files are told only by ``GET /v1/hotspots/{id}``.
    """

    hotspots: tuple[HotspotView, ...]


def absolute_url(checkpoint: str) -> str:
    """Return a URL or path that means the same to a process with another working directory.

    Raises:
        CallerError: it cannot be told to another process.
    """
    is_url = ":" in checkpoint.partition("/")[0]
    url = checkpoint if is_url else str(Path(checkpoint).expanduser().absolute())
    try:
        url.encode()
    except UnicodeEncodeError:
        raise CallerError(f"the name {url!a} is no UTF-8 text; rename the folder") from None
    return url
