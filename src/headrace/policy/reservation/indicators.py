"""Refuses a report that cannot be true before it touches any state."""

from __future__ import annotations

from math import isfinite

from headrace.core.errors import ReportError
from headrace.policy.reservation.events import Indicators

_AMOUNTS = (
    "iteration",
    "step_time_s",
    "wait_s",
    "queue_depth",
    "queue_capacity",
    "io_latency_s",
    "io_latency_cv",
    "next_bytes",
    "nic_bytes_per_s",
    "read_bytes_per_s",
)
_MOST = 1e18
"""No amount of bytes or seconds is more; keeps squares and sums finite."""

_SHARES = ("queue_share", "throttled_share", "hit_rate", "transform_share")


def check_indicators(indicators: Indicators) -> None:
    """Return if every figure is finite, neither negative nor absurd, and every share at most 1.

    Raises:
        ReportError: One is not; the message names the first and its value.
    """
    if not _looks_true(indicators):
        _refuse(indicators)


def _looks_true(i: Indicators) -> bool:
    """Return whether nothing is wrong, at the cost of a sum: this runs for every report."""
    amounts = (
        i.iteration,
        i.step_time_s,
        i.wait_s,
        i.queue_depth,
        i.queue_capacity,
        i.io_latency_s,
        i.io_latency_cv,
        i.next_bytes,
        i.nic_bytes_per_s,
        i.read_bytes_per_s,
        *i.upcoming_bytes,
        *i.split.values(),
    )
    shares = (i.queue_share, i.throttled_share, i.hit_rate, i.transform_share)
    return (
        isfinite(sum(amounts) + sum(shares))
        and min(amounts) >= 0
        and max(amounts) <= _MOST
        and min(shares) >= 0
        and max(shares) <= 1
    )


def _refuse(indicators: Indicators) -> None:
    amounts = [(name, getattr(indicators, name)) for name in _AMOUNTS]
    amounts += [("upcoming_bytes", nbytes) for nbytes in indicators.upcoming_bytes]
    amounts += [(f"split.{tier}", part) for tier, part in indicators.split.items()]
    shares = [(name, getattr(indicators, name)) for name in _SHARES]
    for name, value in amounts + shares:
        if not isfinite(value) or value < 0:
            raise _wrong(name, value, "be finite and not negative")
    for name, value in shares:
        if value > 1:
            raise _wrong(name, value, "lie in 0 to 1")
    for name, value in amounts:
        if value > _MOST:
            raise _wrong(name, value, f"be at most {_MOST:g}")


def _wrong(name: str, value: float, rule: str) -> ReportError:
    return ReportError(
        f"reported {name}={value:g} must {rule}; the report was not used, "
        "correct whoever measures it and report the next iteration"
    )
