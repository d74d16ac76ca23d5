"""Reads the cluster's counters now and then while segments run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from bench.offload.counters import (
    AGENTS,
    BACKGROUND,
    DATANODES,
    STORAGE,
    TRAINER,
    Counters,
    Use,
    use_between,
)
from bench.offload.premise import Quotas
from headrace.demo.meter import CpuSample

INTERVAL_S = 0.5


class ClusterMeter:
    """Keeps a series of readings; what it shows is the share of each side's quota that is used.

    Args:
        read: Reads the counters.
        quotas: Tells what the hosts may use now.
    """

    def __init__(self, read: Callable[[], Counters], quotas: Callable[[], Quotas]) -> None:
        self._read = read
        self._quotas = quotas
        self.readings = [read()]
        self.samples: list[CpuSample] = []

    def watch(self, group: str, pids: Iterable[int]) -> None:
        """Do nothing: hosts are counted as a whole."""

    def forget(self, group: str) -> None:
        """Do nothing."""

    def sample(self) -> CpuSample | None:
        """Take a reading if the interval has passed."""
        if time.monotonic() - self.readings[-1].at_s < INTERVAL_S:
            return None
        return self.look()

    def look(self) -> CpuSample:
        """Take a reading now."""
        before = self.readings[-1].at_s
        self.readings.append(self._read())
        use = use_between(self.readings[-2:], before, self.readings[-1].at_s)
        quotas = self._quotas()
        sample = CpuSample(
            at_s=self.readings[-1].at_s,
            busy={
                "trainer": use.cores(TRAINER) / quotas.trainer,
                "storage": use.cores(STORAGE) / quotas.all_storage,
            },
            of={group: use.cores(group) for group in (TRAINER, AGENTS, DATANODES, BACKGROUND)},
        )
        self.samples.append(sample)
        return sample

    def use(self, begin_s: float, end_s: float) -> Use:
        """Return what was used between two moments of the past."""
        return use_between(self.readings, begin_s, end_s)
