"""Makes one rank's part of a step of a map-style dataset; the same wherever it runs."""

from __future__ import annotations

import pickle
import random
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from headrace.client.config import OnCorrupt
from headrace.core.draws import Draws, SampleKey
from headrace.prepare.substitute import ATTEMPTS
from headrace.schedule.schedule import Schedule

_SUBSTITUTES, _SEEDS = -1, -2
"""Positions of the draws that choose substitutes and seed generators; ops count from 0."""

_TOLD = 16
"""Most indices of samples that a message lists."""


class MapDataset(Protocol):
    """What ``torch.utils.data.Dataset`` is, if it is map-style."""

    def __getitem__(self, index: int, /) -> Any:
        """Return one sample."""
        ...

    def __len__(self) -> int:
        """Return the number of samples."""
        ...


Collate = Callable[[list[Any]], Any]
Watch = Callable[[int], None]
"""Told the index of each sample before it is made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """How samples are made and joined."""

    dataset: MapDataset
    collate: Collate
    samples: int
    """Length of the dataset."""

    on_corrupt: OnCorrupt


@dataclass(frozen=True, slots=True)
class Task:
    """One rank's part of one step."""

    step: int
    seed: int
    samples: tuple[int, ...]
    epochs: tuple[int, ...]
    """How often each was passed through before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Which samples this rank has at each step."""

    schedule: Schedule
    rank: int
    world: int

    def task(self, step: int) -> Task:
        """Return this rank's part of a step."""
        shard = self.schedule.shard(step, self.rank, self.world)
        samples, epochs = tuple(shard.samples.tolist()), tuple(shard.epochs.tolist())
        return Task(step, self.schedule.spec.seed, samples, epochs)


@dataclass(frozen=True, slots=True)
class Lost:
    """A sample whose code raised, and what came in its place."""

    sample: int
    taken: int | None
    """None where the row was left out."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """What came of a task."""

    value: Any
    """What ``collate`` returned; None where this rank has no sample of the step."""

    size: int
    """Samples in it."""

    lost: tuple[Lost, ...]
    seconds: float
    cpu_s: float
    """CPU time of the thread that made it [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """What came of a task that ended with an exception of the dataset's code."""

    samples: tuple[int, ...]
    what: str
    """What was being done, in words for a person."""

    traceback: str
    error: Exception | None
    """The exception, where it can be pickled."""

    @classmethod
    def of(cls, error: Exception, what: str, *samples: int) -> Failed:
        """Describe the exception that is being handled."""
        text = "".join(traceback.format_exception(error))
        return cls(samples=samples, what=what, traceback=text, error=_portable(error))


def make(recipe: Recipe, task: Task, watch: Watch) -> Made | Failed:
    """Make a part of a step; random generators are seeded for each sample."""
    begin, begin_cpu = time.perf_counter(), time.thread_time()
    items: list[Any] = []
    lost: list[Lost] = []
    for sample, epoch in zip(task.samples, task.epochs, strict=True):
        try:
            items += _items(recipe, SampleKey(task.seed, epoch, sample), watch, lost)
        except Exception as error:  # noqa: BLE001 - any exception of the user's code
            return Failed.of(error, _unmade(sample, recipe.on_corrupt), sample)
    try:
        value = recipe.collate(items) if items else None
    except Exception as error:  # noqa: BLE001 - likewise
        what = f"samples {listed(task.samples)} cannot be collated"
        return Failed.of(error, what, *task.samples)
    return Made(
        value=value,
        size=len(items),
        lost=tuple(lost),
        seconds=time.perf_counter() - begin,
        cpu_s=time.thread_time() - begin_cpu,
    )


def seed_generators(key: SampleKey) -> None:
    """Seed the generators of ``random``, ``numpy.random`` and ``torch`` for one visit."""
    word = Draws(key, _SEEDS).word()
    random.seed(word)
    np.random.seed(word & 0xFFFF_FFFF)
    torch.default_generator.manual_seed(word)


def listed(samples: Sequence[int]) -> str:
    """Return indices of samples for a message: the first few of them."""
    told = ", ".join(map(str, samples[:_TOLD]))
    return f"[{told}]" if len(samples) <= _TOLD else f"[{told}, … {len(samples)} in all]"


def _items(recipe: Recipe, key: SampleKey, watch: Watch, lost: list[Lost]) -> list[Any]:
    """Return the sample, or what takes its place: one item or none."""
    try:
        return [_item(recipe, key, watch)]
    except Exception as error:
        if recipe.on_corrupt == "raise":
            raise
        reason = "".join(traceback.format_exception_only(error)).strip()
        if recipe.on_corrupt == "drop-from-batch":
            lost.append(Lost(key.sample, None, reason))
            return []
        taken, item = _substitute(recipe, key, watch, error)
        lost.append(Lost(key.sample, taken, reason))
        return [item]


def _item(recipe: Recipe, key: SampleKey, watch: Watch) -> Any:
    watch(key.sample)
    seed_generators(key)
    return recipe.dataset[key.sample]


def _unmade(sample: int, on_corrupt: OnCorrupt) -> str:
    if on_corrupt != "raise":
        return f"sample {sample} of the dataset cannot be made, nor can {ATTEMPTS} others"
    return (
        f"sample {sample} of the dataset cannot be made; try dataset[{sample}], or go on with "
        'another in its place: on_corrupt="substitute"'
    )


def _substitute(recipe: Recipe, key: SampleKey, watch: Watch, error: Exception) -> tuple[int, Any]:
    """Return another sample and its index: the same in every run. Raises ``error`` if all fail."""
    for other in _others(key, recipe.samples):
        try:
            return other.sample, _item(recipe, other, watch)
        except Exception:  # noqa: BLE001 - the first exception tells more
            continue
    raise error


def _others(key: SampleKey, count: int) -> Iterator[SampleKey]:
    draws = Draws(key, _SUBSTITUTES)
    for _ in range(ATTEMPTS):
        sample = draws.integer(count)
        if sample != key.sample:
            yield SampleKey(key.seed, key.epoch, sample)


def _portable(error: Exception) -> Exception | None:
    """Return an exception if it survives being pickled."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - pickling runs the code of its class
        return None
    return error if isinstance(copy, Exception) else None
