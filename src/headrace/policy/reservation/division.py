"""One round of division: ordinary quotas, what they may not exceed, and the spreading of spare.

All arrays are ``[tiers, claimants]``; claimants are jobs and checkpoint bursts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.policy.reservation.fairness import Amounts, max_min

_LEAST_PART = 0.02
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
    counts = claims.parts > _LEAST_PART
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


def spread(entitled: Amounts, weights: Amounts, capacity: Amounts) -> Amounts:
    """Return quotas that use all of the capacity.

    Half of what is over is dealt out in proportion to what each has, because needs vary with
    their size; half of it by weight, because a job that hardly used a tier may need it any
    moment, as when a cache loses its data.

    Args:
        entitled: What each has already ``[tiers, n]``.
        weights: 0 for those that are satisfied with a proportional part ``[n]``.
        capacity: What there is ``[tiers]``.
    """
    total = entitled.sum(axis=-1, keepdims=True)
    spare = np.maximum(capacity[:, None] - total, 0.0) * (1.0 - 1e-9)
    parts = entitled / np.where(total > 0, total, 1.0)
    whole = weights.sum()
    if whole > 0:
        parts = 0.5 * parts + 0.5 * weights / whole
    return np.asarray(entitled + spare * parts)


def changes(
    standing: Amounts, entitled: Amounts, target: Amounts, *, capacity: float, tolerance: float
) -> Amounts:
    """Return one tier's quotas from now on, leaving alone what is good enough.

    Nothing changes while everybody has at least what it is entitled to, the capacity is not
    exceeded and little of it lies idle. Otherwise all move to the target, except where the
    difference is below the tolerance and keeping the old quota exceeds nothing.

    Args:
        standing: Quotas in force ``[n]``.
        entitled: Ordinary quotas and loans ``[n]``.
        target: Those and a part of the spare ``[n]``.
        capacity: What all may have together [B/s].
        tolerance: Relative difference that is not worth a change.
    """
    total = standing.sum()
    is_short = (standing < entitled * (1.0 - tolerance)).any()
    if not is_short and capacity * (1.0 - 5 * tolerance) <= total <= capacity:
        return standing
    kept = np.where(np.abs(target - standing) <= tolerance * standing, standing, target)
    return (
        kept
        if kept.sum() <= capacity
        else np.where(target < standing, target, np.minimum(kept, target))
    )
