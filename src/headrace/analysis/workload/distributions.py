"""Families of distributions with few parameters, for times and sizes; none is below zero.

Each tells its mean, its distribution function, and its quantiles, for arrays. Means are
parameters, so that a model can be read, and scaled, without a formula.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from headrace.analysis.columns import Floats
from headrace.analysis.workload.normal import normal_levels, normal_scores
from headrace.core.errors import ConfigError

Positive: TypeAlias = Annotated[float, Meta(gt=0)]
NotNegative: TypeAlias = Annotated[float, Meta(ge=0)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]

LEVELS = (
    *(0.0, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
    *(0.7, 0.8, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 0.9999, 1.0),
)
"""At which :class:`Quantiles` are told."""

_TABLE_POINTS = 4096
_REACH = 8.5
"""Standard deviations that a table of a family spans on each side."""

_NO_SIGMA = 1e-9
"""Below, all values are one."""

WIDEST_SIGMA = 20.0
"""Of a logarithm; wider ones span more than numbers can."""

Sigma: TypeAlias = Annotated[float, Meta(ge=0, le=WIDEST_SIGMA)]


class Family(msgspec.Struct, frozen=True, kw_only=True, tag_field="family"):
    """Base of all of them."""


class Constant(Family, frozen=True, kw_only=True, tag="constant"):
    """Always the same."""

    mean: NotNegative

    def average(self) -> float:
        """Return the mean."""
        return self.mean

    def levels(self, values: Floats) -> Floats:
        """Return the probability of at most each value."""
        return np.where(values >= self.mean, 1.0, 0.0)

    def quantiles(self, levels: Floats) -> Floats:
        """Return the values that are not exceeded with each probability."""
        return np.full_like(levels, self.mean)

    def scaled(self, factor: float) -> Constant:
        """Return the distribution of ``factor`` times the value."""
        return Constant(mean=self.mean * factor)


class Lognormal(Family, frozen=True, kw_only=True, tag="lognormal"):
    """Its logarithm is normal: times of work that many small things multiply."""

    mean: Positive

    sigma: Sigma
    """Standard deviation of the logarithm."""

    def average(self) -> float:
        """Return the mean."""
        return self.mean

    def levels(self, values: Floats) -> Floats:
        """Return the probability of at most each value."""
        if self.sigma < _NO_SIGMA:
            return Constant(mean=self.mean).levels(values)
        with np.errstate(divide="ignore"):
            return normal_levels((np.log(values) - self._centre) / self.sigma)

    def quantiles(self, levels: Floats) -> Floats:
        """Return the values that are not exceeded with each probability."""
        return self.at_scores(normal_scores(levels))

    def at_scores(self, scores: Floats) -> Floats:
        """Return the values at normal scores; quicker than by their levels."""
        values: Floats = np.exp(self._centre + self.sigma * scores)
        return values

    def scaled(self, factor: float) -> Lognormal:
        """Return the distribution of ``factor`` times the value."""
        return Lognormal(mean=self.mean * factor, sigma=self.sigma)

    @property
    def _centre(self) -> float:
        return math.log(self.mean) - self.sigma**2 / 2


class Gamma(Family, frozen=True, kw_only=True, tag="gamma"):
    """Sums of waits; ``shape`` 1 is the exponential distribution."""

    mean: Positive

    shape: Annotated[float, Meta(ge=0.05, le=1e4)]
    """Above 1 the values gather around the mean, below 1 most are near zero."""

    def average(self) -> float:
        """Return the mean."""
        return self.mean

    def levels(self, values: Floats) -> Floats:
        """Return the probability of at most each value."""
        points, cumulated = _gamma_table(self.shape)
        levels: Floats = np.interp(values * (self.shape / self.mean), points, cumulated, left=0.0)
        return levels

    def quantiles(self, levels: Floats) -> Floats:
        """Return the values that are not exceeded with each probability."""
        points, cumulated = _gamma_table(self.shape)
        quantiles: Floats = np.interp(levels, cumulated, points) * (self.mean / self.shape)
        return quantiles

    def scaled(self, factor: float) -> Gamma:
        """Return the distribution of ``factor`` times the value."""
        return Gamma(mean=self.mean * factor, shape=self.shape)


class Mixture(Family, frozen=True, kw_only=True, tag="mixture"):
    """One of two lognormals, by chance: hits and misses, small samples and large ones."""

    weight: Share
    """Probability of the first."""

    first: Lognormal
    second: Lognormal

    def average(self) -> float:
        """Return the mean."""
        return self.weight * self.first.mean + (1 - self.weight) * self.second.mean

    def levels(self, values: Floats) -> Floats:
        """Return the probability of at most each value."""
        return self.weight * self.first.levels(values) + (1 - self.weight) * self.second.levels(
            values
        )

    def quantiles(self, levels: Floats) -> Floats:
        """Return the values that are not exceeded with each probability."""
        extremes = np.concatenate(
            [one.at_scores(np.array([-_REACH, _REACH])) for one in (self.first, self.second)]
        )
        points = np.geomspace(extremes.min(), extremes.max(), _TABLE_POINTS)
        quantiles: Floats = np.interp(levels, self.levels(points), points)
        return quantiles

    def scaled(self, factor: float) -> Mixture:
        """Return the distribution of ``factor`` times the value."""
        return Mixture(
            weight=self.weight,
            first=self.first.scaled(factor),
            second=self.second.scaled(factor),
        )


class Quantiles(Family, frozen=True, kw_only=True, tag="quantiles"):
    """Values at :data:`LEVELS`, straight lines between: where no family is like the data."""

    values: Annotated[tuple[NotNegative, ...], Meta(min_length=len(LEVELS), max_length=len(LEVELS))]

    def __post_init__(self) -> None:
        if any(after < before for before, after in pairwise(self.values)):
            raise ConfigError("the values of quantiles must rise; sort them")

    def average(self) -> float:
        """Return the mean."""
        values = np.array(self.values)
        return float((np.diff(LEVELS) * (values[1:] + values[:-1]) / 2).sum())

    def levels(self, values: Floats) -> Floats:
        """Return the probability of at most each value."""
        points = np.array(self.values)
        last = np.searchsorted(points, values, side="right")  # a step where values are equal
        levels = np.interp(values, points, LEVELS)
        is_point = (last > 0) & (points[np.maximum(last - 1, 0)] == values)
        return np.where(is_point, np.array(LEVELS)[np.maximum(last - 1, 0)], levels)

    def quantiles(self, levels: Floats) -> Floats:
        """Return the values that are not exceeded with each probability."""
        quantiles: Floats = np.interp(levels, LEVELS, self.values)
        return quantiles

    def scaled(self, factor: float) -> Quantiles:
        """Return the distribution of ``factor`` times the value."""
        return Quantiles(values=tuple(value * factor for value in self.values))


Distribution: TypeAlias = Constant | Lognormal | Gamma | Mixture | Quantiles


class Curve:
    """The values of a distribution at normal scores, some of them zero."""

    def __init__(self, distribution: Distribution, zero_share: float = 0.0) -> None:
        self._lognormal = (
            distribution if isinstance(distribution, Lognormal) and not zero_share else None
        )
        self._scores = np.linspace(-_REACH, _REACH, _TABLE_POINTS)
        levels = normal_levels(self._scores)
        if zero_share:
            levels = np.maximum(levels - zero_share, 0.0) / max(1.0 - zero_share, 1e-12)
        self._values = distribution.quantiles(levels)
        if zero_share:
            self._values[normal_levels(self._scores) < zero_share] = 0.0

    def __call__(self, scores: Floats) -> Floats:
        """Return the values at scores of any shape."""
        if self._lognormal is not None:
            return self._lognormal.at_scores(scores)
        values: Floats = np.interp(scores, self._scores, self._values)
        return values


@lru_cache(maxsize=64)
def _gamma_table(shape: float) -> tuple[Floats, Floats]:
    """Return points, with a scale of 1, and the probability of at most each."""
    top = shape + 12 * math.sqrt(shape) + 50
    bottom = math.exp(max(-30.0 / min(shape, 1.0), -600.0))
    low = max(bottom, shape - 12 * math.sqrt(shape))
    points = np.geomspace(low, top, _TABLE_POINTS)
    logs = np.log(points)
    densities = np.exp(shape * logs - points - math.lgamma(shape))  # for the logarithm
    pieces = np.diff(logs) * (densities[1:] + densities[:-1]) / 2
    cumulated = np.append(0.0, np.cumsum(pieces))
    return points, cumulated / cumulated[-1]
