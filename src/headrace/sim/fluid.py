"""Bandwidth as a fluid: how flows that use several resources share them.

Weighted max-min by progressive filling: all flows rise together, in proportion to their weights,
until one reaches its own cap or a resource is full; who uses that resource rises no further, the
others go on. Solved exactly, one pass over sorted caps for each resource that fills.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

OWN_CAP = -1
"""The bottleneck of a flow that no resource holds back."""

_LEAST = 1e-300
_SLACK = 1 + 1e-12


class Shares(NamedTuple):
    """What each flow gets, and what keeps it from more."""

    rates: Floats
    """[flows]."""

    bottleneck: npt.NDArray[np.int8]
    """The resource that holds a flow back, or ``OWN_CAP``, [flows]."""


def share(caps: Floats, *, usage: Floats, capacity: Floats, weights: Floats) -> Shares:
    """Return the weighted max-min fair rates.

    Args:
        caps: The most that each flow can take, >= 0, [flows].
        usage: How much of each resource one unit of a flow takes, >= 0, [flows, resources].
        capacity: >= 0, [resources].
        weights: > 0, [flows].
    """
    bottleneck = np.full(caps.size, OWN_CAP, dtype=np.int8)
    if (caps @ usage <= capacity).all():
        return Shares(caps, bottleneck)
    rates = caps.copy()
    flows = _Flows(caps, weights, np.argsort(caps / weights))
    rising = np.ones(caps.size, dtype=bool)
    left = capacity.copy()
    for _ in range(capacity.size):
        resource, level = _first_full(flows, usage * rising[:, None], left)
        if resource == OWN_CAP:
            break
        held = rising & (caps > level * weights) & (usage[:, resource] > 0)
        rates[held] = level * weights[held]
        bottleneck[held] = resource
        rising &= ~held
        left = np.maximum(left - rates[held] @ usage[held], 0.0)
    return Shares(rates, bottleneck)


class _Flows(NamedTuple):
    caps: Floats
    weights: Floats
    order: npt.NDArray[np.intp]
    """Of the level, rate / weight, at which each reaches its cap."""


def _first_full(flows: _Flows, usage: Floats, left: Floats) -> tuple[int, float]:
    """Return which resource the rising flows fill first, and at which level of rate / weight."""
    caps, weights, usage = flows.caps[flows.order], flows.weights[flows.order], usage[flows.order]
    capped = np.cumsum(usage * caps[:, None], axis=0)
    weighted = usage * weights[:, None]
    beyond = weighted.sum(axis=0) - np.cumsum(weighted, axis=0)
    too_much = capped + (caps / weights)[:, None] * beyond > left * _SLACK
    fills = np.flatnonzero(too_much[-1])
    if not fills.size:
        return OWN_CAP, np.inf
    first = np.argmax(too_much[:, fills], axis=0)
    before = capped[first, fills] - usage[first, fills] * caps[first]
    slope = beyond[first, fills] + weighted[first, fills]
    reached = (left[fills] - before) / np.maximum(slope, _LEAST)
    chosen = int(np.argmin(reached))
    return int(fills[chosen]), max(0.0, float(reached[chosen]))
