"""Why a host's prefetch is in need, as far as its own figures tell.

Each mode has a few symptoms. A symptom is how sure one figure makes us, 0 to 1, on a ramp
between two values instead of at a cliff; a mode is as sure as its weakest symptom. The surest
mode is named, in order of what explains what: a cold cache also queues at disks, and a
thrashing one does, so congestion is what remains when the cache is as usual.

| mode | symptoms |
|---|---|
| cold start | few iterations since the start; the cache fills or I/Os take longer than usual |
| thrash | the cache's hit rate swings and is low on average, or fell far below its usual |
| congestion | the queue is low for long; I/Os wait behind others, not for their own quota |
| transform-bound | the queue is low; preparing is work of the CPU, not waiting for reads |

Source: elastic reservation report, row B4, and row C12 for transform-bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean, pvariance

from headrace.core.errors import ConfigError
from headrace.policy.reservation.events import Indicators, Mode
from headrace.policy.reservation.health import Health
from headrace.policy.reservation.steady import SteadyLatency


@dataclass(frozen=True, kw_only=True, slots=True)
class Ramp:
    """How sure a figure makes us: 0 up to ``none``, 1 from ``sure`` on, a line in between."""

    none: float
    sure: float

    def __call__(self, value: float) -> float:
        """Return how sure ``value`` makes us, 0 to 1."""
        return min(1.0, max(0.0, (value - self.none) / (self.sure - self.none)))

    def __post_init__(self) -> None:
        if self.none == self.sure:
            raise ConfigError(f"a ramp from {self.none:g} to {self.sure:g} has no slope")


@dataclass(frozen=True, kw_only=True, slots=True)
class DiagnosisLimits:
    """Where symptoms begin and where they are certain."""

    window: int = 12
    """Iterations looked back upon."""

    look_below: float = 80.0
    """A health of this and more is not diagnosed: nothing is wrong."""

    tight_below: float = 60.0
    """From this health on only what is unmistakable is said."""

    say_from: float = 0.5
    """How sure a mode must be while health is tight."""

    unmistakable: float = 0.95
    """How sure it must be while health is not."""

    stay: float = 0.15
    """What the mode said last has ahead of others, so that the answer does not flap."""

    early: Ramp = Ramp(none=20.0, sure=10.0)
    """Iterations since the start that make a cold start likely."""

    slow: Ramp = Ramp(none=1.5, sure=3.0)
    """Latency over the usual that shows a cold start."""

    cold_hits: Ramp = Ramp(none=0.8, sure=0.4)
    """Hit rate, over the usual, of a cache that is cold."""

    swing: Ramp = Ramp(none=0.002, sure=0.01)
    """Variance of the hit rate over the window that shows thrash."""

    low_hits: Ramp = Ramp(none=0.8, sure=0.6)
    """Mean hit rate over the window, low enough for thrash."""

    fallen_hits: Ramp = Ramp(none=0.8, sure=0.5)
    """Mean hit rate over the host's own usual one that shows thrash without a swing."""

    shallow: Ramp = Ramp(none=0.6, sure=0.3)
    """Filled part of the queue, over the window, that is low for long."""

    queued: Ramp = Ramp(none=0.35, sure=0.65)
    """Part of an I/O's time, but for its own quota, that it waits behind others."""

    throttled: Ramp = Ramp(none=0.7, sure=0.4)
    """Part of an I/O's time that its own quota may take before that explains the need."""

    cpu: Ramp = Ramp(none=0.4, sure=0.7)
    """Part of a batch's preparation that is work of the CPU."""

    def __post_init__(self) -> None:
        if self.window < 3:
            raise ConfigError(f"diagnosis.window={self.window} must be 3 iterations or more")
        if not 0 < self.say_from <= self.unmistakable <= 1:
            raise ConfigError(
                f"diagnosis.say_from={self.say_from:g} must lie in (0, unmistakable="
                f"{self.unmistakable:g}], and that not above 1"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """What is wrong, and how sure that is."""

    mode: Mode
    confidence: float
    """0 to 1; of ``none``: how far every mode is from being said."""

    reason: str
    """The figures that led to it; empty for ``none``."""


NOTHING = Diagnosis(mode="none", confidence=1.0, reason="")
"""Nothing is wrong, or nothing that could be named."""


class Diagnostician:
    """Keeps a window of one host's figures, O(window) memory."""

    def __init__(self, limits: DiagnosisLimits | None = None) -> None:
        self._limits = limits or DiagnosisLimits()

    def observe(self, indicators: Indicators, health: Health) -> Diagnosis:
        """Take in one iteration and return what is wrong, if it shows.

        Args:
            indicators: The host's figures, checked by its ``HealthTracker``.
            health: What that tracker made of them.
        """
        return NOTHING
