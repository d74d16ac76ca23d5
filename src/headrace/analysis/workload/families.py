"""Chooses the family of distributions that is like the data.

Tried in the order of their parameters: a constant; lognormal and gamma, of which the closer one
is taken; a mixture of two lognormals; quantiles. A family will do if its distribution function is
never further from the data's than :data:`LEAST_DISTANCE` (or what chance alone makes of so few
values), give or take what a value may be off, and its mean no further than :data:`MEAN_ERROR`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headrace.analysis.columns import Floats, Ints
from headrace.analysis.workload.distributions import (
    LEVELS,
    WIDEST_SIGMA,
    Constant,
    Distribution,
    Gamma,
    Lognormal,
    Mixture,
    Quantiles,
)

LEAST_DISTANCE = 0.02
"""Of two distribution functions, which a family may always have (Kolmogorov's distance)."""

CHANCE = 1.36
"""Over the root of the count: what chance exceeds in 5 % of the cases (Kolmogorov, Smirnov)."""

MEAN_ERROR = 0.02
"""Relative, or two standard errors of the data's mean where that is more."""

SAME = 1e-3
"""Values that differ by no more, relative to them, are one."""

_BINS = 1024
"""Of logarithms, in which a mixture is sought."""

_ROUNDS = 200
_SHAPES = (0.05, 1e4)


@dataclass(frozen=True, slots=True)
class _Data:
    values: Floats
    """Rising, above 0."""

    times: Ints
    logs: Floats
    mean: float
    mean_error: float
    """Largest that a family may have."""

    distance: float
    """Largest of two distribution functions."""

    width: float
    """What a value may be off, relative to it."""

    @property
    def count(self) -> int:
        return int(self.times.sum())


def choose_family(values: Floats, times: Ints, *, width: float = 0.0) -> Distribution:
    """Return the distribution that is like the data.

    Args:
        values: Rising, each once, above 0.
        times: How often each came.
        width: What a value may be off, relative to it.
    """
    data = _data(values, times, max(width, SAME))
    if values[-1] - values[0] <= SAME * data.mean:
        return Constant(mean=data.mean)
    simple = [one for one in (_lognormal(data), _gamma(data)) if one is not None]
    found = [one for one in simple if _will_do(one, data)]
    if found:
        return min(found, key=lambda one: _distance(one, data))
    mixture = _mixture(data)
    return mixture if _will_do(mixture, data) else _quantiles(data)


def _data(values: Floats, times: Ints, width: float) -> _Data:
    count = int(times.sum())
    mean = float(np.average(values, weights=times))
    variance = float(np.average((values - mean) ** 2, weights=times))
    return _Data(
        values=values,
        times=times,
        logs=np.log(values),
        mean=mean,
        mean_error=max(MEAN_ERROR * mean, 2 * math.sqrt(variance / count)),
        distance=max(LEAST_DISTANCE, CHANCE / math.sqrt(count)),
        width=width,
    )


def _will_do(family: Distribution, data: _Data) -> bool:
    error = abs(family.average() - data.mean)
    return error <= data.mean_error and _distance(family, data) <= data.distance


def _distance(family: Distribution, data: _Data) -> float:
    """Return how far the distribution functions are apart, within the width of a value (Lévy)."""
    until = np.cumsum(data.times) / data.count
    before = np.append(0.0, until[:-1])
    too_few = until - family.levels(data.values * (1 + data.width))
    too_many = family.levels(data.values * (1 - data.width)) - before
    return float(max(too_few.max(), too_many.max()))


def _lognormal(data: _Data) -> Lognormal:
    centre = float(np.average(data.logs, weights=data.times))
    variance = float(np.average((data.logs - centre) ** 2, weights=data.times))
    return _lognormal_of(centre, math.sqrt(variance))


def _lognormal_of(centre: float, sigma: float) -> Lognormal:
    sigma = min(sigma, WIDEST_SIGMA)
    return Lognormal(mean=math.exp(centre + sigma**2 / 2), sigma=sigma)


def _gamma(data: _Data) -> Gamma | None:
    """Return the likeliest one (Minka 2002, in closed form); None where its shape is extreme."""
    gap = math.log(data.mean) - float(np.average(data.logs, weights=data.times))
    if gap <= 0:
        return None
    shape = (3 - gap + math.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    return Gamma(mean=data.mean, shape=shape) if _SHAPES[0] <= shape <= _SHAPES[1] else None


def _mixture(data: _Data) -> Mixture:
    """Return the likeliest of some, by expectation maximisation from several beginnings."""
    place = ((data.logs - data.logs[0]) * (_BINS / (data.logs[-1] - data.logs[0]))).astype(int)
    counts = np.bincount(place, weights=data.times)
    sums = np.bincount(place, weights=data.times * data.logs)
    used = counts > 0
    logs, weights = sums[used] / counts[used], counts[used] / data.count
    until = np.cumsum(weights)
    found = [
        _expected(logs, weights, (until <= max(split, until[0])).astype(np.float64))
        for split in (0.1, 0.3, 0.5, 0.7, 0.9)
    ]
    _, mixture = max(found, key=lambda one: one[0])
    return mixture


def _expected(logs: Floats, weights: Floats, shares: Floats) -> tuple[float, Mixture]:
    """Return the likelihood and the mixture that some rounds lead to from the first's shares."""
    likelihood = -math.inf
    parts: list[tuple[float, float, float]] = []
    for _ in range(_ROUNDS):
        parts = [_moments(logs, weights * one) for one in (shares, 1 - shares)]
        densities = [
            weight * np.exp(-(((logs - centre) / sigma) ** 2) / 2) / sigma
            for weight, centre, sigma in parts
        ]
        total = np.maximum(densities[0] + densities[1], 1e-300)
        shares = densities[0] / total
        before, likelihood = likelihood, float(np.log(total) @ weights)
        if likelihood - before < 1e-9:
            break
    first, second = (_lognormal_of(centre, sigma) for _, centre, sigma in parts)
    return likelihood, Mixture(weight=min(parts[0][0], 1.0), first=first, second=second)


def _moments(logs: Floats, weights: Floats) -> tuple[float, float, float]:
    """Return weight, mean and standard deviation of one part, which is never a single value."""
    weight = max(float(weights.sum()), 1e-12)
    centre = float(weights @ logs) / weight
    variance = float(weights @ (logs - centre) ** 2) / weight
    return weight, centre, max(math.sqrt(variance), SAME / 4)


def _quantiles(data: _Data) -> Quantiles:
    """Return the values at the levels, and the means of what lies between them."""
    until = np.cumsum(data.times)
    wanted = np.array(LEVELS) * until[-1]
    place = np.searchsorted(until, np.maximum(np.ceil(wanted), 1))
    values = data.values[place]
    sums = np.append(0.0, np.cumsum(data.values * data.times))
    at_levels = np.interp(wanted, np.append(0, until), sums)
    means = np.clip(np.diff(at_levels) / np.diff(wanted), values[:-1], values[1:])
    return Quantiles(values=tuple(values.tolist()), means=tuple(means.tolist()))
