"""Holds what takes bytes to a rate: a token bucket that may go into debt.

Time is a parameter; nothing here waits or reads a clock. Whoever takes bytes asks before,
and when the bucket owes something looks again at ``free_at``.
"""

from __future__ import annotations

import math

from headrace.core.errors import ConfigError

_LESS_THAN_A_BYTE = 1.0 - 1e-6
"""Debt that is only what arithmetic left over."""


class TokenBucket:
    """A rate, and what was not used of it lately. Not thread-safe.

    An item may be taken whole whenever nothing is owed, however large it is: a video that is
    larger than the burst is read at once and paid for afterwards. So any window of ``T``
    seconds sees at most ``burst + rate * T`` bytes and one item.

    Args:
        rate: Bytes per second from now on [B/s]; 0: nothing once what is left is used.
        burst: Most that may be saved up [bytes].
        now: Monotonic time [s]. Nothing is saved up at first.
    """

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._level = 0.0
        self._as_of = now
        self._set(rate, burst)

    @property
    def rate(self) -> float:
        """Bytes per second [B/s]."""
        return self._rate

    def take_nowait(self, nbytes: float, now: float) -> bool:
        """Take ``nbytes`` if nothing is owed; return whether they were taken."""
        if not self.is_free(now):
            return False
        self._level -= nbytes
        return True

    def charge(self, nbytes: float, now: float) -> None:
        """Take ``nbytes`` whatever is owed: they were read already, or more than was foreseen."""
        self._settle(now)
        self._level -= nbytes

    def is_free(self, now: float) -> bool:
        """Return whether something may be taken."""
        self._settle(now)
        return self._level > -_LESS_THAN_A_BYTE

    def free_at(self, now: float) -> float:
        """Return when something may be taken if nothing else is until then [s]; it may be never."""
        if self.is_free(now):
            return now
        return self._as_of - self._level / self._rate if self._rate else math.inf

    def set_rate(self, rate: float, burst: float, now: float) -> None:
        """Go on at another rate at once.

        What is owed stays owed, and nothing is saved up by the change: turning the rate up
        and down gives nothing away.

        Raises:
            ConfigError: the rate or the burst is negative or not finite.
        """
        self._settle(now)
        self._set(rate, burst)

    def _set(self, rate: float, burst: float) -> None:
        for name, value in (("rate", rate), ("burst", burst)):
            if not 0 <= value < math.inf:  # nor is NaN
                raise ConfigError(
                    f"a token bucket's {name}={value:g} must be 0 or more and finite; "
                    "give no bucket where nothing is to be limited"
                )
        self._rate, self._burst = rate, burst
        self._level = min(self._level, burst)

    def _settle(self, now: float) -> None:
        passed_s = max(0.0, now - self._as_of)
        self._as_of += passed_s
        self._level = min(self._level + self._rate * passed_s, self._burst)
