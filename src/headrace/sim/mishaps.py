"""Brings episodes about: what they take of the estate, and how long they are the truth."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
import numpy.typing as npt

from headrace.core.errors import ConfigError
from headrace.sim.episode import (
    MODES,
    CheckpointBurst,
    CpuContention,
    CrossTraffic,
    Episode,
    Restart,
    Scan,
)
from headrace.sim.job import SimulatedJob
from headrace.sim.paths import Paths

Floats = npt.NDArray[np.float64]

_COLD = MODES.index("cold-start")
_THRASH = MODES.index("thrash")
_CONGESTION = MODES.index("congestion")
_CORES = MODES.index("transform-bound")

LEAST_LEFT = 0.05
"""Part of a resource that others' use always leaves to the jobs."""


class Mishaps:
    """The episodes of a run, in the order of time."""

    def __init__(
        self, episodes: Sequence[Episode], jobs: Sequence[SimulatedJob], paths: Paths
    ) -> None:
        self._jobs = {job.name: number for number, job in enumerate(jobs)}
        self._plans, self._paths = jobs, paths
        self._coming = sorted(episodes, key=lambda episode: episode.at_s, reverse=True)
        self._lasting: list[Scan | CrossTraffic | CpuContention] = []
        self._true_until = [[-inf] * len(MODES) for _ in jobs]
        self._cold_iterations = [0] * len(jobs)
        self.capacity = paths.capacity.copy()
        """What others leave of each tier [B/s], and of the cores."""
        self.scan_bytes_per_s = 0.0
        """Read by scans that would enter a page cache [B/s]."""
        for episode in episodes:
            self._check(episode)

    def due(self, now: float) -> list[Restart | CheckpointBurst]:
        """Begin and end what is due, and return what befalls single jobs."""
        befalls: list[Restart | CheckpointBurst] = []
        changed = False
        while self._coming and self._coming[-1].at_s <= now:
            episode = self._coming.pop()
            if isinstance(episode, Restart | CheckpointBurst):
                befalls.append(episode)
            else:
                self._lasting.append(episode)
                changed = True
        if any(episode.until_s <= now for episode in self._lasting):
            self._lasting = [episode for episode in self._lasting if episode.until_s > now]
            changed = True
        if changed:
            self._reckon()
        return befalls

    def started(self, job: int, episode: Restart) -> None:
        """Label a job's first iterations from now on."""
        self._cold_iterations[job] = episode.label_iterations

    def truths(self, job: int, iteration: int, now: float) -> int:
        """Return the truth about an iteration: bit ``1 << index`` for each of ``MODES``."""
        truths = 1 << _COLD if iteration < self._cold_iterations[job] else 0
        for mode, until in enumerate(self._true_until[job]):
            if now < until:
                truths |= 1 << mode
        return truths

    def _reckon(self) -> None:
        self.capacity = self._paths.capacity.copy()
        self.scan_bytes_per_s = 0.0
        for episode in self._lasting:
            self._take(episode)
        np.maximum(self.capacity, LEAST_LEFT * self._paths.capacity, out=self.capacity)

    def _take(self, episode: Scan | CrossTraffic | CpuContention) -> None:
        match episode:
            case Scan():
                self.capacity[self._paths.slow] -= episode.bytes_per_s
                self.scan_bytes_per_s += episode.bytes_per_s * episode.cached
                affected = [job.name for job in self._plans if job.cached]
                self._label(_THRASH, episode.jobs or affected, episode)
            case CrossTraffic():
                self.capacity[self._paths.tiers.index(episode.link)] -= episode.bytes_per_s
                affected = [job.name for job in self._plans if job.link == episode.link]
                self._label(_CONGESTION, affected, episode)
            case CpuContention():
                self.capacity[-1] -= episode.cores
                affected = [job.name for job in self._plans if job.cpu_s_per_byte > 0]
                self._label(_CORES, episode.jobs or affected, episode)

    def _label(
        self, mode: int, jobs: Sequence[str], episode: Scan | CrossTraffic | CpuContention
    ) -> None:
        for name in jobs:
            until = self._true_until[self._jobs[name]]
            until[mode] = max(until[mode], episode.until_s + episode.label_after_s)

    def _check(self, episode: Episode) -> None:
        """Refuse what names something that is not there."""
        named = episode.jobs if isinstance(episode, Scan | CpuContention) else ()
        if isinstance(episode, Restart | CheckpointBurst):
            named = (episode.job,)
        for name in named:
            if name not in self._jobs:
                raise ConfigError(f"an episode names job {name!r}, which the scenario has not")
        tier = episode.link if isinstance(episode, CrossTraffic) else None
        tier = episode.tier if isinstance(episode, CheckpointBurst) else tier
        if tier is not None and tier not in self._paths.tiers:
            raise ConfigError(
                f"an episode names tier {tier!r}; the estate has {', '.join(self._paths.tiers)}"
            )
