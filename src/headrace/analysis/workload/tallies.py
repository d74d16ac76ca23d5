"""What is added up of a quantity to fit it: how it is spread, and what hosts and steps share."""

from __future__ import annotations

import numpy as np

from headrace.analysis.columns import Floats, Ints
from headrace.analysis.spreads import SpreadSketch
from headrace.analysis.workload.distributions import Constant, Distribution
from headrace.analysis.workload.families import choose_family
from headrace.analysis.workload.model import Quantity
from headrace.analysis.workload.normal import normal_scores

LEAST_SHARE = 0.05
"""Of the variance, below which the autocorrelation of what is shared cannot be told."""

LEAST_STEPS = 30
"""With which an autocorrelation can be told."""

MOST_PAIRS = 65_536
"""Of which a correlation is told; of more, every second, every fourth … is kept."""

MOST_GROUPS = 1 << 20
"""Hosts, or steps, of which it is told what they share; later ones are like these."""

_LARGEST_AUTOCORRELATION = 0.99
_DECIMALS = 4
"""Of shares; less than that cannot be told from nothing."""


class _Means:
    """Sums by group, from which the groups' means follow."""

    def __init__(self) -> None:
        self._counts: Floats = np.zeros(0)
        self._sums: Floats = np.zeros(0)

    def add(self, groups: Ints, values: Floats, times: Ints) -> None:
        """Take in values; groups below 0 are none, nor are those beyond :data:`MOST_GROUPS`."""
        known = (groups >= 0) & (groups < MOST_GROUPS)
        groups, values, times = groups[known], values[known], times[known]
        size = max(self._counts.size, int(groups.max(initial=-1)) + 1)
        self._take(
            np.bincount(groups, weights=times, minlength=size).astype(np.float64),
            np.bincount(groups, weights=values * times, minlength=size).astype(np.float64),
        )

    def merge(self, other: _Means) -> None:
        """Take in all that another one took in."""
        self._take(other._counts, other._sums)

    def _take(self, counts: Floats, sums: Floats) -> None:
        size = max(self._counts.size, counts.size)
        self._counts = _wide(self._counts, size) + _wide(counts, size)
        self._sums = _wide(self._sums, size) + _wide(sums, size)

    def deviations(self, mean: float) -> tuple[Floats, Floats]:
        """Return how far each group's mean is off, and each group's count; 0 where it has none."""
        counts = np.maximum(self._counts, 1)
        return np.where(self._counts > 0, self._sums / counts - mean, 0.0), self._counts

    @property
    def groups(self) -> int:
        """Return how many there are."""
        return int(np.count_nonzero(self._counts))


