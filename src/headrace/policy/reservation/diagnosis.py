"""Why a host's prefetch is in need, as far as its own figures tell.

Each mode has a few symptoms. A symptom is how sure one figure makes us, 0 to 1, on a ramp
between two values instead of at a cliff; a mode is as sure as its weakest symptom, and none is
surer than that the queue is low, for otherwise nobody suffers. The surest mode is named. A
cold cache queues at disks too, and a thrashing one does, so congestion is what remains when
the cache is as usual. It may come in pulses, so its figures are means over a window.

| mode | symptoms |
|---|---|
| cold start | few iterations since the start, or a cache that has yet to do as well as usual |
| thrash | the hit rate swings from one iteration to the next and is low, or fell very far |
| congestion | the queue is low for long; I/Os wait behind others, not for their own quota |
| transform-bound | preparing is work of the CPU, not waiting for reads |

Source: elastic reservation report, row B4, and row C12 for transform-bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.core.errors import ConfigError
from headrace.policy.reservation.events import Indicators, Mode
from headrace.policy.reservation.health import Health
from headrace.policy.reservation.picture import Album, Picture


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

    hits_window: int = 20
    """Iterations of which the cache is judged; it takes more to tell a swing from chance."""

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
    """Iterations since the start of a cold start; it lasts longer while the cache fills."""

    begun: Ramp = Ramp(none=3.0, sure=1.0)
    """The same of a queue that had no time to fill, however its batches are prepared."""

    fresh: float = 0.7
    """How sure of a cold start we are while nothing is known that is usual for the host."""

    slow: Ramp = Ramp(none=1.5, sure=3.0)
    """Latency, without the wait for its own quota, over the usual one that is far too long."""

    cold_hits: Ramp = Ramp(none=0.8, sure=0.4)
    """Hit rate of a cache that is cold."""

    swung: Ramp = Ramp(none=0.0026, sure=0.0068)
    """Swing of the hit rate, beyond the usual one, that goes with thrash."""

    fewer_hits: Ramp = Ramp(none=0.97, sure=0.87)
    """Mean hit rate over the window, over the host's own usual one, below which something is
    wrong with the cache."""

    fallen_hits: Ramp = Ramp(none=0.5, sure=0.3)
    """The same that shows thrash without a swing; with some, less will do."""

    refilling_hits: Ramp = Ramp(none=0.9, sure=0.7)
    """The same that shows a cache that fills again after a start."""

    latency_swing: Ramp = Ramp(none=0.0, sure=0.2)
    """Coefficient of variation of the latency over the window that goes with thrash."""

    steady_latency: float = 0.2
    """By this part thrash is less sure where the latency does not swing with the hits."""

    shallow: Ramp = Ramp(none=80.0, sure=60.0)
    """Score of the queue alone that is low: without that there is nothing to explain."""

    low_for: Ramp = Ramp(none=1.0, sure=4.0)
    """Iterations in a row with a low queue that are long."""

    queued: Ramp = Ramp(none=0.1, sure=0.3)
    """Part of a batch's preparation that is waiting behind others."""

    queued_more: Ramp = Ramp(none=0.05, sure=0.2)
    """That part less the usual one."""

    remote: Ramp = Ramp(none=0.0, sure=0.01)
    """Bytes received over bytes read, of reads that pass a network at all: agents may send much
    less than they read."""

    with_nic: float = 0.2
    """By this part congestion is less sure where the queue is deep when the card is busy."""

    throttled: Ramp = Ramp(none=0.8, sure=0.5)
    """Part of an I/O's time that its own quota takes, if that does not explain the need; nor
    does it where I/Os are slow apart from it."""

    hardly_queued: Ramp = Ramp(none=0.6, sure=0.3)
    """The same that leaves the cores to blame."""

    cpu: Ramp = Ramp(none=0.4, sure=0.6)
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
    """Diagnoses one host; keeps a window of its figures, O(window) memory."""

    def __init__(self, limits: DiagnosisLimits | None = None) -> None:
        self._limits = limits or DiagnosisLimits()
        self._album = Album(self._limits.window, self._limits.hits_window)
        self._said: Mode = "none"

    def observe(self, indicators: Indicators, health: Health) -> Diagnosis:
        """Take in one iteration and return what is wrong, if it shows.

        Args:
            indicators: The host's figures, checked by its ``HealthTracker``.
            health: What that tracker made of them.
        """
        self._album.add(indicators, health)
        diagnosis = NOTHING
        if health.score < self._limits.look_below:
            picture = self._album.picture(indicators)
            diagnosis = self._surest(picture, health)
        self._said = diagnosis.mode
        return diagnosis

    def _surest(self, picture: Picture, health: Health) -> Diagnosis:
        limits = self._limits
        low = limits.shallow(health.queue)
        if low == 0:
            return NOTHING
        sure = {mode: min(low, rule(picture, limits)) for mode, rule in _RULES.items()}
        ahead = {mode: sure[mode] + limits.stay * (mode == self._said) for mode in sure}
        mode = max(ahead, key=ahead.__getitem__)
        need = limits.say_from
        if health.score >= limits.tight_below and mode != self._said:
            need = limits.unmistakable
        if ahead[mode] < need:
            return Diagnosis(mode="none", confidence=1.0 - sure[mode], reason="")
        return Diagnosis(mode=mode, confidence=sure[mode], reason=_REASONS[mode](picture))


