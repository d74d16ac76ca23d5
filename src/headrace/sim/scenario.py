"""A scenario as its TOML file says it: hardware, jobs by groups, what goes wrong how often.

``Scenario.estate()``, ``jobs()`` and ``injections.draw_episodes`` make of it what a simulated
world takes. Everything that is drawn follows from the seed, so all policies meet the same.
"""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from headrace.core.errors import ConfigError
from headrace.core.job import Order
from headrace.core.media import TierName
from headrace.policy.reservation.limits import ReservationLimits
from headrace.report.toml import read_toml
from headrace.sim.estate import Estate
from headrace.sim.job import Dataset, SimulatedJob
from headrace.sim.media import Carrier, Network, SolidState, Spinning

Positive: TypeAlias = Annotated[float, Meta(gt=0)]
NotNegative: TypeAlias = Annotated[float, Meta(ge=0)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
Between: TypeAlias = tuple[NotNegative, NotNegative]
"""Least and most; a value is drawn evenly from between."""

DAY_S = 86400.0
HOUR_S = 3600.0

_STORAGE: frozenset[TierName] = frozenset({"ssd", "hdd"})


class Ssd(msgspec.Struct, frozen=True, kw_only=True):
    """The fast tier."""

    devices: Count = 4
    bytes_per_s: Positive = 3e9
    """Of one device [B/s]."""
    latency_s: NotNegative = 100e-6


class Hdd(msgspec.Struct, frozen=True, kw_only=True):
    """The slow tier, which holds the datasets."""

    devices: Count = 12
    bytes_per_s: Positive = 200e6
    """Of one disk, in sequence [B/s]."""
    seek_s: NotNegative = 0.008


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """What the jobs share."""

    ssd: Ssd
    hdd: Hdd
    links: dict[TierName, Positive] = {}
    """Link → its bandwidth [B/s]."""
    cache_bytes: NotNegative = 8e12
    """Room of the cache on the fast tier [bytes]."""
    cpu_cores: NotNegative = 256.0


class JobGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that are alike but for some variety."""

    count: Count
    batch_size: Count
    step_time_s: Positive
    sample_bytes: Positive
    """Mean stored size of a sample [bytes]."""
    dataset_samples: Count
    size_spread: NotNegative = 1.0
    """Standard deviation of the logarithm of a sample's size."""
    variety: Share = 0.0
    """Step time and sample size of a job differ from the group's by up to this part."""
    step_jitter: NotNegative = 0.02
    order: Order = "shuffle"
    queue_batches: Count = 4
    streams: Count = 16
    request_bytes: Positive = 1e6
    sequential: Share = 0.0
    """Part of its reads of hard disks that continue the one before."""
    cached: bool = True
    """Whether its reads go through the fast tier's cache."""
    link: TierName | None = None
    cpu_s_per_byte: NotNegative = 0.0
    initialise_s: Between = (60.0, 300.0)
    joins_within_s: NotNegative = 0.0
    """Jobs register evenly over this time from the start [s]."""
    restarts_every_h: NotNegative = 0.0
    """Mean time between two restarts of one job [h]; 0: never."""
    checkpoint_every_s: NotNegative = 0.0
    """0: never [s]."""
    checkpoint_bytes: NotNegative = 0.0


class Restarts(msgspec.Struct, frozen=True, kw_only=True):
    """What a restart does; how often is a matter of the group."""

    latency_factor: Between = (3.0, 5.0)
    cold_bytes: Between = (1e9, 4e9)
    """Read before latency is steady again [bytes]."""
    cache_lost: Between = (0.2, 0.6)
    """Part of the job's bytes that its page caches lose."""
    label_iterations: Count = 10
    """First iterations that are labelled as cold start."""


class Scans(msgspec.Struct, frozen=True, kw_only=True):
    """Reads of other users that push a job's samples out of the page cache."""

    per_day: NotNegative = 0.0
    duration_s: Between = (120.0, 600.0)
    bytes_per_s: Between = (100e6, 300e6)
    label_after_s: NotNegative = 300.0


class Congestion(msgspec.Struct, frozen=True, kw_only=True):
    """Other traffic on a link: spells of pulses, as others' uploads and copies come and go."""

    per_day: NotNegative = 0.0
    """Spells on each link."""
    duration_s: Between = (300.0, 1200.0)
    """Of a spell [s]."""
    pulse_s: tuple[Positive, Positive] = (10.0, 30.0)
    gap_s: tuple[Positive, Positive] = (10.0, 40.0)
    """Between two pulses [s]."""
    share: tuple[Share, Share] = (0.2, 0.6)
    """Part of the link that a pulse takes."""
    label_after_s: NotNegative = 60.0


class CpuLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Other work on the cores that transform."""

    per_day: NotNegative = 0.0
    duration_s: Between = (60.0, 600.0)
    share: tuple[Share, Share] = (0.3, 0.7)
    """Part of the cores that it takes."""
    label_after_s: NotNegative = 60.0


class Checkpoints(msgspec.Struct, frozen=True, kw_only=True):
    """How the groups' checkpoints are written."""

    tier: TierName = "ssd"
    deadline_s: Positive = 120.0
    most_bytes_per_s: Positive = 1e9
    """What a job's hosts can write [B/s]."""


class Troubles(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong."""

    restarts: Restarts = Restarts()
    scans: Scans = Scans()
    congestion: Congestion = Congestion()
    cpu: CpuLoad = CpuLoad()
    checkpoints: Checkpoints = Checkpoints()


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """All that a simulated run is made from, but for the policy."""

    title: str
    days: Positive
    """Simulated time [days]."""
    hardware: Hardware
    groups: dict[str, JobGroup]
    troubles: Troubles = Troubles()
    seed: Annotated[int, Meta(ge=0)] = 0
    quantum_s: Positive = 1.0
    """Rates are constant for so long; a third of the shortest step time or less [s]."""
    limits: ReservationLimits = ReservationLimits()
    """Of headrace's arbiter."""

    def __post_init__(self) -> None:
        if not self.groups:
            raise ConfigError("a scenario needs at least one table [groups.NAME]")
        if not self.quantum_s <= self.duration_s < inf:
            raise ConfigError(
                f"days={self.days:g} is less than one quantum_s={self.quantum_s:g}, or no number; "
                "simulate 0.01 days or more"
            )
        if taken := sorted(_STORAGE & self.hardware.links.keys()):
            raise ConfigError(
                f"hardware.links.{taken[0]} has the name of a storage tier; give it another"
            )
        if (tier := self.troubles.checkpoints.tier) not in _STORAGE | self.hardware.links.keys():
            raise ConfigError(
                f"troubles.checkpoints.tier={tier!r} is neither ssd nor hdd nor in hardware.links; "
                "name one of these"
            )
        for name, group in self.groups.items():
            if group.link is not None and group.link not in self.hardware.links:
                raise ConfigError(
                    f"groups.{name}.link={group.link!r} is not in hardware.links; add it there"
                )

    @property
    def duration_s(self) -> float:
        """Simulated time [s]."""
        return self.days * DAY_S

    def estate(self) -> Estate:
        """Return the hardware."""
        found, tiers = self.hardware, dict[TierName, Carrier]()
        tiers["ssd"] = SolidState(**msgspec.structs.asdict(found.ssd))
        tiers["hdd"] = Spinning(**msgspec.structs.asdict(found.hdd))
        tiers |= {name: Network(bytes_per_s=rate) for name, rate in found.links.items()}
        return Estate(tiers=tiers, cache_bytes=found.cache_bytes, cpu_cores=found.cpu_cores)

    def jobs(self) -> tuple[SimulatedJob, ...]:
        """Return all jobs; what varies among those of a group follows from the seed."""
        return tuple(
            _job(group, f"{name}-{number}", np.random.default_rng([self.seed, place, number]))
            for place, (name, group) in enumerate(self.groups.items())
            for number in range(group.count)
        )

    def group_of(self, job: str) -> JobGroup:
        """Return the group that a job belongs to."""
        return self.groups[job.rpartition("-")[0]]


def load_scenario(path: Path) -> Scenario:
    """Read a scenario.

    Raises:
        NotFoundError: there is no such file.
        CallerError: it cannot be read, or is no TOML.
        ConfigError: a key is unknown or missing, or a value is wrong.
    """
    return read_toml(path, Scenario)


def _job(group: JobGroup, name: str, rng: np.random.Generator) -> SimulatedJob:
    varied = 1.0 + group.variety * rng.uniform(-1.0, 1.0, 2)
    dataset = Dataset(
        samples=group.dataset_samples,
        mean_bytes=group.sample_bytes * float(varied[0]),
        spread=group.size_spread,
        seed=int(rng.integers(2**31)),
    )
    return SimulatedJob(
        name=name,
        dataset=dataset,
        batch_size=group.batch_size,
        step_time_s=group.step_time_s * float(varied[1]),
        step_jitter=group.step_jitter,
        order=group.order,
        seed=int(rng.integers(2**31)),
        queue_batches=group.queue_batches,
        streams=group.streams,
        request_bytes=group.request_bytes,
        sequential=group.sequential,
        cached=group.cached,
        warm=1.0 if group.cached else 0.0,
        link=group.link,
        cpu_s_per_byte=group.cpu_s_per_byte,
        begins_at_s=float(rng.uniform(0.0, group.joins_within_s)),
        initialise_s=float(rng.uniform(*group.initialise_s)),
    )
