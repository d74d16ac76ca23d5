"""Whether what is asked of hotspots makes sense: pure."""

from __future__ import annotations

import math

from headrace.checkpoint.loadplan import MOST_RANKS
from headrace.core.errors import CallerError
from headrace.wire.hotspots import LONGEST_LEASE_S, MOST_FILES, HotspotAsked

LONGEST_ETA_S = 7 * 24 * 3600.0


def check_asked(asked: HotspotAsked) -> None:
    """Check an announcement.

    Raises:
        CallerError: it makes no sense; says what would.
    """
    if not asked.url:
        raise CallerError("url is empty; name the checkpoint's folder")
    if not 1 <= asked.world_size <= MOST_RANKS:
        raise CallerError(f"world_size={asked.world_size} must be 1 to {MOST_RANKS} ranks")
    if asked.hosts is not None and not 1 <= asked.hosts <= asked.world_size:
        raise CallerError(
            f"hosts={asked.hosts} must be 1 to world_size={asked.world_size}: each has a rank"
        )
    if not (math.isfinite(asked.eta_s) and 0 <= asked.eta_s <= LONGEST_ETA_S):
        raise CallerError(f"eta_s={asked.eta_s:g} must be 0 to {LONGEST_ETA_S:g} seconds")
    if len(asked.files) > MOST_FILES:
        raise CallerError(f"{len(asked.files)} files are announced; name {MOST_FILES} at most")
    check_lease(asked.lease_s)


def check_lease(lease_s: float) -> None:
    """Check how long a lease is to last.

    Raises:
        CallerError: it is no time, or too long.
    """
    if not (math.isfinite(lease_s) and 1 <= lease_s <= LONGEST_LEASE_S):
        raise CallerError(
            f"lease_s={lease_s:g} must be 1 to {LONGEST_LEASE_S:g} seconds; renew the lease if it "
            "is needed longer"
        )
