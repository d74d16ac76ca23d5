"""Divides bandwidth fairly: weighted max-min with guarantees, and how far a division is off.

Arrays may have leading axes (tiers, say); claimants lie along the last one.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Amounts: TypeAlias = npt.NDArray[np.float64]

_ROUNDING = 1e-12
"""Relative margin that keeps a sum of many grants below the capacity in floating point."""


def max_min(
    wanted: npt.ArrayLike,
    *,
    capacity: npt.ArrayLike,
    weights: npt.ArrayLike,
    minima: npt.ArrayLike = 0.0,
) -> Amounts:
    """Return what each claimant is granted; nobody could get more without one worse off losing.

    Nobody gets more than wanted, and everything is given while someone wants more. Each
    gets its minimum (or what it wants, if that is less) before the rest is filled up in
    proportion to the weights. Minima that exceed the capacity together are all cut by
    the same factor.

    Args:
        wanted: What each would use, finite and not negative ``[..., n]``.
        capacity: What there is ``[...]``.
        weights: Greater than 0 ``[..., n]``.
        minima: Guaranteed, not negative ``[..., n]``.

    Returns:
        float64 ``[..., n]``, with a sum of at most ``capacity``.
    """
    most = np.asarray(wanted, dtype=np.float64)
    if most.shape[-1] == 0:
        return np.zeros(most.shape)
    total = np.asarray(capacity, dtype=np.float64)
    share = np.broadcast_to(np.asarray(weights, dtype=np.float64), most.shape)
    least = _fitting(np.minimum(most, minima), total)
    level = _level(most, least, share, np.minimum(total, most.sum(axis=-1)))
    granted = np.minimum(np.maximum(level[..., None] * share, least), most)
    return _fitting(granted, total)


def _level(most: Amounts, least: Amounts, share: Amounts, total: Amounts) -> Amounts:
    """Return the level at which claims that rise with it, between bounds, sum up to ``total``.

    The sum is piecewise linear in the level: a claim begins to rise at ``least / share``
    and stops at ``most / share``. The piece that holds ``total`` is found and solved.
    """
    points = np.concatenate([least / share, most / share], axis=-1)
    turns = np.concatenate([share, -share], axis=-1)
    # Places count through all rows: np.take_along_axis costs more than all else here.
    rows = np.arange(0, points.size, points.shape[-1]).reshape(*points.shape[:-1], 1)
    order = np.argsort(points, axis=-1, kind="stable") + rows
    points, slopes = points.take(order), np.cumsum(turns.take(order), axis=-1)
    sums = np.zeros_like(points)
    rises = slopes[..., :-1] * (points[..., 1:] - points[..., :-1])
    np.cumsum(rises, axis=-1, out=sums[..., 1:])
    sums += least.sum(axis=-1, keepdims=True)
    piece = np.maximum((sums <= total[..., None]).sum(axis=-1, keepdims=True) - 1, 0) + rows
    start, reached, slope = (a.take(piece)[..., 0] for a in (points, sums, slopes))
    rising = slope > _ROUNDING
    within = np.where(rising, (total - reached) / np.where(rising, slope, 1.0), 0.0)
    return np.asarray(start + within)


def _fitting(granted: Amounts, total: Amounts) -> Amounts:
    """Return the grants, cut by one factor where they exceed the total."""
    sums = granted.sum(axis=-1)
    over = sums > total
    if not over.any():
        return granted
    factor = np.where(over, total / np.where(over, sums, 1.0) * (1.0 - _ROUNDING), 1.0)
    return granted * factor[..., None]


def jain_index(granted: npt.ArrayLike) -> float:
    """Return how evenly something is shared: 1 when all have the same, 1/n when one has all.

    Source: Jain, Chiu, Hawe, "A quantitative measure of fairness", DEC TR-301 (1984).
    """
    shares = np.asarray(granted, dtype=np.float64)
    squares = float(np.square(shares).sum())
    return float(shares.sum()) ** 2 / (shares.size * squares) if squares > 0 else 1.0


def max_min_regret(granted: npt.ArrayLike, oracle: npt.ArrayLike) -> float:
    """Return the largest part of its due that a claimant lacks, 0 (nobody lacks anything) to 1.

    Args:
        granted: What each got ``[n]``.
        oracle: What max-min with true needs would have given ``[n]``.
    """
    due = np.asarray(oracle, dtype=np.float64)
    got = np.asarray(granted, dtype=np.float64)
    lacking = np.where(due > 0, (due - got) / np.where(due > 0, due, 1.0), 0.0)
    return float(np.max(lacking, initial=0.0))
