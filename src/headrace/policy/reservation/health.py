"""Turns what a host's prefetch looks like after an iteration into one score, 0 to 100.

Each of four indicators is scored by itself, smoothed, and weighed. The queue has the last
word: a batch that lies ready is what prefetching is for, so the other three, which foretell
what becomes of the queue, move the score by at most ``reach`` from the queue's own. A full
queue is healthy whatever its I/Os look like, and an empty one is critical.

Source: elastic reservation report, row B1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.core.errors import ConfigError
from headrace.policy.reservation.events import Indicators, Level
from headrace.policy.reservation.indicators import check_indicators
from headrace.policy.reservation.usual import Usual

Indicator = Literal["queue", "latency", "variation", "next batch"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """A line from 100 at ``good`` (and better) down to 0 at ``bad`` (and worse)."""

    good: float
    bad: float

    def score(self, value: float) -> float:
        """Return where a value lies on the scale, 0 to 100."""
        share = (self.bad - value) / (self.bad - self.good)
        return 100.0 * min(1.0, max(0.0, share))


@dataclass(frozen=True, kw_only=True, slots=True)
class HealthLimits:
    """What the four indicators count for, and where their scales begin and end."""

    queue_weight: float = 0.5
    """Weight of the prefetch queue's depth."""

    latency_weight: float = 0.2
    """Weight of the mean completion latency."""

    variation_weight: float = 0.1
    """Weight of the latency's coefficient of variation."""

    next_weight: float = 0.2
    """Weight of the next batch's bytes."""

    queue: Scale = Scale(good=0.75, bad=0.0)
    """Ready batches over the queue's capacity; it need not be full to be well."""

    latency: Scale = Scale(good=1.5, bad=4.0)
    """Mean latency over the host's own usual one; a cold start shows 3 to 5."""

    variation: Scale = Scale(good=1.0, bad=3.0)
    """Coefficient of variation. Independent waits have 1, hits mixed with misses 2 and more."""

    next_load: Scale = Scale(good=0.5, bad=2.0)
    """Time that the next batch takes at the rate of late, over the time until it is wanted."""

    smoothing: float = 0.6
    """Weight of the newest iteration, 0 to 1. With 0.6 a job whose full queue runs empty is
    tight after one iteration and critical after three."""

    reach: float = 10.0
    """Most points by which the other three move the score from the queue's own."""

    def __post_init__(self) -> None:
        if min(self.weights) < 0 or sum(self.weights) <= 0:
            raise ConfigError(
                f"health weights {self.weights} must not be negative, and one above 0; "
                "set queue_weight above 0"
            )
        if not 0 < self.smoothing <= 1:
            raise ConfigError(f"health.smoothing={self.smoothing:g} must lie in (0, 1]")
        if not 0 <= self.reach <= 100:
            raise ConfigError(f"health.reach={self.reach:g} must lie in 0 to 100 points")
        if not self.queue.good > self.queue.bad:
            raise ConfigError("health.queue must be better where more is ready: good above bad")
        for name in ("latency", "variation", "next_load"):
            scale: Scale = getattr(self, name)
            if not scale.good < scale.bad:
                raise ConfigError(f"health.{name} must be better where less is: good below bad")

    @property
    def weights(self) -> tuple[float, float, float, float]:
        """Weights of queue, latency, variation, next batch."""
        return self.queue_weight, self.latency_weight, self.variation_weight, self.next_weight


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """How well one host's prefetch does, smoothed over iterations."""

    score: float
    """0 (nothing is ready) to 100."""

    queue: float
    """Score of the queue's depth alone, as are the next three of theirs."""

    latency: float
    variation: float
    next_batch: float

    depth: float
    """Batches that lay ready in the newest iteration."""

    capacity: float
    latency_s: float
    """Mean latency of the newest iteration [s]."""

    usual_latency_s: float
    """The host's usual one [s]; 0 while none is known."""

    next_load: float
    """The newest iteration's: above 1, the next batch comes late at the rate of late."""

    @property
    def level(self) -> Level:
        """By score: healthy from 60, tight below, danger below 40, critical below 20."""
        return level_of(self.score)

    @property
    def worst(self) -> Indicator:
        """The indicator with the lowest score; of equal ones the first."""
        scores: dict[Indicator, float] = {
            "queue": self.queue,
            "latency": self.latency,
            "variation": self.variation,
            "next batch": self.next_batch,
        }
        return min(scores, key=scores.__getitem__)

    @property
    def reason(self) -> str:
        """The score and the indicator that is worst, in words."""
        facts: dict[Indicator, str] = {
            "queue": f"{self.depth:g} of {self.capacity:g} batches ready",
            "latency": f"I/Os take {self.latency_s:.3g} s, usually {self.usual_latency_s:.3g} s",
            "variation": f"I/Os of {self.latency_s:.3g} s vary much",
            "next batch": f"the next batch takes {self.next_load:.2g} times the time it has",
        }
        return f"score {self.score:.0f}, {self.level}: {facts[self.worst]}"


