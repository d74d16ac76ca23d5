"""The values of a quantity for all ranks of a job, step by step."""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np

from headrace.analysis.columns import LATEST, Floats, Ints
from headrace.analysis.workload.distributions import Curve
from headrace.analysis.workload.model import Linked, Quantity
from headrace.analysis.workload.noise import Noise
from headrace.analysis.workload.normal import normal_scores
from headrace.core.errors import CallerError

_NOBODY = np.zeros(1, np.int64)
"""Stands for all ranks where they share one number."""

_NONE = np.empty(0, np.int64)

NS_PER_S = 1e9


class Field:
    """A quantity of each rank in each step: its scores, linked through hosts and steps."""

    def __init__(
        self,
        name: str,
        quantity: Quantity,
        noise: Noise,
        *,
        hosts: Ints,
        steps: int,
        usual: Ints = _NONE,
    ) -> None:
        """Draw what hosts and steps share.

        Args:
            name: Of the quantity; no other has the same random numbers.
            quantity: Its distribution, and what is shared.
            noise: Of the trace.
            hosts: The host of each rank, from 0 on.
            steps: That will be asked for.
            usual: Hosts that are neither slower nor faster than the mean.
        """
        self.curve = Curve(quantity.distribution, quantity.zero_share)
        self._name, self._noise, self._hosts = name, noise, hosts
        count = int(hosts.max()) + 1
        self._of_hosts = math.sqrt(quantity.host_share) * even_scores(noise, f"{name}/host", count)
        self._of_hosts[usual] = 0.0
        self._of_steps = math.sqrt(quantity.step_share) * _chained(
            noise.normals(f"{name}/step", np.arange(steps), _NOBODY)[:, 0],
            quantity.autocorrelation,
        )
        own_share = max(0.0, 1.0 - quantity.host_share - quantity.step_share)
        self._own_weight = math.sqrt(own_share)

    def scores(self, steps: Ints, ranks: Ints, slot: int = 0) -> Floats:
        """Return normal scores, [steps, ranks]; each slot has its own."""
        own = self._noise.normals(f"{self._name}/{slot}", steps, ranks)
        of_hosts = self._of_hosts[self._hosts[ranks]]
        return self._of_steps[steps][:, None] + of_hosts[None, :] + self._own_weight * own

    def values(self, steps: Ints, ranks: Ints) -> Floats:
        """Return values, [steps, ranks]."""
        return self.curve(self.scores(steps, ranks))


class LinkedField:
    """A quantity that goes along with another's scores."""

    def __init__(self, name: str, linked: Linked, noise: Noise) -> None:
        self._curve = Curve(linked.distribution)
        self._name, self._noise = name, noise
        self._weight = linked.correlation
        self._own_weight = math.sqrt(1.0 - linked.correlation**2)

    def values(self, steps: Ints, ranks: Ints, scores: Floats, slot: int) -> Floats:
        """Return values, [steps, ranks], given the other quantity's scores."""
        if not self._own_weight:
            return self._curve(self._weight * scores)
        own = self._noise.normals(f"{self._name}/{slot}", steps, ranks)
        return self._curve(self._weight * scores + self._own_weight * own)


def nanoseconds(seconds: Floats) -> Ints:
    """Return seconds as whole nanoseconds.

    Raises:
        CallerError: one is longer than any trace.
    """
    longest = float(seconds.max(initial=0.0))
    if longest * NS_PER_S >= LATEST:
        raise CallerError(f"{longest:.3g} s of the model are longer than any trace; lower them")
    return np.rint(seconds * NS_PER_S).astype(np.int64)


def even_scores(noise: Noise, name: str, count: int) -> Floats:
    """Return normal scores evenly spread over the distribution, in random order.

    So a few hosts are spread as many are, and their mean is that of the model.
    """
    if count == 1:
        return np.zeros(1)
    scores = normal_scores((np.arange(count) + 0.5) / count)
    even: Floats = scores / scores.std()
    return even[shuffled(noise, name, count)]


def shuffled(noise: Noise, name: str, count: int) -> Ints:
    """Return the numbers from 0 on in random order."""
    drawn = noise.uniforms(name, np.arange(count), _NOBODY)[:, 0]
    return np.argsort(drawn, kind="stable")


def _chained(scores: Floats, autocorrelation: float) -> Floats:
    """Return scores of which each goes along with the one before (AR(1))."""
    if not autocorrelation:
        return scores
    own = math.sqrt(1 - autocorrelation**2)
    first, *others = scores.tolist()
    chain = accumulate(others, lambda last, new: autocorrelation * last + own * new, initial=first)
    return np.array(list(chain))
