"""What a job's host measures of its reads between two reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.sim.fluid import OWN_CAP, Shares

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """One quantum of all jobs' reading. Arrays are ``[jobs]``."""

    shares: Shares
    dt: float
    room: Floats
    """What the queues had room for [bytes]."""

    throttled: npt.NDArray[np.bool_]
    """Whose own quota was tighter than anything else of its own."""

    served_s: Floats
    """Time that a read is served, cold connections included [s]."""

    crowd_s: Floats
    """Time that it waits for busy devices in front of it [s]."""

    hit_rates: Floats
    cores: int
    """Which resource the cores are."""


class Measured(NamedTuple):
    """Means over what one job read since its last report."""

    nbytes: float
    latency_s: float
    variation: float
    """Squared coefficient of variation of the latency over time, that of single reads left out."""

    queue_share: float
    throttled_share: float
    transform_s: float
    """Time that a read's bytes waited for and spent on cores beyond their own work [s]."""

    hit_rate: float


_BYTES, _LATENCY = 0, 1
"""Rows of the sums: bytes, then what they are weighted with: latency, its square, and so on."""


class Meter:
    """Sums over bytes read, for each job.

    The prefetcher keeps a number of reads under way, so when it does not get all it could take, a
    read's latency is what is under way divided by the rate (Little's law); what goes beyond
    service and the wait for busy devices is charged to what held the job back.
    """

    def __init__(self, under_way: Floats) -> None:
        """``under_way`` is what each job's reads under way come to at most [bytes], ``[jobs]``."""
        self._under_way = under_way
        self._sums = np.zeros((7, under_way.size))
        self._last: list[Measured | None] = [None] * under_way.size

    def add(self, flow: Flow) -> None:
        """Take in one quantum."""
        rates, bottleneck = flow.shares
        read = rates * flow.dt
        pace = np.minimum(self._under_way, flow.room) / np.maximum(rates, 1.0)
        beyond = np.maximum(pace - flow.served_s - flow.crowd_s, 0.0)
        own_cap = bottleneck == OWN_CAP
        on_cores = beyond * (bottleneck == flow.cores)
        throttled = beyond * (flow.throttled & own_cap)
        queued = flow.crowd_s + beyond * ~own_cap - on_cores
        latency = flow.served_s + queued + throttled
        seconds = (latency, latency * latency, queued, throttled, on_cores, flow.hit_rates)
        self._sums[_BYTES] += read
        self._sums[_LATENCY:] += read * np.array(seconds)

    def take(self, job: int) -> Measured:
        """Return what was measured since the last call; where nothing was read, the same again."""
        nbytes, latency, square, queued, throttled, cores, hits = self._sums[:, job].tolist()
        before = self._last[job]
        if nbytes <= 0.0 and before is not None:
            return before._replace(nbytes=0.0)
        self._sums[:, job] = 0.0
        whole, amount = max(latency, 1e-12), max(nbytes, 1.0)
        mean = latency / amount
        measured = Measured(
            nbytes,
            mean,
            max(0.0, square / amount / max(mean * mean, 1e-18) - 1.0),
            queued / whole,
            throttled / whole,
            cores / amount,
            hits / amount,
        )
        self._last[job] = measured
        return measured
