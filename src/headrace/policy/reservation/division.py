"""One round of division: ordinary quotas, what they may not exceed, and the spreading of spare.

All arrays are ``[tiers, claimants]``; claimants are jobs and checkpoint bursts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.policy.reservation.fairness import Amounts, max_min

LEAST_PART = 0.02
"""Smaller parts of a job's bytes never hold up the others."""

_ANY_RATE = 1e30
"""More than any tier gives [B/s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claims:
    """What everybody needs of every tier [B/s]."""

    must: Amounts
    """Needed to meet known deadlines."""

    want: Amounts
    """Wished for altogether; at least ``must`` and ``keep``."""

    keep: Amounts
    """Guaranteed whatever others want."""

    weights: Amounts
    parts: Amounts
    """Part of a job's bytes that comes from each tier; 0 for bursts, and where not known."""


def held_up(claims: Claims, capacity: Amounts, margin: float) -> Claims:
    """Return the claims without what cannot be used because another tier holds the job up.

    A job moves at the rate of its slowest tier. What it could read from the others beyond
    that, and a margin, is left to jobs that can use it.
    """
    counts = claims.parts > LEAST_PART
    parts = np.where(counts, claims.parts, 1.0)
    rates = np.where(counts, ordinary(claims, capacity) / parts, _ANY_RATE)
    slowest = rates.min(axis=0)
    usable = np.where(rates > slowest * (1.0 + margin), slowest * parts * (1.0 + margin), _ANY_RATE)
    want = np.minimum(claims.want, np.maximum(usable, claims.keep))
    return Claims(
        must=np.minimum(claims.must, want),
        want=want,
        keep=claims.keep,
        weights=claims.weights,
        parts=claims.parts,
    )


def ordinary(claims: Claims, capacity: Amounts) -> Amounts:
    """Return ordinary quotas: what must be first, then what is wanted, by weighted max-min."""
    must = max_min(claims.must, capacity=capacity, weights=claims.weights, minima=claims.keep)
    return max_min(
        claims.want,
        capacity=capacity,
        weights=claims.weights,
        minima=np.maximum(must, np.minimum(claims.keep, claims.want)),
    )


def parts_of(amounts: Amounts) -> Amounts:
    """Return amounts over their sum along the last axis; zeros where there is nothing."""
    total = amounts.sum(axis=-1, keepdims=True)
    return np.asarray(amounts / np.where(total > 0, total, 1.0))


def spread(entitled: Amounts, shares: Amounts, capacity: Amounts) -> Amounts:
    """Return quotas that use all of the capacity: what each has, and its share of what is over.

    Args:
        entitled: What each has already ``[tiers, n]``.
        shares: Parts of the spare; they sum to 1 ``[tiers, n]``.
        capacity: What there is ``[tiers]``.
    """
    spare = np.maximum(capacity - entitled.sum(axis=-1), 0.0) * (1.0 - 1e-9)
    return np.asarray(entitled + spare[:, None] * shares)


def is_good_enough(
    standing: Amounts, entitled: Amounts, *, capacity: float, tolerance: float
) -> bool:
    """Return whether one tier's quotas may stay as they are.

    So it is while everybody has at least what it is entitled to, the capacity is not exceeded
    and little of it lies idle.

    Args:
        standing: Quotas in force ``[n]``.
        entitled: Ordinary quotas and loans ``[n]``.
        capacity: What all may have together [B/s].
        tolerance: Relative difference that is not worth a change.
    """
    is_short = bool((standing < entitled * (1.0 - tolerance)).any())
    return not is_short and capacity * (1.0 - 5 * tolerance) <= float(standing.sum()) <= capacity


def moved(standing: Amounts, target: Amounts, *, capacity: float, tolerance: float) -> Amounts:
    """Return one tier's quotas, moved to the target where the difference is worth it.

    Small differences are left alone unless the capacity would be exceeded by that.
    """
    kept = np.where(np.abs(target - standing) <= tolerance * standing, standing, target)
    if kept.sum() <= capacity:
        return kept
    return np.where(target < standing, target, np.minimum(kept, target))
