"""How fast the training loop goes, and so when each step is due."""

from __future__ import annotations

import threading
from dataclasses import dataclass

SMOOTHING = 0.2
"""Weight of the newest step time in the moving mean."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Where the loop is."""

    consumed_step: int
    """The step that the loop works on now; one before the first until it asks."""

    step_time_s: float
    """Smoothed time of one step without waiting for data [s]; 0 before the first one ended."""

    def ahead(self, step: int) -> int:
        """Return how many other steps the loop will ask for before this one."""
        return max(step - self.consumed_step - 1, 0)

    def due_in(self, step: int) -> float:
        """Return how long until the loop will ask for a step, if it never has to wait [s]."""
        return self.ahead(step) * self.step_time_s


class Pace:
    """Measures the loop. Thread-safe: one thread writes, any reads."""

    def __init__(self, first_step: int) -> None:
        self._lock = threading.Lock()
        self._reading = Reading(first_step - 1, 0.0)

    def read(self) -> Reading:
        """Return where the loop is."""
        return self._reading

    def restart(self, first_step: int) -> None:
        """Start over at another step; what is known about the step time stays."""
        with self._lock:
            self._reading = Reading(first_step - 1, self._reading.step_time_s)

    def took(self, step: int, step_time_s: float | None) -> None:
        """Note that the loop took ``step``, after ``step_time_s`` of work on the one before."""
        with self._lock:
            mean = self._reading.step_time_s
            if step_time_s is not None:
                mean = mean + SMOOTHING * (step_time_s - mean) if mean else step_time_s
            self._reading = Reading(step, mean)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long agents are waited for."""

    least_s: float
    """Time an agent always gets before it sends raw bytes [s]."""

    grace_s: float
    """Time on top before the trainer makes the sample by itself [s]."""

    def wait_s(self, reading: Reading, step: int) -> float:
        """Return how long an agent may take: half the time left; the rest is the fallback's.

        Before the first step was measured nobody knows when the others are due. Were all of
        them given the least only, an agent would send most of a window raw that it could well
        have made in time, so each further step gets that much more.
        """
        if not reading.step_time_s:
            return self.least_s * (1 + reading.ahead(step))
        return max(self.least_s, reading.due_in(step) / 2)

    def hedge_s(self, reading: Reading, step: int, cost_s: float) -> float:
        """Return after how long a sample is made here that has not come from its agent.

        One that would take more than half of the time left is made early enough to be in time.
        """
        wait_s = self.wait_s(reading, step)
        if reading.step_time_s:
            wait_s = max(self.least_s, min(wait_s, reading.due_in(step) - cost_s))
        return wait_s + self.grace_s
