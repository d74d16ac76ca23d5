"""A simulated job: what it reads, computed from its real schedule over a synthetic index."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from headrace.core.errors import ConfigError
from headrace.core.job import Order, ScheduleSpec, SourceSpec
from headrace.core.media import TierName
from headrace.schedule.schedule import Schedule

_SAMPLES_AT_ONCE = 16384
"""Computed in one call: fewer are slower for each, and more no longer stay in a CPU's cache
(measured: 210 ns a sample for 2,048 of them, 84 for 16,384, 122 for 524,288)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """Sizes of the samples that a job's synthetic index lists: lognormal, so heavy-tailed."""

    samples: int
    mean_bytes: float
    spread: float = 1.0
    """Standard deviation of the logarithm of a sample's size; 0: all are alike."""

    seed: int = 0

    def __post_init__(self) -> None:
        if self.samples < 1 or self.mean_bytes <= 0 or self.spread < 0:
            raise ConfigError(
                f"a dataset of {self.samples} samples of {self.mean_bytes:g} bytes, spread "
                f"{self.spread:g}, is not possible; all must be positive (spread may be 0)"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedJob:
    """One training job of a scenario."""

    name: str
    dataset: Dataset
    batch_size: int
    """Samples of one step, over all ranks."""

    step_time_s: float
    """Mean time that a step computes [s]."""

    step_jitter: float = 0.02
    """Coefficient of variation of the step time."""

    order: Order = "shuffle"
    seed: int = 0
    queue_batches: int = 4
    """Batches that may lie ready or be on the way."""

    streams: int = 16
    """Reads that the prefetcher keeps under way, over all hosts."""

    request_bytes: float = 1e6
    """Mean size of one read [bytes]."""

    sequential: float = 0.0
    """Part of its reads of hard disks that continue the one before."""

    cached: bool = True
    """Whether its reads go through the fast tier's cache."""

    warm: float = 0.0
    """Part of its dataset that the cache holds at the start."""

    link: TierName | None = None
    """The link that its bytes cross; None: its data are near."""

    cpu_s_per_byte: float = 0.0
    """Work of the estate's CPUs per stored byte [core-seconds per byte]."""

    begins_at_s: float = 0.0
    """When it registers [s]."""

    initialise_s: float = 120.0
    """From then until its first step asks for a batch [s]."""

    weight: float = 1.0
    guaranteed: Mapping[TierName, float] = field(default_factory=dict)
    """As ``JobJoined.guaranteed`` [B/s]."""

    def __post_init__(self) -> None:
        if min(self.batch_size, self.queue_batches, self.streams) < 1 or self.step_time_s <= 0:
            raise ConfigError(
                f"job {self.name}: batch_size, queue_batches and streams must be at least 1, and "
                "step_time_s positive"
            )


class Batches:
    """How many bytes each step of a job reads, as far as anyone asked; grows by itself.

    Byte counts are cumulative: batch ``k`` ends at ``end(k)``, and begins at ``end(k - 1)``. They
    are small (16 bytes a step) and may be shared by runs and, pickled, with other processes.
    """

    def __init__(self, dataset: Dataset, spec: ScheduleSpec) -> None:
        source = SourceSpec(url="sim:", index_digest="", samples=dataset.samples)
        self.steps_per_epoch = Schedule(spec, [source]).steps_per_epoch
        self._batch_size = spec.batch_size
        self._steps = max(1, _SAMPLES_AT_ONCE // spec.batch_size)
        self._stretches = Schedule(_stretches(spec, self._steps), [source])
        self._dataset = dataset
        mean_bytes = float(sample_sizes(dataset).mean())
        self.epoch_bytes = mean_bytes * self.steps_per_epoch * spec.batch_size
        """Mean bytes of one epoch [bytes]."""
        self._ends = array("d", [0.0])
        self._bytes = array("d")

    def end(self, step: int) -> float:
        """Return the bytes of all batches up to and including ``step``; 0 for step -1."""
        while step + 1 >= len(self._ends):
            self._extend()
        return self._ends[step + 1]

    def complete(self, nbytes: float, *, from_step: int) -> int:
        """Return how many batches from ``from_step`` on are whole within the first ``nbytes``."""
        while self._ends[-1] <= nbytes or from_step >= len(self._bytes):
            self._extend()
        return max(0, bisect_right(self._ends, nbytes, from_step) - 1 - from_step)

    def ahead(self, step: int, count: int) -> tuple[float, ...]:
        """Return the bytes of ``count`` batches from ``step`` on [bytes]."""
        while step + count > len(self._bytes):
            self._extend()
        return tuple(self._bytes[step : step + count])

    def _extend(self) -> None:
        """Compute the next stretch of steps of an epoch, from the schedule itself."""
        epoch, step = divmod(len(self._ends) - 1, self.steps_per_epoch)
        number = epoch * self._stretches.steps_per_epoch + step // self._steps
        samples = self._stretches.batch(number).samples
        steps = min(self._steps, self.steps_per_epoch - step)
        sizes = sample_sizes(self._dataset)[samples[: steps * self._batch_size]]
        sums = sizes.reshape(steps, self._batch_size).sum(axis=1)
        self._bytes.extend(sums.tolist())
        self._ends.extend((self._ends[-1] + np.cumsum(sums)).tolist())


def batches_of(job: SimulatedJob) -> Batches:
    """Return a job's batches, of which none is computed yet."""
    spec = ScheduleSpec(seed=job.seed, batch_size=job.batch_size, order=job.order)
    return Batches(job.dataset, spec)


@lru_cache(maxsize=256)
def sample_sizes(dataset: Dataset) -> npt.NDArray[np.float64]:
    """Return the size of each sample [bytes], ``float64 [N]``; to be read only."""
    generator = np.random.default_rng(dataset.seed)
    sizes = generator.lognormal(0.0, dataset.spread, dataset.samples)
    sizes *= dataset.mean_bytes / sizes.mean()
    sizes.setflags(write=False)
    return sizes


def _stretches(spec: ScheduleSpec, steps: int) -> ScheduleSpec:
    """Return the same order cut into wider batches: many steps are computed in one call."""
    return replace(spec, batch_size=spec.batch_size * steps, tail="short")
