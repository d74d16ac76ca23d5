"""Synthetic loads with their parts, and synthetic requests to storage, of ranks in steps."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from headrace.analysis.columns import Floats, Ints, Mask
from headrace.analysis.workload.distributions import Curve
from headrace.analysis.workload.fields import Field, LinkedField, nanoseconds, shuffled
from headrace.analysis.workload.model import Files, Load, Requests
from headrace.analysis.workload.noise import Noise
from headrace.analysis.workload.rows import Row
from headrace.core.errors import CallerError
from headrace.trace.events import Kind


class Loads:
    """Loads, and their parts one after another."""

    def __init__(
        self, load: Load, noise: Noise, *, hosts: Ints, ranks_per_host: int, steps: int
    ) -> None:
        self._load, self._noise, self._ranks = load, noise, hosts.size
        count = int(hosts[-1]) + 1
        _require_hosts(load.stragglers, hosts=count, ranks_per_host=ranks_per_host)
        slow = shuffled(noise, "load/straggler", count)[: len(load.stragglers)]
        self._factors = _host_factors(load.stragglers, slow, count)[hosts]
        self._seconds = Field("load", load.seconds, noise, hosts=hosts, steps=steps, usual=slow)
        self._bytes = LinkedField("load/bytes", load.bytes, noise) if load.bytes else None
        self._parts = {
            Kind(kind): LinkedField(f"load/{kind}", part, noise)
            for kind, part in load.parts.items()
        }
        self._loads = math.ceil(load.per_step)
        self.slots = self._loads * (1 + len(self._parts))
        """Most events of a rank in a step."""

    def rows(self, steps: Ints, ranks: Ints, ready: Ints) -> Iterator[Row]:
        """Yield loads that end when their batch is ready, each with its parts behind it."""
        for slot in range(self._loads):
            yield from self._of_slot(steps, ranks, ready, slot)

    def _of_slot(self, steps: Ints, ranks: Ints, ready: Ints, slot: int) -> Iterator[Row]:
        scores = self._seconds.scores(steps, ranks, slot)
        factors = self._factors[ranks]
        is_present = _present(self._noise, "load", self._load.per_step - slot, steps, ranks)
        samples = self._samples(steps, ranks, slot)
        durations = nanoseconds(self._seconds.curve(scores) * factors)
        begins = ready - durations
        yield Row(
            kind=Kind.LOAD,
            begins=begins,
            durations=durations,
            bytes=whole(self._bytes.values(steps, ranks, scores, slot)) if self._bytes else None,
            is_present=is_present,
            samples=samples,
        )
        for kind, part in self._parts.items():
            lengths = nanoseconds(part.values(steps, ranks, scores, slot) * factors)
            yield Row(
                kind=kind,
                begins=begins,
                durations=lengths,
                is_present=is_present,
                samples=samples,
            )
            begins = begins + lengths

    def _samples(self, steps: Ints, ranks: Ints, slot: int) -> Ints | None:
        if self._load.unit == "batch":
            return None
        return (steps[:, None] * self._ranks + ranks) * self._loads + slot


class ReadRequests:
    """Reads of storage by each rank, one after another."""

    def __init__(self, requests: Requests, noise: Noise) -> None:
        self._requests, self._noise = requests, noise
        self._seconds = LinkedField("request", requests.seconds, noise)
        self._sizes = Curve(requests.bytes) if requests.bytes else None
        self._popularity = _cumulated(requests.files) if requests.files else None
        self.slots = math.ceil(requests.per_step)
        """Most events of a rank in a step."""

    def rows(self, steps: Ints, ranks: Ints, begins: Ints) -> Iterator[Row]:
        """Yield requests, the first of which begins when it is told."""
        per_step = self._requests.per_step
        for slot in range(self.slots):
            scores = self._noise.normals(f"request/size/{slot}", steps, ranks)
            durations = nanoseconds(self._seconds.values(steps, ranks, scores, slot))
            yield Row(
                kind=Kind.REQUEST,
                begins=begins,
                durations=durations,
                bytes=whole(self._sizes(scores)) if self._sizes else None,
                is_present=_present(self._noise, "request", per_step - slot, steps, ranks),
                is_write=False,
                files=self._files(steps, ranks, slot),
            )
            begins = begins + durations

    def _files(self, steps: Ints, ranks: Ints, slot: int) -> Ints | None:
        if self._popularity is None:
            return None
        drawn = self._noise.uniforms(f"request/file/{slot}", steps, ranks)
        return np.searchsorted(self._popularity, drawn)


def whole(sizes: Floats) -> Ints:
    """Return sizes as whole bytes."""
    return np.rint(sizes).astype(np.int64)


def _present(noise: Noise, stream: str, left: float, steps: Ints, ranks: Ints) -> Mask | None:
    """Return where there is one more event, if ``left`` more are to come on average.

    None: everywhere. Slots of a rank and step share a number, so there are never gaps.
    """
    return None if left >= 1 else noise.uniforms(f"{stream}/present", steps, ranks) < left


def _require_hosts(stragglers: tuple[float, ...], *, hosts: int, ranks_per_host: int) -> None:
    least = math.floor(sum(stragglers)) + 1
    if stragglers and hosts < least:
        raise CallerError(
            f"the model's {len(stragglers)} straggling hosts take {sum(stragglers):.3g} times the "
            f"mean of all, so it needs {least} hosts or more; ask for at least "
            f"{(least - 1) * ranks_per_host + 1} ranks"
        )


def _host_factors(stragglers: tuple[float, ...], slow: Ints, hosts: int) -> Floats:
    """Return what the loads of each host are multiplied by; on average that is 1."""
    others = hosts - len(stragglers)
    factors = np.full(hosts, (hosts - sum(stragglers)) / others if others else 1.0)
    factors[slow] = stragglers
    return factors


def _cumulated(files: Files) -> Floats:
    """Return the probability of each file and those before it, but for the last one."""
    weights = np.arange(1, files.count + 1, dtype=np.float64) ** -files.zipf
    cumulated: Floats = np.cumsum(weights) / weights.sum()
    return cumulated[:-1]