def level_of(score: float) -> Level:
    """Return the level of a score: limits at 60, 40 and 20 (row B1)."""
    if score >= 60:
        return "healthy"
    if score >= 40:
        return "tight"
    return "danger" if score >= 20 else "critical"


class HealthTracker:
    """Keeps one host's smoothed indicators, in O(1) memory.

    Scores are smoothed, not raw figures: a latency of 1000 times the usual is no worse than
    the end of the scale, and is forgotten as quickly.
    """

    def __init__(self, limits: HealthLimits | None = None, *, usual_latency_s: float = 0.0) -> None:
        self._limits = limits or HealthLimits()
        total = sum(self._limits.weights)
        self._weights = tuple(weight / total for weight in self._limits.weights)
        self._usual = Usual(usual_latency_s or None, less_is_better=True)
        self._iteration = -1
        self._rate: float | None = None
        self._scores: tuple[float, float, float, float] | None = None

    @property
    def usual_latency_s(self) -> float:
        """The host's usual latency, to start a tracker with after a restart [s]."""
        return self._usual.value or 0.0

    def observe(self, indicators: Indicators) -> Health:
        """Take in one iteration and return the host's health.

        One that is earlier than the last begins a new run: of the one before only what is usual
        for the host is kept.

        Raises:
            ReportError: A figure is not finite, negative or out of its range; nothing changed.
        """
        check_indicators(indicators)
        if indicators.iteration < self._iteration:
            self._rate = self._scores = None
        self._iteration = indicators.iteration
        self._learn(indicators)
        load = self._next_load(indicators)
        queue, latency, variation, next_batch = self._smooth(indicators, load)
        return Health(
            score=self._weigh(queue, latency, variation, next_batch),
            queue=queue,
            latency=latency,
            variation=variation,
            next_batch=next_batch,
            depth=indicators.queue_depth,
            capacity=indicators.queue_capacity,
            latency_s=indicators.io_latency_s,
            usual_latency_s=self.usual_latency_s,
            next_load=load,
        )

    def _learn(self, indicators: Indicators) -> None:
        if indicators.io_latency_s > 0:
            full = self._limits.queue.score(filled(indicators)) >= 100.0
            self._usual.observe(indicators.io_latency_s, keeps_up=full)
        if self._rate is None:
            self._rate = indicators.read_bytes_per_s or None
        else:
            self._rate += self._limits.smoothing * (indicators.read_bytes_per_s - self._rate)

    def _next_load(self, indicators: Indicators) -> float:
        """Return the next batch's time at the rate of late over the time until it is wanted.

        It is wanted when the batches that lie ready are used up, a step each. Without a rate
        or a step time nothing is known against it.
        """
        if self._rate is None or indicators.step_time_s == 0 or indicators.next_bytes == 0:
            return 0.0
        deliverable = self._rate * indicators.step_time_s * (1.0 + indicators.queue_depth)
        return indicators.next_bytes / max(deliverable, 1.0)

    def _smooth(self, i: Indicators, load: float) -> tuple[float, float, float, float]:
        limits = self._limits
        new = (
            limits.queue.score(filled(i)),
            limits.latency.score(self._usual.ratio(i.io_latency_s)),
            limits.variation.score(i.io_latency_cv),
            limits.next_load.score(load),
        )
        old = self._scores or new
        keep, trust = 1.0 - limits.smoothing, limits.smoothing
        self._scores = (
            keep * old[0] + trust * new[0],
            keep * old[1] + trust * new[1],
            keep * old[2] + trust * new[2],
            keep * old[3] + trust * new[3],
        )
        return self._scores

    def _weigh(self, queue: float, latency: float, variation: float, next_batch: float) -> float:
        w = self._weights
        weighed = w[0] * queue + w[1] * latency + w[2] * variation + w[3] * next_batch
        reach = self._limits.reach
        return min(max(weighed, queue - reach), queue + reach, 100.0)


def filled(indicators: Indicators) -> float:
    """Return the filled part of the queue; without a queue, the part of time not waited."""
    if indicators.queue_capacity > 0:
        return indicators.queue_depth / indicators.queue_capacity
    cycle_s = indicators.step_time_s + indicators.wait_s
    return 1.0 - indicators.wait_s / cycle_s if cycle_s > 0 else 1.0
