"""A job, its prefetch queue and its medium, as simple as they can be: the loop under test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.policy.reservation.events import Indicators
from headrace.policy.reservation.health import HealthTracker
from headrace.policy.reservation.regulator import Gains, Regulator

BATCH = 1e8
"""Bytes of a batch where the need is 1 [bytes]."""


def indicators(**changed: float) -> Indicators:
    """Return the figures of a host that does well, but for what is named."""
    figures: dict[str, float] = {
        "iteration": 100,
        "step_time_s": 1.0,
        "wait_s": 0.0,
        "queue_depth": 8.0,
        "queue_capacity": 8.0,
        "io_latency_s": 0.01,
        "io_latency_cv": 0.5,
        "next_bytes": BATCH,
        "read_bytes_per_s": BATCH,
        "nic_bytes_per_s": BATCH,
    }
    return Indicators(**(figures | changed))  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """The loop at the end of one step; quotas in parts of a batch per step time."""

    score: float
    depth: float
    quota: float
    wait_s: float


def run_loop(
    gains: Gains,
    needs: Sequence[float],
    *,
    capacity: float = 8.0,
    lag: float = 0.0,
    begin: float = 1.0,
    grant: Callable[[float], float] = lambda wanted: wanted,
) -> list[Moment]:
    """Let a regulator steer a job whose batches are ``needs`` times ``BATCH``.

    A quota is in force one step after it was granted; the medium follows with a time constant
    of ``lag`` steps. ``grant`` tells what of a wish is granted.
    """
    tracker, regulator = HealthTracker(), Regulator(gains)
    depth, quota, rate = capacity / 2, begin, begin
    moments = []
    for step, need in enumerate(needs):
        rate += (quota - rate) / (1.0 + lag)
        arrived = rate / need
        wait_s = max(0.0, (1.0 - depth - arrived) / arrived)
        depth = min(capacity, max(0.0, depth + arrived - 1.0))
        found = indicators(
            iteration=step,
            wait_s=wait_s,
            queue_depth=depth,
            queue_capacity=capacity,
            next_bytes=BATCH * need,
            read_bytes_per_s=BATCH * min(rate, need),
        )
        score = tracker.observe(found).score
        moments.append(Moment(score=score, depth=depth, quota=quota, wait_s=wait_s))
        quota = grant(regulator.adjust(score, granted=BATCH * quota).wanted / BATCH)
    return moments
