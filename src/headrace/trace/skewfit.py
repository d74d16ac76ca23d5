"""From how far clocks were seen apart at some moments to one offset and drift for each host."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MOST_DRIFT = 1e-3
"""A clock that gains or loses faster was set, not drifting; 50 times what quartz does."""

LEAST_UNCERTAINTY_NS = 1e3
"""No difference is known better than this [ns]."""

_DRIFT_OBSERVATIONS = 4
_SIGNIFICANT_SIGMAS = 4.0


class Seen(NamedTuple):
    """How far one clock was ahead of another at a moment."""

    at_ns: int
    ahead_ns: float
    uncertainty_ns: float


Pair = tuple[int, int]
"""The numbers of two hosts; the second one's clock is seen ahead of the first one's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Offset:
    """How far one clock is ahead of another."""

    ns: float
    """At ``at_ns`` [ns]."""

    at_ns: int
    drift: float = 0.0
    """Seconds that it gains in a second; 0 where nothing says that it drifts."""

    uncertainty_ns: float = 0.0
    """Half the width of what the events allow [ns]."""

    @property
    def is_significant(self) -> bool:
        """Whether it is more than its uncertainty; less is not corrected."""
        return self.drift != 0 or abs(self.ns) > self.uncertainty_ns

    def ahead_ns(self, at_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return how far it is ahead at some moments [ns]."""
        gained = self.drift * (at_ns - self.at_ns).astype(np.float64)
        return np.rint(self.ns + gained).astype(np.int64)

    def and_then(self, other: Offset) -> Offset:
        """Return how far a clock is ahead that is ahead by ``other`` of this one."""
        return Offset(
            ns=self.ns + other.ns,
            at_ns=self.at_ns,
            drift=self.drift + other.drift,
            uncertainty_ns=self.uncertainty_ns + other.uncertainty_ns,
        )

    def reversed(self) -> Offset:
        """Return how far the other clock is ahead of this one."""
        return Offset(
            ns=-self.ns, at_ns=self.at_ns, drift=-self.drift, uncertainty_ns=self.uncertainty_ns
        )


def fit(seen: list[Seen], at_ns: int) -> Offset:
    """Return the offset, at a moment, that observations of one pair of clocks agree on best.

    It drifts only if that explains the observations clearly better (4 standard errors, and more
    over their time than they are uncertain). A clock that was set in between leaves a large
    uncertainty.
    """
    moments = np.array([one.at_ns - at_ns for one in seen], np.float64)
    ahead = np.array([one.ahead_ns for one in seen])
    uncertainty = np.maximum([one.uncertainty_ns for one in seen], LEAST_UNCERTAINTY_NS)
    weights = uncertainty**-2.0
    middle = float(np.average(moments, weights=weights))
    level = float(np.average(ahead, weights=weights))
    drift = _drift(moments - middle, ahead - level, weights)
    left = ahead - level - drift * (moments - middle)
    spread = float(np.sqrt(np.average(left**2, weights=weights)))
    return Offset(
        ns=level - drift * middle,
        at_ns=at_ns,
        drift=drift,
        uncertainty_ns=float(np.median(uncertainty)) + spread,
    )


def _drift(
    moments: npt.NDArray[np.float64],
    ahead: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
) -> float:
    """Return the slope of centred observations where it is significant, else 0."""
    lever = float((weights * moments**2).sum())
    if moments.size < _DRIFT_OBSERVATIONS or not lever:
        return 0.0
    slope = float((weights * moments * ahead).sum()) / lever
    left = ahead - slope * moments
    chi2 = float((weights * left**2).sum()) / (moments.size - 2)
    error = (max(chi2, 1.0) / lever) ** 0.5
    gained = abs(slope) * float(np.ptp(moments))
    if abs(slope) > MOST_DRIFT or abs(slope) < _SIGNIFICANT_SIGMAS * error:
        return 0.0
    return slope if gained > float(np.median(weights**-0.5)) else 0.0


def spread(edges: Mapping[Pair, Offset], at_ns: int) -> dict[int, Offset]:
    """Return each host's offset against the first host that it is connected with.

    Of several chains of comparisons the least uncertain one is taken (Dijkstra); hosts that are
    in no comparison are left out.
    """
    neighbours: defaultdict[int, list[tuple[int, Offset]]] = defaultdict(list)
    for (first, second), offset in edges.items():
        neighbours[first].append((second, offset))
        neighbours[second].append((first, offset.reversed()))
    found: dict[int, Offset] = {}
    for root in sorted(neighbours):
        if root not in found:
            found |= _reached(root, neighbours, at_ns)
    return found


def _reached(
    root: int, neighbours: Mapping[int, list[tuple[int, Offset]]], at_ns: int
) -> dict[int, Offset]:
    reached: dict[int, Offset] = {}
    waiting = [(0.0, root, Offset(ns=0.0, at_ns=at_ns))]
    while waiting:
        _, host, offset = heapq.heappop(waiting)
        if host in reached:
            continue
        reached[host] = offset
        for other, step in neighbours[host]:
            if other not in reached:
                further = offset.and_then(step)
                heapq.heappush(waiting, (further.uncertainty_ns, other, further))
    return reached
