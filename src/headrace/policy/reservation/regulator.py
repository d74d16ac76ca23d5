"""Steers one job's bandwidth on one medium towards a health of 75.

A PID controller in velocity form: it answers with a *change* of the quota that is in force,
so the quota itself is the integral. Three properties follow without further machinery:

- **Anti-windup**: a wish is always counted from what was *granted*, which is back-calculation
  with a gain of 1. A job that was refused for an hour has wished for no more than one step
  above what it had, and leaves that saturation with the first score above the target.
- **Bumpless restart**: a new regulator takes over whatever quota is in force. Its first look
  changes nothing, it only learns where the score is.
- **Dead band**: within it the change is 0, so the integral is held, not reset. Score and
  derivative are followed all the while, hence leaving the band gives no kick.

Source: elastic reservation report, row B2 (target 75, dead band 5, at most 20 % per adjustment).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isfinite

from headrace.core.errors import ConfigError, ReportError


@dataclass(frozen=True, kw_only=True, slots=True)
class Gains:
    """How strongly one medium's regulator answers, in parts of the quota per point of score."""

    proportional: float
    """Part of the quota per point that the score fell since the adjustment before."""

    integral: float
    """Part of the quota per point of error and iteration, for small errors."""

    derivative: float
    """Part of the quota per point that the score's slope fell since the adjustment before."""

    derivative_iterations: float = 2.0
    """Time constant of the slope's first-order filter [iterations]."""

    def __post_init__(self) -> None:
        if min(self.proportional, self.integral, self.derivative) < 0:
            raise ConfigError(f"gains {self} must not be negative: quotas would run from health")
        if self.derivative_iterations <= 0:
            raise ConfigError(
                f"gains.derivative_iterations={self.derivative_iterations:g} must be above 0"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class RegulatorLimits:
    """Where a job's health is steered to, and how far a quota may go."""

    target: float = 75.0
    """Score that is steered to."""

    dead_band: float = 5.0
    """Closer to the target than this, a quota is left alone [points]."""

    far: float = 30.0
    """Error at which the integral gain has doubled [points]; it grows with the error's square.
    An empty queue gives the other gains nothing to go by, for its score does not move; near
    the target, where they see everything, the integral would only make the loop swing."""

    step: float = 0.2
    """Most change per adjustment, as part of the quota in force."""

    floor: float = 1e6
    """Smallest quota that is wished for [B/s]."""

    ceiling: float = 1e13
    """Largest quota that is wished for [B/s]."""

    def __post_init__(self) -> None:
        if not 0 <= self.dead_band < self.target <= 100:
            raise ConfigError(
                f"regulator.target={self.target:g} must lie in (dead_band={self.dead_band:g}, 100]"
            )
        if self.far <= 0:
            raise ConfigError(f"regulator.far={self.far:g} points must be above 0")
        if not 0 < self.step < 1:
            raise ConfigError(f"regulator.step={self.step:g} must lie in (0, 1); 0.2 is a fifth")
        if not 0 < self.floor <= self.ceiling:
            raise ConfigError(
                f"regulator.floor={self.floor:g} B/s must lie in (0, ceiling={self.ceiling:g}]"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Adjustment:
    """What a job's quota should become."""

    wanted: float
    """Quota wished for [B/s]."""

    change: float
    """Relative to the quota in force: 0.1 is a tenth more."""

    saturated: bool
    """A limit cut the change short."""

    error: float
    """Target minus score [points]."""

    @property
    def reason(self) -> str:
        """The change and what led to it, in words."""
        if self.change == 0 and not self.saturated:
            return f"left alone: {self.error:+.0f} points from the target"
        cut = ", as far as one adjustment may go" if self.saturated else ""
        return f"{self.change:+.1%}: {self.error:+.0f} points from the target{cut}"


class Regulator:
    """One job's regulator on one medium; keeps the score and its slope, nothing else."""

    def __init__(self, gains: Gains, limits: RegulatorLimits | None = None) -> None:
        self.gains = gains
        self.limits = limits or RegulatorLimits()
        self._score: float | None = None
        self._slope = 0.0

    def adjust(self, score: float, *, granted: float, iterations: int = 1) -> Adjustment:
        """Return the quota wished for after one iteration, or several.

        Args:
            score: The job's health, 0 to 100.
            granted: Its quota in force: what was granted, not what was wished for [B/s].
            iterations: Iterations since the call before.

        Raises:
            ReportError: A figure is not finite or out of its range; nothing changed.
        """
        _check(score, granted, iterations)
        error = self.limits.target - score
        change = self._follow(score, iterations)
        if abs(error) < self.limits.dead_band:
            change = 0.0
        return self._limited(change, granted, error)

    def _follow(self, score: float, iterations: int) -> float:
        """Take in a score and return the change that it alone asks for; the first asks for none."""
        if self._score is None:
            self._score = score
            return 0.0
        fell = self._score - score
        trust = 1.0 - exp(-iterations / self.gains.derivative_iterations)
        slope = self._slope + trust * (-fell / iterations - self._slope)
        bent = self._slope - slope
        self._score, self._slope = score, slope
        gains = self.gains
        return (
            gains.proportional * fell
            + gains.integral * self._far(self.limits.target - score) * iterations
            + gains.derivative * bent
        )

    def _far(self, error: float) -> float:
        """Return the error as the integral sees it: more than it is when it is large."""
        return error * (1.0 + (error / self.limits.far) ** 2)

    def _limited(self, change: float, granted: float, error: float) -> Adjustment:
        limits = self.limits
        step = min(limits.step, max(-limits.step, change))
        wished = granted * (1.0 + step)
        wanted = min(limits.ceiling, max(limits.floor, wished))
        return Adjustment(
            wanted=wanted,
            change=wanted / granted - 1.0 if granted else 0.0,
            saturated=step != change or wanted != wished,
            error=error,
        )


def _check(score: float, granted: float, iterations: int) -> None:
    if not 0 <= score <= 100:
        raise ReportError(f"a score of {score:g} must lie in 0 to 100; check who computed it")
    if not isfinite(granted) or granted < 0:
        raise ReportError(
            f"a granted quota of {granted:g} B/s must be finite and not negative; "
            "tell what is in force"
        )
    if iterations < 1:
        raise ReportError(f"{iterations} iterations since the call before must be 1 or more")