def _cold_start(p: Picture, limits: DiagnosisLimits) -> float:
    if p.settled:
        return min(limits.early(p.iteration), limits.slow(p.latency_ratio))
    fresh = min(limits.fresh, max(limits.begun(p.iteration), 1.0 - limits.cpu(p.cpu)))
    first = max(fresh, limits.slow(p.latency_ratio), limits.cold_hits(p.hit_rate))
    fills = limits.refilling_hits(p.hits_over_usual) if p.known else float(p.hits_rise)
    return max(min(limits.early(p.iteration), first), min(fills, 1.0 - _loses(p, limits)))


def _thrash(p: Picture, limits: DiagnosisLimits) -> float:
    if not p.known:
        return 0.0
    calm = 1.0 - limits.latency_swing(p.latency_swing)
    return min(limits.low_for(p.low_for), _loses(p, limits)) * (1.0 - limits.steady_latency * calm)


def _loses(p: Picture, limits: DiagnosisLimits) -> float:
    """Return how sure it is that the cache loses what it used to hold."""
    fallen = limits.fallen_hits(p.hits_over_usual) if p.settled else 0.0
    evidence = min(1.0, limits.swung(p.swung) + fallen)
    return min(evidence, limits.fewer_hits(p.hits_over_usual))


def _congestion(p: Picture, limits: DiagnosisLimits) -> float:
    sure = min(
        limits.low_for(p.low_for),
        limits.queued(p.queued),
        limits.queued_more(p.queued - p.usual_queued),
        limits.remote(p.remote_share),
        max(limits.throttled(p.throttled), limits.slow(p.latency_ratio)),
        1.0 - _loses(p, limits),
        1.0 if p.settled else 1.0 - limits.cold_hits(p.hit_rate),
    )
    return sure * (1.0 - limits.with_nic * max(0.0, p.depth_against_nic))


def _transform_bound(p: Picture, limits: DiagnosisLimits) -> float:
    had_time = 1.0 if p.settled else 1.0 - limits.begun(p.iteration)
    hardly_queued = limits.hardly_queued(p.queued)
    return min(limits.cpu(p.cpu), hardly_queued, limits.throttled(p.throttled), had_time)


Rule = Callable[[Picture, DiagnosisLimits], float]

_RULES: dict[Mode, Rule] = {
    "cold-start": _cold_start,
    "thrash": _thrash,
    "congestion": _congestion,
    "transform-bound": _transform_bound,
}
"""How sure each mode is if the queue is low, 0 to 1; of equally sure ones the first is named."""


_REASONS: dict[Mode, Callable[[Picture], str]] = {
    "cold-start": lambda p: (
        f"iteration {p.iteration} since the start, I/Os take {p.latency_ratio:.1f} times the "
        f"usual, {p.hit_rate:.0%} hits"
    ),
    "thrash": lambda p: (
        f"hit rate {p.hits_mean:.0%} on average, swung by {p.swung:.2g}, "
        f"{p.hits_over_usual:.0%} of the usual"
    ),
    "congestion": lambda p: (
        f"waiting behind others takes {p.queued:.0%} of preparing, usually "
        f"{p.usual_queued:.0%}, and the queue has been low for {p.low_for} iterations"
    ),
    "transform-bound": lambda p: (
        f"{p.cpu:.0%} of preparing is work of the CPU, {p.queued:.0%} waiting behind others"
    ),
}
