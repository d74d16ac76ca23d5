"""The plain regulator of rows B2 and B5: a PID without anti-windup, once per iteration.

Source: elastic reservation report. Where it is silent the choice is in its favour: gains are
small, and the integral begins anew when the error changes its sign, without which a job that
was well for long would lose quota for long after it got into need.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.media import Media

TARGET = 75.0
"""Score that the regulator aims at (row B2)."""

DEAD_BAND = 5.0
"""Errors that are smaller bring no change (row B2)."""

CLAMP = 0.2
"""Largest change of a quota per adjustment, as a part of it (row B2)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PidGains:
    """Part of the quota per point of the score."""

    proportional: float = 0.004
    integral: float = 0.0004
    derivative: float = 0.002


GAINS: dict[Media, PidGains] = {
    "ssd": PidGains(integral=0.0002, derivative=0.004),
    "hdd": PidGains(),
    "link": PidGains(),
}
"""SSD: lower integral, higher derivative gain (row B5)."""


class Pid:
    """Turns a score into a relative change of a quota."""

    def __init__(self, gains: PidGains) -> None:
        self._gains = gains
        self._sum = 0.0
        self._before: float | None = None

    def change(self, score: float) -> float:
        """Return by which part of itself the quota should change, at most ``CLAMP``."""
        error = TARGET - score
        slope = 0.0 if self._before is None else error - self._before
        self._before = error
        if abs(error) < DEAD_BAND:
            return 0.0
        self._sum = error + (self._sum if self._sum * error > 0 else 0.0)
        wanted = (
            self._gains.proportional * error
            + self._gains.integral * self._sum
            + self._gains.derivative * slope
        )
        return min(CLAMP, max(-CLAMP, wanted))
