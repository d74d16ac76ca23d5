"""Which samples a job reads at each step: a pure function of its specification.

The schedule is an endless stream of positions, cut into epochs of equal length; a mixture
says which source a position belongs to, that source's order says which sample. Global
batches are cut from the stream and ranks cut slices of a batch, so another number of
ranks, or a resumed job, sees the same global order. Nothing grows with the number of
samples: neither memory nor the time of one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from headrace.core.errors import CallerError, ConfigError
from headrace.core.job import ScheduleSpec, SourceSpec
from headrace.core.mixing import Words
from headrace.schedule.local import LocalShuffle
from headrace.schedule.mixture import Mixture, integer_weights
from headrace.schedule.order import order_of

MIXTURE_RUN = 256
"""Positions of a mixture that are shuffled among themselves, so that its sources do not alternate
in a fixed rhythm: shares hold to within half a sample per tree level at every multiple of it."""

_NEVER = -1
_PASSES_AHEAD = 4


@dataclass(frozen=True, slots=True)
class GlobalBatch:
    """The samples of one step, or one rank's slice of them, in order."""

    step: int
    """Counted from the job's start over all epochs."""

    epoch: int
    """The job's epoch."""

    samples: npt.NDArray[np.int64]
    """Global sample ids, ``int64 [B]``."""

    epochs: npt.NDArray[np.int64]
    """How often each sample's own source was passed through before, ``int64 [B]``."""


