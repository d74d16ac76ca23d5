"""In which order one pass visits one source: shuffled, by blocks, or as it lies.

Every order is a bijection between positions of a pass and samples, both ways in O(1),
and takes arrays that may mix passes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np

from headrace.core.errors import ConfigError
from headrace.core.job import ScheduleSpec
from headrace.core.mixing import Words, mix64, word
from headrace.schedule.local import Direction, RunShuffle
from headrace.schedule.permutation import Permutation

_NONE = word(0)
_ONE = word(1)


class PassOrder(Protocol):
    """One source's order. Positions, samples and passes are ``uint64 [N]``."""

    def samples_at(self, positions: Words, passes: Words) -> Words:
        """Return the source's own sample number at each position of each pass."""
        ...

    def positions_of(self, samples: Words, passes: Words) -> Words:
        """Return where each pass visits each sample: the inverse of ``samples_at``."""
        ...


class Sequential:
    """Every pass visits the samples as the index lists them."""

    def samples_at(self, positions: Words, passes: Words) -> Words:  # noqa: ARG002
        """Return the positions themselves."""
        return positions

    def positions_of(self, samples: Words, passes: Words) -> Words:  # noqa: ARG002
        """Return the samples themselves."""
        return samples


class Shuffle:
    """Every pass visits the samples in an order of its own, over the whole range."""

    def __init__(self, samples: int, key: bytes) -> None:
        self._permutation = Permutation(samples, key + b"shuffle")

    def samples_at(self, positions: Words, passes: Words) -> Words:
        """Return the sample at each position of each pass."""
        return self._permutation.forward(positions, _one_if_equal(passes))

    def positions_of(self, samples: Words, passes: Words) -> Words:
        """Return where each pass visits each sample."""
        return self._permutation.inverse(samples, _one_if_equal(passes))


class BlockShuffle:
    """Blocks of neighbouring samples are shuffled, then groups of blocks are mixed.

    A pass lays the source's blocks out in ``slots``, in shuffled order. ``mix`` slots in a row
    are a group, and the samples of a group are shuffled among themselves. Whoever reads
    one group at a time reads runs of ``block`` neighbours, and holds no more than
    ``mix * block`` samples.

    The source's last block may be short, and each pass puts it into another slot; from
    there on all positions lie ``missing`` samples earlier than full slots would put them.
    Positions counted as if all slots were full are called *roomy* here.
    """

    def __init__(self, samples: int, key: bytes, *, block: int, mix: int) -> None:
        block = min(block, samples)
        blocks = -(-samples // block)
        mix = min(mix, blocks)
        missing, group, rest = blocks * block - samples, mix * block, blocks % mix * block
        self._block, self._mix, self._group = word(block), word(mix), word(group)
        self._missing, self._rest = word(missing), word(rest)
        self._last_block, self._whole_groups = blocks - 1, word(blocks // mix)
        self._slots = Permutation(blocks, key + b"blocks")
        lengths = {group, group - missing, rest, max(0, rest - missing)}
        self._groups = RunShuffle(lengths, key + b"groups")
        self._short_slot_of = lru_cache(maxsize=4)(self._short_slot_in)

    def samples_at(self, positions: Words, passes: Words) -> Words:
        """Return the sample at each position of each pass."""
        passes = _one_if_equal(passes)
        short = self._short_slot(passes)
        groups = self._roomy(positions, short) // self._group
        mixed = self._mix_group("forward", positions, groups, short, passes)
        roomy = self._roomy(mixed, short)
        slots = roomy // self._block
        return self._blocks_in(slots, passes) * self._block + (roomy - slots * self._block)

    def positions_of(self, samples: Words, passes: Words) -> Words:
        """Return where each pass visits each sample."""
        passes = _one_if_equal(passes)
        short = self._short_slot(passes)
        blocks = samples // self._block
        slots = self._slots.inverse(blocks, passes)
        roomy = slots * self._block + (samples - blocks * self._block)
        mixed = roomy - np.where(slots > short, self._missing, _NONE)
        return self._mix_group("inverse", mixed, slots // self._mix, short, passes)

    def _blocks_in(self, slots: Words, passes: Words) -> Words:
        """Return the block in each slot; a batch lies in few slots, so each is computed once."""
        first = slots.min(initial=self._last_block)
        span = int(slots.max(initial=0)) - int(first) + 1
        if passes.size > 1 or span > slots.size:
            return self._slots.forward(slots, passes)
        near = np.arange(span, dtype=np.uint64) + first
        blocks: Words = self._slots.forward(near, passes)[slots - first]
        return blocks

    def _short_slot(self, passes: Words) -> Words:
        if passes.size == 1:
            return self._short_slot_of(int(passes[0]))
        return self._slots.inverse(np.full_like(passes, self._last_block), passes)

    def _short_slot_in(self, number: int) -> Words:
        one = np.array([number], dtype=np.uint64)
        return self._slots.inverse(np.full_like(one, self._last_block), one)

    def _roomy(self, positions: Words, short: Words) -> Words:
        end = (short + _ONE) * self._block - self._missing
        return positions + np.where(positions >= end, self._missing, _NONE)

    def _mix_group(
        self, direction: Direction, positions: Words, groups: Words, short: Words, passes: Words
    ) -> Words:
        starts = groups * self._group - np.where(groups * self._mix > short, self._missing, _NONE)
        lengths = np.where(groups < self._whole_groups, self._group, self._rest)
        lengths = lengths - np.where(groups == short // self._mix, self._missing, _NONE)
        runs = mix64(passes) + groups
        return starts + self._groups.apply(
            direction, positions - starts, lengths=lengths, runs=runs
        )


def order_of(spec: ScheduleSpec, samples: int, key: bytes) -> PassOrder:
    """Return the order that ``spec`` asks for, over a source of so many samples."""
    match spec.order:
        case "shuffle":
            return Shuffle(samples, key)
        case "block":
            return BlockShuffle(samples, key, block=spec.block, mix=spec.mix)
        case "sequential":
            return Sequential()
    raise ConfigError(
        f"schedule.order={spec.order!r} is unknown; choose shuffle, block or sequential"
    )


def _one_if_equal(passes: Words) -> Words:
    """Return one element where all are equal, as nearly always, so that work is done once."""
    first = passes[:1]
    return first if bool((passes == first).all()) else passes
