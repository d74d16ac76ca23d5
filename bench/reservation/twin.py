"""A scenario that exists twice: hosts, disks and real processes on one side, models on the other.

Both are made from one file, so that what the simulator says can be held against what happens.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from headrace.core.media import TierName
from headrace.report.toml import read_toml
from headrace.sim.episode import MODES, CrossTraffic, Episode, Restart, Scan
from headrace.sim.estate import Estate
from headrace.sim.job import Dataset, SimulatedJob
from headrace.sim.media import Network, SolidState, Spinning
from headrace.sim.recording import Recording
from headrace.sim.rivals.static import Needs
from testbed.disk_profiles import DiskSpec
from testbed.scenario import HostGroup, Scenario

DISK: TierName = "hdd"
LINK: TierName = "link"

PAYLOAD = 0.96
"""Part of a link's rate that is left for payload (measured: 48 MB/s of 400 Mbit/s)."""

STREAMS = 16
"""Reads that an agent keeps under way for one job."""

STARTING_S = 2.0
"""From the end of a job's process until a new one has made its Loader [s], measured."""

SHORT_S = 18.0
"""Length of a shortened scenario; both policies then take less than a minute [s]."""

_COLD, _CONGESTED, _ON_CORES = (
    MODES.index(mode) for mode in ("cold-start", "congestion", "transform-bound")
)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One training job; its accelerator sleeps."""

    batch_size: int
    step_time_s: float
    sample_bytes: float
    """Mean stored size of a sample [bytes]."""
    samples: int
    size_spread: float = 1.0
    """Standard deviation of the logarithm of a sample's size."""
    picture_pixels: int = 0
    """Width and height of its pictures; 0: its samples are text, which no core works on."""
    queue_batches: int = 2
    initialise_s: float = STARTING_S + 0.2
    """From the start of its process until its first step asks for a batch [s]."""

    @property
    def needs_bytes_per_s(self) -> float:
        """Mean need when it never waits [B/s]."""
        return self.batch_size * self.sample_bytes / self.step_time_s


class JobRestart(msgspec.Struct, frozen=True, kw_only=True):
    """A job fails, and starts anew with nothing in its queue."""

    job: str
    at_s: float
    label_iterations: int = 10


class Spell(msgspec.Struct, frozen=True, kw_only=True):
    """Others do something for a while; its cause stays the truth a little longer."""

    at_s: float
    until_s: float
    label_after_s: float = 3.0


class Taken(Spell, frozen=True, kw_only=True):
    """Others take a part of the disk, or of the link."""

    bytes_per_s: float
    """What they take [B/s]."""


class Busy(Spell, frozen=True, kw_only=True):
    """Others use cores; the agent's workers, which are nice, get what is left.

    Only the emulated cluster has cores, those of the machine; no model has any.
    """

    percent_of_core: float


