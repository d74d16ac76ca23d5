"""Which tiers a job's bytes come through, and what one of them takes of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headrace.sim.estate import Estate
from headrace.sim.job import SimulatedJob
from headrace.sim.media import Carrier, cost

Floats = npt.NDArray[np.float64]

RUN_BYTES = 32e6
"""Length of a sequential run that reordering makes of many small reads [bytes]."""


class Paths:
    """Reads and use per delivered byte, as hit rates and reordering have it at the moment.

    Matrices are ``[jobs, tiers]``; ``usage`` has one column more, for the cores.
    """

    def __init__(self, estate: Estate, jobs: Sequence[SimulatedJob]) -> None:
        self.tiers = tuple(estate.tiers)
        self._fast, self._slow = self.tiers.index(estate.fast), self.tiers.index(estate.slow)
        self._cached = np.array([job.cached for job in jobs])
        carriers = list(estate.tiers.values())
        self._service = np.array(
            [[carrier.service_s(job.request_bytes) for carrier in carriers] for job in jobs]
        )
        slow = carriers[self._slow]
        self._slow_cost = np.array([_cost(slow, job, estate, ordered=False) for job in jobs])
        self._ordered_cost = np.array([_cost(slow, job, estate, ordered=True) for job in jobs])
        self.reordered = np.zeros(len(jobs), dtype=bool)
        """Whose reads of the slow tier are merged into runs."""
        self.read = np.zeros(self._service.shape)
        """Bytes read from each tier."""
        self.usage = np.zeros((len(jobs), len(carriers) + 1))
        """Taken of each tier's nominal capacity, and of the cores [core-seconds]."""
        self.service_s = np.zeros(len(jobs))
        """Mean time that one read is served, waiting left out [s]."""
        self.capacity = np.array([*(estate.nominal(tier) for tier in self.tiers), estate.cpu_cores])
        """Of each tier [B/s], and the cores."""
        self._lay_links(jobs)
        self.refresh(np.zeros(len(jobs)))

    def refresh(self, hit_rates: Floats) -> None:
        """Take in which part of what each job reads now the cache holds, ``[jobs]``."""
        hits = np.where(self._cached, hit_rates, 0.0)
        misses = 1.0 - hits
        self.read[:, self._fast] = hits
        self.read[:, self._slow] = misses
        copies = self._cached * 1.0 + 2.0 * self.reordered
        self.usage[:, self._fast] = hits + misses * copies
        slow_cost = np.where(self.reordered, self._ordered_cost, self._slow_cost)
        self.usage[:, self._slow] = misses * slow_cost
        self.service_s = (self.read * self._service).sum(axis=1)

    def service_on(self, job: int, tier: int) -> float:
        """Return how long one read of a job is served on one tier [s]."""
        return float(self._service[job, tier])

    @property
    def fast(self) -> int:
        """Position of the fast tier."""
        return self._fast

    @property
    def slow(self) -> int:
        """Position of the slow tier."""
        return self._slow

    def _lay_links(self, jobs: Sequence[SimulatedJob]) -> None:
        for number, job in enumerate(jobs):
            self.usage[number, -1] = job.cpu_s_per_byte
            if job.link is not None:
                link = self.tiers.index(job.link)
                self.read[number, link] = self.usage[number, link] = 1.0


def _cost(slow: Carrier, job: SimulatedJob, estate: Estate, *, ordered: bool) -> float:
    """Return what a byte read from the slow tier costs; an ordered read is one long run."""
    return cost(
        slow,
        RUN_BYTES if ordered else job.request_bytes,
        sequential=0.0 if ordered else job.sequential,
        nominal_bytes=estate.nominal_request_bytes,
    )