class Tally:
    """Takes in values that are 0 or whole and positive, of ranks in steps."""

    def __init__(self) -> None:
        self._spread = SpreadSketch()
        self._hosts, self._steps = _Means(), _Means()
        self._count = 0.0
        self._sum = self._squares = 0.0

    @property
    def count(self) -> int:
        """Return how many values there were."""
        return self._spread.count

    @property
    def total(self) -> float:
        """Return the sum of all values."""
        return self._spread.total

    @property
    def mean(self) -> float:
        """Return the mean of all values, zeros included; 0 where there are none."""
        return self.total / max(self.count, 1)

    def add(
        self,
        values: Floats | Ints,
        times: Ints,
        *,
        hosts: Ints | None = None,
        steps: Ints | None = None,
    ) -> None:
        """Take in values, each ``times`` times, of a host and in a step (below 0: not known)."""
        self._spread.add(np.rint(values)[times > 0], times[times > 0])
        positive = (values > 0) & (times > 0)
        logs, times = np.log(values[positive]), times[positive]
        self._count += float(times.sum())
        self._sum += float(logs @ times)
        self._squares += float((logs**2) @ times)
        if hosts is not None:
            self._hosts.add(hosts[positive], logs, times)
        if steps is not None:
            self._steps.add(steps[positive], logs, times)

    def merge(self, other: Tally) -> None:
        """Take in all that another one took in."""
        self._spread.merge(other._spread)
        self._hosts.merge(other._hosts)
        self._steps.merge(other._steps)
        self._count += other._count
        self._sum += other._sum
        self._squares += other._squares

    def distribution(self, unit: float = 1.0) -> Distribution | None:
        """Return that of the values that are not 0, in a unit; None where there are none."""
        values, times = self._spread.weighted()
        first = int(np.searchsorted(values, 0.0, side="right"))
        if first == values.size:
            return None
        return choose_family(values[first:] / unit, times[first:], width=self._spread.width)

    def quantity(self, unit: float, *, zeros: int = 0) -> Quantity:
        """Return all of it, in a unit.

        Args:
            unit: Such as 1e9 from ns to s.
            zeros: Further values that are 0 and were not taken in.
        """
        distribution = self.distribution(unit)
        if distribution is None:
            return Quantity(distribution=Constant(mean=0.0))
        host_share, step_share, autocorrelation = self._shares()
        return Quantity(
            distribution=distribution,
            zero_share=1.0 - self._count / (self.count + zeros),
            host_share=host_share,
            step_share=step_share,
            autocorrelation=autocorrelation,
        )

    def _shares(self) -> tuple[float, float, float]:
        """Return what hosts and steps share of the variance of logarithms, and for how long.

        The means of groups spread also by chance, as the rest of the variance says; that is
        taken away (analysis of variance with two crossed factors).
        """
        if self._count < 2:
            return 0.0, 0.0, 0.0
        mean = self._sum / self._count
        whole = self._squares / self._count - mean**2
        if whole <= 1e-9:
            return 0.0, 0.0, 0.0
        between_hosts, between_steps = (
            self._between(self._hosts, mean),
            self._between(self._steps, mean),
        )
        of_hosts, of_steps = max(self._hosts.groups - 1, 0), max(self._steps.groups - 1, 0)
        free = self._count - of_hosts - of_steps - 1
        if free <= 0:
            return 0.0, 0.0, 0.0
        by_chance = max(whole - between_hosts - between_steps, 0.0) / free
        host = max(between_hosts - by_chance * of_hosts, 0.0)
        step = max(between_steps - by_chance * of_steps, 0.0)
        total = max(whole, host + step)
        autocorrelation = self._autocorrelation(mean, step, whole)
        return round(host / total, _DECIMALS), round(step / total, _DECIMALS), autocorrelation

    def _between(self, means: _Means, mean: float) -> float:
        deviations, counts = means.deviations(mean)
        return float((deviations**2) @ counts) / self._count if means.groups > 1 else 0.0

    def _autocorrelation(self, mean: float, step: float, whole: float) -> float:
        if self._steps.groups < LEAST_STEPS or step < LEAST_SHARE * whole:
            return 0.0
        deviations, counts = self._steps.deviations(mean)
        pairs = (counts[1:] > 0) & (counts[:-1] > 0)
        together = float((deviations[1:] * deviations[:-1])[pairs].mean()) if pairs.any() else 0.0
        return min(max(together / step, 0.0), _LARGEST_AUTOCORRELATION)


class Pairs:
    """How two quantities go along: the correlation of their normal scores, from a sample."""

    def __init__(self) -> None:
        self._kept: list[Floats] = []
        self._count = 0
        self._stride = 1

    def add(self, first: Floats | Ints, second: Floats | Ints) -> None:
        """Take in pairs; those that are not both above 0 tell nothing."""
        both = (first > 0) & (second > 0)
        pairs = np.stack((first[both], second[both])).astype(np.float64)[:, :: self._stride]
        self._kept.append(pairs)
        self._count += pairs.shape[1]
        if self._count > 2 * MOST_PAIRS:
            self._kept = [np.concatenate(self._kept, axis=1)[:, ::2]]
            self._count = self._kept[0].shape[1]
            self._stride *= 2

    @property
    def correlation(self) -> float:
        """Return it, -1 to 1; 0 where pairs are too few or one quantity is always the same."""
        if self._count < LEAST_STEPS:
            return 0.0
        first, second = (_scores(values) for values in np.concatenate(self._kept, axis=1))
        spread = float(np.sqrt((first @ first) * (second @ second)))
        return round(float(first @ second) / spread, _DECIMALS) if spread > 0 else 0.0


def _scores(values: Floats) -> Floats:
    """Return normal scores by rank; equal values have the same."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    levels = (np.cumsum(counts) - counts / 2) / values.size
    scores = normal_scores(levels)[place]
    centred: Floats = scores - scores.mean()
    return centred


def _wide(values: Floats, size: int) -> Floats:
    return np.pad(values, (0, size - values.size))
