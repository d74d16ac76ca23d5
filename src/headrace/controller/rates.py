"""Bytes per second from amounts that come with the time they took: pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeVar

MEMORY_S = 5.0
"""Time constant of the average [s]: long beside a report's interval, short beside a loan."""

_SHORTEST_S = 1e-3
_NOTHING = 1.0

K = TypeVar("K")


def renewed(
    rates: Mapping[K, float], nbytes: Mapping[K, float], interval_s: float
) -> dict[K, float]:
    """Return average rates after an interval in which ``nbytes`` were read [B/s].

    What is older is forgotten exponentially, whatever the intervals are; a rate that has all
    but ended is dropped.
    """
    interval_s = max(interval_s, _SHORTEST_S)
    kept = math.exp(-interval_s / MEMORY_S)
    gain = (1.0 - kept) / interval_s
    found = {key: kept * rate for key, rate in rates.items() if rate > _NOTHING}
    for key, count in nbytes.items():
        if count:
            found[key] = found.get(key, 0.0) + gain * count
    return found