class Twin(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    title: str
    duration_s: float
    warm_s: float
    """Iterations that begin earlier do not count [s]."""
    disk_bytes_per_s: float
    link_bytes_per_s: float
    jobs: dict[str, Job]
    restarts: list[JobRestart] = []
    scans: list[Taken] = []
    """Reads of others from the same disk; as nothing is cached, they congest it."""
    congestion: list[Taken] = []
    """Traffic of others on the storage host's link."""
    busy: list[Busy] = []

    def needs(self) -> Needs:
        """Return what each job reads on average: what static quotas are set from [B/s]."""
        return {
            name: dict.fromkeys((DISK, LINK), job.needs_bytes_per_s)
            for name, job in self.jobs.items()
        }

    def dataset(self, name: str) -> Dataset:
        """Return the sizes of a job's samples, alike on both sides."""
        job = self.jobs[name]
        return Dataset(
            samples=job.samples,
            mean_bytes=job.sample_bytes,
            spread=job.size_spread,
            seed=seed_of(name),
        )

    # As hosts

    def bed(self) -> Scenario:
        """Return the emulated cluster: a storage host with the disk, trainers, a controller."""
        limit = round(self.disk_bytes_per_s)
        disk = DiskSpec(profile="custom", size_gb=3.0, read_bytes_per_s=limit)
        rate = link_mbit_per_s(self.link_bytes_per_s)
        return Scenario(
            name="reservation",
            hosts=(
                HostGroup(role="storage", rate_mbit_per_s=rate, disk=disk),
                HostGroup(role="trainer"),
                HostGroup(role="trainer", name="head"),
            ),
        )

    # As models

    def estate(self) -> Estate:
        """Return the simulated hardware."""
        return Estate(
            tiers={
                "ssd": SolidState(),
                DISK: Spinning(devices=1, bytes_per_s=self.disk_bytes_per_s, seek_s=0.0),
                LINK: Network(bytes_per_s=self.link_bytes_per_s),
            },
            cache_bytes=0.0,
        )

    def simulated_jobs(self) -> Iterator[SimulatedJob]:
        """Yield the simulated jobs."""
        for name, job in self.jobs.items():
            yield SimulatedJob(
                name=name,
                dataset=self.dataset(name),
                batch_size=job.batch_size,
                step_time_s=job.step_time_s,
                step_jitter=0.0,
                seed=seed_of(name),
                queue_batches=job.queue_batches,
                streams=STREAMS,
                request_bytes=job.sample_bytes,
                cached=False,
                link=LINK,
                initialise_s=job.initialise_s - STARTING_S,
            )

    def episodes(self) -> Iterator[Episode]:
        """Yield what goes wrong, as the simulator takes it."""
        for restart in self.restarts:
            yield Restart(
                job=restart.job,
                at_s=restart.at_s + STARTING_S,
                initialise_s=self.jobs[restart.job].initialise_s - STARTING_S,
                latency_factor=1.0,
                cold_bytes=0.0,
                label_iterations=restart.label_iterations,
            )
        for scan in self.scans:
            yield Scan(
                at_s=scan.at_s, until_s=scan.until_s, bytes_per_s=scan.bytes_per_s, cached=0.0
            )
        for other in self.congestion:
            yield CrossTraffic(
                link=LINK, at_s=other.at_s, until_s=other.until_s, bytes_per_s=other.bytes_per_s
            )

    # What is compared

    def counted(self, recording: Recording) -> Recording:
        """Return what came after the warm-up, labelled by the scenario alone."""
        kept = np.flatnonzero(recording.begun_s - recording.wait_s >= self.warm_s)
        columns = ("job", "begun_s", "wait_s", "failed", "step_s", "iteration", "nbytes")
        rows = {name: getattr(recording, name)[kept] for name in (*columns, "hit_rate")}
        said = tuple(one for one in recording.actions if one[0] >= self.warm_s)
        return replace(recording, truths=self._labels(recording)[kept], actions=said, **rows)

    def _labels(self, recording: Recording) -> npt.NDArray[np.int32]:
        """Return what was wrong in each iteration: bit ``1 << index`` for each of ``MODES``."""
        begun_s = recording.begun_s
        truths = np.zeros(begun_s.size, dtype=np.int32)
        for taken in (*self.scans, *self.congestion):
            end_s = taken.until_s + taken.label_after_s
            truths[(begun_s >= taken.at_s) & (begun_s < end_s)] |= 1 << _CONGESTED
        for busy in self.busy:
            end_s = busy.until_s + busy.label_after_s
            truths[(begun_s >= busy.at_s) & (begun_s < end_s)] |= 1 << _ON_CORES
        for restart in self.restarts:
            own = recording.job == recording.jobs.index(restart.job)
            early = recording.iteration < restart.label_iterations
            truths[own & early & (begun_s >= restart.at_s)] |= 1 << _COLD
        return truths


def load_twin(path: Path) -> Twin:
    """Read a scenario.

    Raises:
        CallerError: the file is missing, no TOML, or has a key that is not known.
    """
    return read_toml(path, Twin)


def shortened(twin: Twin) -> Twin:
    """Return a scenario with one restart and nothing else: for a look, not for figures."""
    early = msgspec.structs.replace(twin.restarts[0], at_s=SHORT_S / 2)
    return msgspec.structs.replace(
        twin,
        duration_s=SHORT_S,
        warm_s=SHORT_S / 3,
        restarts=[early],
        scans=[],
        congestion=[],
        busy=[],
    )


def link_mbit_per_s(bytes_per_s: float) -> float:
    """Return the rate of a link that carries so much payload."""
    return bytes_per_s * 8 / 1e6 / PAYLOAD


def seed_of(name: str) -> int:
    """Return the seed of a job's order and sizes."""
    return zlib.crc32(name.encode()) % 1000
