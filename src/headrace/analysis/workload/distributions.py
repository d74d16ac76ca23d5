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

from headrace.analysis.columns import Floats, Mask
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

LEAP = 8.0
"""Quantiles so many times apart have no values between them."""

_STEEPEST = 1e6
"""Largest power by which values rise between two quantiles."""

_ROUNDING = 1e-4
"""What a mean may be beyond the quantiles beside it, since numbers in files have six digits."""

_LEAST = 1e-300
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
    """Values at :data:`LEVELS`, and means between them: where no family is like the data.

    Between two levels the value rises by a power of the level, or leaps, so that its mean is the
    one told.
    """

    values: Annotated[tuple[NotNegative, ...], Meta(min_length=len(LEVELS), max_length=len(LEVELS))]
    """Rising."""

    means: Annotated[tuple[NotNegative, ...], Meta(max_length=len(LEVELS) - 1)] = ()
    """Of what lies between two values; if none are told, values rise in straight lines."""

    def __post_init__(self) -> None:
        if any(after < before for before, after in pairwise(self.values)):
            raise ConfigError("the values of quantiles must rise; sort them")
        if self.means and len(self.means) != len(LEVELS) - 1:
            raise ConfigError(f"{len(LEVELS)} quantiles have {len(LEVELS) - 1} means, or none")
        for mean, (low, high) in zip(self.means, pairwise(self.values), strict=False):
            if not low * (1 - _ROUNDING) <= mean <= high * (1 + _ROUNDING):
                raise ConfigError(f"the mean {mean:g} is not between {low:g} and {high:g}")

    def average(self) -> float:
        """Return the mean."""
        return float(np.diff(LEVELS) @ self._means)

    def levels(self, values: Floats) -> Floats:
        """Return the probability of at most each value."""
        low, high = np.array(self.values[:-1]), np.array(self.values[1:])
        piece = np.clip(np.searchsorted(self.values, values, side="right") - 1, 0, low.size - 1)
        height = high[piece] - low[piece]
        part = np.minimum((values - low[piece]) / np.where(height > 0, height, np.inf), 1.0)
        part = np.where(height > 0, np.maximum(part, 0.0), 1.0)
        smooth = part ** (1 / np.maximum(self._powers[piece], 1 / _STEEPEST))
        leaping = np.where(part < 1, self._edges[piece], 1.0)
        inside = np.where(self._leaps[piece], leaping, smooth)
        at = np.array(LEVELS)
        levels = at[piece] + (at[piece + 1] - at[piece]) * inside
        return np.where(values < self.values[0], 0.0, levels)

    def quantiles(self, levels: Floats) -> Floats:
        """Return the values that are not exceeded with each probability."""
        low, high = np.array(self.values[:-1]), np.array(self.values[1:])
        at = np.array(LEVELS)
        piece = np.clip(np.searchsorted(at, levels, side="right") - 1, 0, low.size - 1)
        part = (levels - at[piece]) / (at[piece + 1] - at[piece])
        leaping = (part > self._edges[piece]).astype(np.float64)
        inside = np.where(self._leaps[piece], leaping, part ** self._powers[piece])
        quantiles: Floats = low[piece] + (high[piece] - low[piece]) * inside
        return quantiles

    def scaled(self, factor: float) -> Quantiles:
        """Return the distribution of ``factor`` times the value."""
        return Quantiles(
            values=tuple(value * factor for value in self.values),
            means=tuple(mean * factor for mean in self.means),
        )

    @property
    def _means(self) -> Floats:
        values = np.array(self.values)
        return np.array(self.means) if self.means else (values[1:] + values[:-1]) / 2

    @property
    def _leaps(self) -> Mask:
        """Return which pieces have values of one end and of the other, and none between."""
        values = np.array(self.values)
        leaps: Mask = values[1:] > LEAP * values[:-1]
        return leaps & bool(self.means)

    @property
    def _edges(self) -> Floats:
        """Return which part of each piece has the lower value, if the others have the higher."""
        values = np.array(self.values)
        return np.clip((values[1:] - self._means) / np.maximum(np.diff(values), _LEAST), 0.0, 1.0)

    @property
    def _powers(self) -> Floats:
        """Return by which power of its level each piece rises from one end to the other."""
        heights = np.diff(self.values)
        above = np.maximum(self._means - np.array(self.values[:-1]), heights / _STEEPEST)
        powers = np.where(heights > 0, heights / np.maximum(above, _LEAST) - 1, 1.0)
        return np.clip(powers, 0.0, _STEEPEST)


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
