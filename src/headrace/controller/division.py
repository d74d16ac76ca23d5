"""Divides jobs' quotas of one tier over those who read for them: pure, in NumPy.

A reader gets by what it read lately. A reader that used nearly all of its part counts
double, for then its use tells its limit and not its need. A tenth of each quota is held open
in proportion to what readers can give, so that reading may begin anywhere at once. No reader
is given more than its tier can do, so all orders of an agent hold together at any moment; what
a full reader leaves goes to those that have room.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

OPEN_SHARE = 0.1
"""Part of a quota that is divided by what readers can give, whatever they did."""

FULL_SHARE = 0.8
"""A reader that uses more than this part of its quota may need more than it used."""

_LEAST = 1e-3
"""Less than this is nothing [B/s]."""


def divide(quotas: Floats, use: Floats, *, held: Floats, room: Floats, capacity: Floats) -> Floats:
    """Return each reader's part of each job's quota ``float64 [jobs, readers]`` [B/s].

    Args:
        quotas: The jobs' quotas ``float64 [jobs]`` [B/s].
        use: What each reader read lately ``float64 [jobs, readers]`` [B/s].
        held: The parts in force ``float64 [jobs, readers]`` [B/s].
        room: How the open part is divided ``float64 [readers]``, any unit.
        capacity: Most that each reader may give to all jobs ``float64 [readers]``
            [B/s]; infinite: not limited, and not one to turn to when others are full.

    A row's sum is at most its quota, a column's at most its capacity.
    """
    by_room = room / room.sum()
    weights = np.where(use > FULL_SHARE * held, 2.0, 1.0) * use
    sums = weights.sum(axis=1, keepdims=True)
    is_used = sums > _LEAST
    by_use = np.where(is_used, weights / np.where(is_used, sums, 1.0), by_room)
    parts = quotas[:, None] * (OPEN_SHARE * by_room + (1.0 - OPEN_SHARE) * by_use)
    return _fit(parts, quotas, capacity)


def _fit(parts: Floats, quotas: Floats, capacity: Floats) -> Floats:
    """Cut what is too much for a reader, and give that to readers with room."""
    load = parts.sum(axis=0)
    parts = parts * np.divide(capacity, load, out=np.ones_like(load), where=load > capacity)
    lost = np.maximum(quotas - parts.sum(axis=1), 0.0)
    slack = np.where(np.isfinite(capacity), np.maximum(capacity - load, 0.0), 0.0)
    if lost.sum() <= _LEAST or slack.sum() <= _LEAST:
        return parts
    taken = lost * min(1.0, slack.sum() / lost.sum())
    filled: Floats = parts + taken[:, None] * (slack / slack.sum())
    return filled