class Schedule:
    """What a job reads, step by step. Immutable; all methods may be called from any thread.

    ``tail`` decides about an epoch's last batch where ``batch_size`` does not divide the epoch:
    ``drop`` leaves it out (each epoch shuffles anew, so other samples are left out), ``short``
    delivers what there is, ``pad`` fills it with the epoch's first samples once more.

    Where the sources' weights are in proportion to their sample counts (as with a single source)
    and ``epoch_samples`` is not given, an epoch holds each sample of each source exactly once. Else
    each source runs through its own passes, and a sample is back only after all of its source's.
    (Proportions are exact as long as the weights, as integers, sum to less than 2^48.)
    """

    def __init__(self, spec: ScheduleSpec, sources: Sequence[SourceSpec]) -> None:
        _check(spec, sources)
        self.spec = spec
        self._sources = tuple(sources)
        counts = [source.samples for source in sources]
        self.samples_per_epoch = spec.epoch_samples or sum(counts)
        """Positions of one epoch, before the tail is cut or filled."""
        self.steps_per_epoch = _steps_per_epoch(spec, self.samples_per_epoch)
        """Global batches in each epoch."""
        self._counts = counts
        self._starts = [0, *accumulate(counts)]
        self._orders = [
            order_of(spec, count, _key(spec.seed, number)) for number, count in enumerate(counts)
        ]
        self._mixture = Mixture(integer_weights([source.weight for source in sources]))
        self._local = _local_shuffle(spec, self.samples_per_epoch, len(sources))

    def __reduce__(self) -> tuple[type[Schedule], tuple[ScheduleSpec, tuple[SourceSpec, ...]]]:
        """Pickle it as what it was made of."""
        return Schedule, (self.spec, self._sources)

    def epoch_of(self, step: int) -> int:
        """Return the epoch that a step is part of."""
        return _at_least_zero("step", step) // self.steps_per_epoch

    def batch(self, step: int) -> GlobalBatch:
        """Return a step's whole batch, over all ranks.

        Raises:
            CallerError: ``step`` is negative.
        """
        epoch, number = divmod(_at_least_zero("step", step), self.steps_per_epoch)
        size, length = self.spec.batch_size, self.samples_per_epoch
        first = number * size
        last = min(first + size, length) if self.spec.tail == "short" else first + size
        positions = np.arange(first, last, dtype=np.uint64)
        if last > length:
            positions %= np.uint64(length)
        samples, passes = self._samples_at(epoch, positions)
        return GlobalBatch(step, epoch, samples.view(np.int64), passes.view(np.int64))

    def shard(self, step: int, rank: int, world: int) -> GlobalBatch:
        """Return one rank's part of a step's batch: a contiguous slice, a view of the batch.

        Where ``world`` does not divide the batch, the first ranks have one sample more; a rank's
        part is empty where there are fewer samples than ranks.

        Raises:
            CallerError: ``rank`` is not in [0, world), or ``step`` is negative.
        """
        if not 0 <= rank < world:
            raise CallerError(f"rank {rank} of {world}: ranks count from 0 to world size - 1")
        whole = self.batch(step)
        share, extra = divmod(whole.samples.size, world)
        first = rank * share + min(rank, extra)
        part = slice(first, first + share + (rank < extra))
        return GlobalBatch(step, whole.epoch, whole.samples[part], whole.epochs[part])

    def next_use(self, samples: npt.NDArray[np.int64], after_step: int) -> npt.NDArray[np.int64]:
        """Return the first step after ``after_step`` that reads each sample; -1 is a distant one.

        Distant is what the source's next passes leave out or do not reach.

        Args:
            samples: Global sample ids, ``int64 [N]``.
            after_step: From -1 (the job has not begun) on.

        Raises:
            CallerError: an id is outside the job's sources.
        """
        result = np.empty(samples.size, dtype=np.int64)
        numbers = self._sources_of(samples)
        for source in np.unique(numbers).tolist():
            chosen = np.flatnonzero(numbers == source)
            own = (samples[chosen] - self._starts[source]).view(np.uint64)
            result[chosen] = self._next_use_of(source, own, after_step)
        return result

    def _samples_at(self, epoch: int, positions: Words) -> tuple[Words, Words]:
        """Return (global sample ids, passes) at the epoch's positions."""
        if self._local is not None:
            positions = self._local.apply("forward", positions, np.full_like(positions, epoch))
        stream = positions + np.uint64(epoch * self.samples_per_epoch)
        if len(self._orders) == 1:
            return self._visits(0, stream)
        samples, passes = np.empty_like(stream), np.empty_like(stream)
        numbers, ordinals = self._mixture.sources_at(stream)
        for source in np.unique(numbers).tolist():
            chosen = np.flatnonzero(numbers == source)
            samples[chosen], passes[chosen] = self._visits(source, ordinals[chosen])
        return samples, passes

    def _visits(self, source: int, ordinals: Words) -> tuple[Words, Words]:
        """Return (global sample ids, passes) of a source's items, counted over all passes."""
        count = np.uint64(self._counts[source])
        passes = ordinals // count
        samples = self._orders[source].samples_at(ordinals - passes * count, passes)
        return samples + np.uint64(self._starts[source]), passes

    def _sources_of(self, samples: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        if samples.size and not 0 <= samples.min() <= samples.max() < self._starts[-1]:
            raise CallerError(
                f"sample ids {samples.min()} to {samples.max()} are not all below "
                f"{self._starts[-1]}, the number of samples of the job's sources"
            )
        return np.searchsorted(self._starts, samples, side="right") - 1

    def _next_use_of(self, source: int, own: Words, after_step: int) -> npt.NDArray[np.int64]:
        """Search the passes around the one that ``after_step`` is in, for one source's samples."""
        epoch, number = divmod(max(after_step, 0), self.steps_per_epoch)
        position = epoch * self.samples_per_epoch + number * self.spec.batch_size
        current = self._mixture.count(source, position) // self._counts[source]
        best = np.full(own.size, np.iinfo(np.int64).max)
        for number in range(max(0, current - 1), current + _PASSES_AHEAD):
            for steps in self._steps_of(source, own, np.full_like(own, number)):
                np.minimum(best, steps, out=best, where=steps > after_step)
        return np.where(best == np.iinfo(np.int64).max, _NEVER, best)

    def _steps_of(
        self, source: int, own: Words, passes: Words
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the step of each visit, and the step that repeats it as padding; -1: none."""
        ordinals = self._orders[source].positions_of(own, passes)
        ordinals = ordinals + passes * np.uint64(self._counts[source])
        epochs, positions = np.divmod(
            self._mixture.positions_of(source, ordinals), np.uint64(self.samples_per_epoch)
        )
        if self._local is not None:
            positions = self._local.apply("inverse", positions, epochs)
        steps = self._step_at(epochs, positions)
        if self.spec.tail != "pad":
            return steps, steps
        return steps, self._step_at(epochs, positions + np.uint64(self.samples_per_epoch))

    def _step_at(self, epochs: Words, positions: Words) -> npt.NDArray[np.int64]:
        numbers = positions // np.uint64(self.spec.batch_size)
        steps = epochs * np.uint64(self.steps_per_epoch) + numbers
        return np.where(numbers < self.steps_per_epoch, steps.view(np.int64), _NEVER)


def _check(spec: ScheduleSpec, sources: Sequence[SourceSpec]) -> None:
    if not sources:
        raise ConfigError("a schedule needs at least one source; name a dataset URL")
    for source in sources:
        if source.samples < 1:
            raise ConfigError(f"source {source.url} has no samples; leave it out or index it again")
    if spec.tail not in ("drop", "short", "pad"):
        raise ConfigError(f"schedule.tail={spec.tail!r} is unknown; choose drop, short or pad")


def _steps_per_epoch(spec: ScheduleSpec, length: int) -> int:
    if spec.tail != "drop":
        return -(-length // spec.batch_size)
    if length < spec.batch_size:
        raise ConfigError(
            f"schedule.batch_size={spec.batch_size} is more than an epoch's {length} samples, and "
            'tail="drop" would leave nothing; use a smaller batch, or tail="short" or "pad"'
        )
    return length // spec.batch_size


def _local_shuffle(spec: ScheduleSpec, length: int, sources: int) -> LocalShuffle | None:
    """Return what breaks a mixture's rhythm; a sequential order stays in sequence."""
    if sources == 1 or spec.order == "sequential":
        return None
    return LocalShuffle(length, _key(spec.seed, -1), run=MIXTURE_RUN)


def _key(seed: int, source: int) -> bytes:
    """Return the key of one source's order (of the mixture: -1) under a seed of any size."""
    return f"headrace schedule 1, seed {seed}, source {source}; ".encode()


def _at_least_zero(name: str, value: int) -> int:
    if value < 0:
        raise CallerError(f"{name} {value} is negative; {name}s count from 0")
    return value
