"""Made-up traces of one host with a cause that is known: what a diagnosis is scored on.

Figures are drawn from wide ranges, with noise on all of them, so that no threshold can be met
by luck; a trace begins well, runs into its cause, and gets over it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from headrace.policy.reservation.events import Indicators, Mode

Cause = Literal["cold-start", "thrash", "congestion", "transform-bound", "throttled", "heavy"]
"""The last two ask for no diagnosis: too small a quota, and a few heavy batches."""

CAUSES: tuple[Cause, ...] = (
    "cold-start", "thrash", "congestion", "transform-bound", "throttled", "heavy",
)  # fmt: skip

WELL = 60
"""Iterations before the cause, but for a cold start, which is where a trace begins."""


@dataclass(kw_only=True, slots=True)
class Host:
    """What is usual for one host; the fields that follow are those of the newest iteration."""

    chance: Random
    capacity: float
    latency_s: float
    hits: float
    queued: float
    cpu: float
    remote: float
    depth: float = field(init=False)

    def __post_init__(self) -> None:
        self.depth = self.capacity

    def near(self, value: float, spread: float = 0.1) -> float:
        return value * max(0.1, self.chance.gauss(1.0, spread))

    def share(self, value: float, spread: float = 0.03) -> float:
        return min(1.0, max(0.0, self.chance.gauss(value, spread)))

    def iteration(
        self,
        number: int,
        *,
        delivers: float,
        latency: float = 1.0,
        hits: float | None = None,
        queued: float | None = None,
        cpu: float | None = None,
        throttled: float = 0.0,
    ) -> Indicators:
        """Return one iteration in which ``delivers`` batches arrive per step."""
        got = self.near(delivers)
        self.depth = min(self.capacity, max(0.0, self.depth + got - 1.0))
        split = self.share(self.hits if hits is None else hits)
        return Indicators(
            iteration=number,
            step_time_s=1.0,
            wait_s=max(0.0, 1.0 / max(got, 0.05) - 1.0) if self.depth == 0 else 0.0,
            queue_depth=float(int(self.depth)),
            queue_capacity=self.capacity,
            io_latency_s=self.near(self.latency_s * latency / max(0.05, 1.0 - throttled)),
            io_latency_cv=self.near(1.0, 0.3),
            next_bytes=self.near(1e8, 0.2),
            queue_share=self.share(self.queued if queued is None else queued) * (1 - throttled),
            throttled_share=throttled,
            hit_rate=split,
            split={"ssd": split, "hdd": 1.0 - split},
            transform_share=self.share(self.cpu if cpu is None else cpu),
            nic_bytes_per_s=1e8 * min(got, 1.5) * self.remote,
            read_bytes_per_s=1e8 * min(got, 1.5),
        )


Labelled = tuple[Indicators, Mode | None]
"""An iteration and what is true of it; None: the cause is over but its effect is not, and to
name it is as right as not to."""


def labelled_trace(cause: Cause, seed: int) -> Iterator[Labelled]:
    """Yield the iterations of one trace, each with the mode that is true of it."""
    chance = Random(f"{cause} {seed}")
    host = Host(
        chance=chance,
        capacity=float(chance.choice([2, 4, 8, 16])),
        latency_s=chance.uniform(0.001, 0.1),
        hits=chance.uniform(0.7, 1.0),
        queued=chance.uniform(0.0, 0.3),
        cpu=chance.uniform(0.0, 0.3),
        remote=chance.uniform(0.6, 1.0),
    )
    if cause == "cold-start":
        yield from _cold_start(host)
        return
    for number in range(WELL):
        yield host.iteration(number, delivers=1.3), "none"
    for number in range(WELL, WELL + chance.randint(30, 80)):
        yield _episode(host, cause, number)
    yield from _recovery(host, WELL + 80)


def _recovery(host: Host, begin: int) -> Iterator[Labelled]:
    well = 0
    for number in range(begin, begin + 60):
        found = host.iteration(number, delivers=1.3)
        well += host.depth >= 0.75 * host.capacity
        yield found, "none" if well > 2 else None


def _cold_start(host: Host) -> Iterator[Labelled]:
    chance = host.chance
    host.depth = 0.0
    lasts, slow = chance.randint(8, 20), chance.uniform(3.0, 5.0)
    for number in range(lasts):
        warm = number / lasts
        found = host.iteration(
            number,
            delivers=chance.uniform(0.2, 0.7) + 0.3 * warm,
            latency=slow + (1.0 - slow) * warm,
            hits=host.hits * warm,
            queued=chance.uniform(0.2, 0.8),
        )
        yield found, "cold-start"
    yield from _recovery(host, lasts)


def _episode(host: Host, cause: Cause, number: int) -> Labelled:
    chance = host.chance
    lacks = chance.uniform(0.4, 0.8)
    if cause == "thrash":
        swing = chance.choice((0.25, -0.15))
        found = host.iteration(
            number,
            delivers=lacks,
            latency=chance.uniform(2.0, 4.0) - 4.0 * swing,
            hits=0.45 * host.hits + swing * chance.uniform(0.5, 1.0),
            queued=chance.uniform(0.3, 0.8),
        )
        return found, "thrash"
    if cause == "congestion":
        queued = chance.uniform(0.6, 0.9)
        return host.iteration(number, delivers=lacks, latency=3.0, queued=queued), "congestion"
    if cause == "transform-bound":
        cpu = chance.uniform(0.6, 0.95)
        return host.iteration(number, delivers=lacks, cpu=cpu), "transform-bound"
    if cause == "throttled":
        throttled = chance.uniform(0.6, 0.9)
        return host.iteration(number, delivers=lacks, throttled=throttled), "none"
    return host.iteration(number, delivers=0.3 if number % 20 < 3 else 1.5), "none"
