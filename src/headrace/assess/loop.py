"""Runs a training loop over measured samples in virtual time. Pure, and the same every time.

Samples are started in the order in which the loop needs them, as soon as something is free and
the loop is near enough; resources are the pool of workers, the link, and the trainer's own
CPUs. Means would hide what a loop waits for: the heavy sample that all others of its batch wait
for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace.core.errors import ConfigError

Floats = npt.NDArray[np.float64]

LOADER_WINDOW = 8
"""Steps that a loader prepares ahead, as :class:`headrace.Loader` does by default."""

AGENT_WINDOW = 16
"""Steps that agents prepare ahead."""

MOST_BATCH = 131_072
"""Samples of one step that are simulated in seconds, and within a gigabyte."""

MOST_SAMPLES = 100_000
MOST_STEPS = 400
LEAST_STEPS = 60
"""Samples and steps of one run: enough for a P99, quick to simulate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loop:
    """A training loop."""

    batch_size: int
    """Samples that this host delivers per step."""

    step_s: float
    """Time of one step without waiting for data [s]."""

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= MOST_BATCH or not self.step_s > 0:
            raise ConfigError(
                f"batch_size={self.batch_size} must lie in [1, {MOST_BATCH}] (the samples of one "
                f"host), step_s={self.step_s:g} s above 0"
            )

    @property
    def samples_per_s(self) -> float:
        """Samples that it takes where it never waits [1/s]."""
        return self.batch_size / self.step_s

    @property
    def steps(self) -> int:
        """Steps that are simulated."""
        return min(MOST_STEPS, max(LEAST_STEPS, MOST_SAMPLES // self.batch_size))


@dataclass(frozen=True, kw_only=True, slots=True)
class Stall:
    """What a loop waited."""

    share: float
    """Of its time [0, 1]."""

    p99_s: float
    """Of a step [s]."""

    samples_per_s: float

    step_s: float
    """Time of a step, waiting included [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Samples:
    """What each of the samples takes that a loop is about to ask for, in its order."""

    read_s: Floats
    local_s: Floats
    """CPU time of all ops [s]."""

    storage_s: Floats
    """CPU time of the ops that storage runs [s]."""

    wire_bytes: Floats
    trainer_s: Floats
    """CPU time of the others, and of receiving [s]."""

    def take(self, order: npt.NDArray[np.int64]) -> Samples:
        """Return these samples in another order, some repeatedly."""
        return Samples(
            read_s=self.read_s[order],
            local_s=self.local_s[order],
            storage_s=self.storage_s[order],
            wire_bytes=self.wire_bytes[order],
            trainer_s=self.trainer_s[order],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """Agents, and what lies between them and the trainer."""

    workers: int
    """Samples that agents make at the same time, all together."""

    bandwidth: float
    """From agents to the trainer [B/s]."""

    trainer_cpus: int
    """CPUs of the trainer that finish samples."""


def without_workers(loop: Loop, samples: Samples) -> Stall:
    """Return what a loop waits that reads and transforms by itself, between its steps."""
    made_s = (samples.read_s + samples.local_s).reshape(-1, loop.batch_size).sum(1)
    return _stall(loop, made_s, made_s + loop.step_s)


def with_workers(loop: Loop, samples: Samples, *, workers: int, cpus: int) -> Stall:
    """Return what a loop waits whose samples are made here.

    Args:
        loop: The loop.
        samples: What it asks for.
        workers: Samples made at the same time.
        cpus: CPUs they share: where there are too few, all take longer.
    """
    busy = samples.local_s.sum() / max((samples.read_s + samples.local_s).sum(), 1e-12)
    slower = max(1.0, workers * busy / cpus)
    taken_s = samples.read_s + samples.local_s * slower
    pool = _Pool(workers)

    def ready(step: int, took_at: Sequence[float]) -> float:
        begin = _allowed(step, LOADER_WINDOW, took_at)
        own = range(step * loop.batch_size, (step + 1) * loop.batch_size)
        return max(pool.run(begin, taken_s[number]) for number in own)

    return _run(loop, ready)


def with_agents(loop: Loop, samples: Samples, fleet: Fleet) -> Stall:
    """Return what a loop waits whose samples agents make up to the cut."""
    agents, link, trainer = _Pool(fleet.workers), _Pool(1), _Pool(fleet.trainer_cpus)
    on_storage_s = samples.read_s + samples.storage_s
    on_wire_s = samples.wire_bytes / fleet.bandwidth

    def ready(step: int, took_at: Sequence[float]) -> float:
        begin = _allowed(step, AGENT_WINDOW, took_at)
        asked = _allowed(step, LOADER_WINDOW, took_at)
        own = range(step * loop.batch_size, (step + 1) * loop.batch_size)
        made = sorted((agents.run(begin, on_storage_s[number]), number) for number in own)
        return max(
            trainer.run(link.run(max(at, asked), on_wire_s[number]), samples.trainer_s[number])
            for at, number in made
        )

    return _run(loop, ready)


class _Pool:
    """Servers that take one job after another, in the order in which they are given."""

    def __init__(self, servers: int) -> None:
        self._free_at = [0.0] * min(servers, AGENT_WINDOW * MOST_BATCH)  # no more are under way

    def run(self, not_before: float, seconds: float) -> float:
        """Return when a job ends that begins as soon as a server is free."""
        end = max(self._free_at[0], not_before) + float(seconds)
        heapq.heapreplace(self._free_at, end)
        return end


def _allowed(step: int, window: int, took_at: Sequence[float]) -> float:
    """Return when a step comes into a window: when the loop took the one so far before it."""
    return took_at[step - window] if step >= window else 0.0


def _run(loop: Loop, ready: Callable[[int, Sequence[float]], float]) -> Stall:
    took_at: list[float] = []
    waits, ends, end = [], [], 0.0
    for step in range(loop.steps):
        at = max(ready(step, took_at), end)
        waits.append(at - end)
        took_at.append(at)
        end = at + loop.step_s
        ends.append(end)
    return _stall(loop, np.array(waits), np.diff(np.array(ends), prepend=0.0))


def _stall(loop: Loop, waits: Floats, step_s: Floats) -> Stall:
    """Sum up what comes after the first window, which is made while nothing is consumed yet."""
    settled = slice(AGENT_WINDOW, None)
    waits, step_s = waits[settled], step_s[settled]
    return Stall(
        share=float(waits.sum() / step_s.sum()),
        p99_s=float(np.quantile(waits, 0.99)),
        samples_per_s=float(loop.batch_size * len(step_s) / step_s.sum()),
        step_s=float(step_s.mean()),
    )
