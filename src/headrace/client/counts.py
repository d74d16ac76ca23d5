"""What became of the samples of a step, an epoch, a run: values that add up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any

from headrace.client.batch import Replaced
from headrace.report.printable import printable

LISTED = 1000
"""Replaced samples that a summary lists by name; more are counted only."""


@dataclass(kw_only=True, slots=True)
class Counts:
    """Sums over samples, wherever they were made."""

    samples: int = 0
    tensor: int = 0
    """Made by an agent."""

    ready: int = 0
    """Of those, how many lay ready when they were asked for."""

    shared: int = 0
    """Of those in ``tensor``, how many were made for another job: nothing was read for this one."""

    divided: int = 0
    """Made in parts, wherever these were made; also counted by how they came, as one of ``hedged``
    or ``local`` where any of their parts was made here."""

    beside: int = 0
    """Asked of an agent beside the storage node that holds the bytes, however they came; parts
    count by themselves."""

    raw: Counter[str] = field(default_factory=Counter)
    """Sent raw by an agent and decoded here, by the agent's reason."""

    hedged: int = 0
    """Asked of an agent, but made here because no answer came in time, or the agent failed."""

    local: int = 0
    """Made here from the start."""

    early: int = 0
    """Samples and parts of those in ``local`` that were begun before their step was."""

    substituted: int = 0
    dropped: int = 0
    wire_bytes: int = 0
    """Payload received from agents [bytes]."""

    storage_bytes: int = 0
    """Read here from storage [bytes]; a lower bound where a video is read in part."""

    tier_bytes: Counter[str] = field(default_factory=Counter)
    """Tier → stored bytes that agents read of it, as they say; empty text: they did not."""

    hit_bytes: Counter[str] = field(default_factory=Counter)
    """Of those, the ones that its cache held [bytes]."""

    cache_bytes: int = 0
    """Of those, read by agents that have a cache, whether or not it held them [bytes]."""

    reads: int = 0
    """Samples and parts whose bytes were read for this: by agents, or here from storage."""

    storage_reads: int = 0
    """Of those, read here from storage."""

    storage_read_s: float = 0.0
    """How long these took, waiting for the quota included, summed [s]."""

    fetches: int = 0
    """Requests to agents that were answered."""

    fetch_s: float = 0.0
    """From the request to the end of the answer, summed [s]."""

    latency_s: float = 0.0
    """How long ``reads`` took, waiting included, summed [s]."""

    latency_s2: float = 0.0
    """The same squared, summed, for its spread [s²]."""

    queued_s: float = 0.0
    """Time samples waited inside agents before their turn, summed [s]."""

    cores_s: float = 0.0
    """Of that, the time that they waited for cores, which worked on others, summed [s]."""

    link_s: float = 0.0
    """Time they were on their way from agents, behind others on the same links too, summed [s]."""

    throttled_s: float = 0.0
    """Time that reads waited for the job's quota, summed [s]."""

    metadata_s: float = 0.0
    """Time to find out which samples are needed and where they lie [s]."""

    read_s: float = 0.0
    """Time spent reading, summed over samples and hosts [s]."""

    transform_s: float = 0.0
    """Time spent transforming, summed over samples and hosts [s]."""

    cpu_s: float = 0.0
    """CPU of this process spent on it: receiving, decoding, assembling [s]."""

    def took(self, latency_s: float) -> None:
        """Count one read."""
        self.reads += 1
        self.latency_s += latency_s
        self.latency_s2 += latency_s * latency_s

    def add(self, other: Counts) -> None:
        """Add another's sums to these."""
        for item in fields(self):
            value: Any = getattr(self, item.name)
            setattr(self, item.name, value + getattr(other, item.name))


_TELLING_S = 0.1
"""Less of a wait for the quota is not worth a line [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochSummary:
    """One epoch, as far as it was delivered."""

    epoch: int
    steps: int
    counts: Counts
    wait_s: float
    """Time the training loop waited for batches [s]."""

    replaced: tuple[Replaced, ...]
    """Samples that could not be used, the first thousand, with reasons."""

    def __str__(self) -> str:
        """Return the summary in a few lines for people."""
        counts = self.counts
        raw = str(sum(counts.raw.values()))
        if counts.raw:
            raw += f" ({', '.join(f'{code} {count}' for code, count in counts.raw.most_common())})"
        lines = [
            f"epoch {self.epoch}: {self.steps} steps, {counts.samples} samples, "
            f"waited {self.wait_s:.2f} s",
            f"  made by agents {counts.tensor}, sent raw {raw}, hedged {counts.hedged}, "
            f"local {counts.local}",
            f"  substituted {counts.substituted}, dropped {counts.dropped}",
        ]
        if counts.throttled_s >= _TELLING_S:
            lines.insert(
                1,
                f"  reads waited {counts.throttled_s:.2f} s for the job's quota, summed over "
                "samples made at once",
            )
        if counts.beside:
            lines.insert(-1, f"  asked of an agent beside their bytes {counts.beside}")
        lines += [f"  {printable(f'{item.key}: {item.reason}')}" for item in self.replaced[:10]]
        if len(self.replaced) > 10:
            lines.append(f"  … and {len(self.replaced) - 10} more in .replaced")
        return "\n".join(lines)


class EpochTally:
    """Adds up one epoch as its batches are handed over."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self._steps = 0
        self._wait_s = 0.0
        self._counts = Counts()
        self._replaced: list[Replaced] = []

    def add(self, counts: Counts, replaced: tuple[Replaced, ...], wait_s: float) -> None:
        """Count one step that was handed over."""
        self._steps += 1
        self._wait_s += wait_s
        self._counts.add(counts)
        self._replaced += replaced[: max(LISTED - len(self._replaced), 0)]

    def summary(self) -> EpochSummary:
        """Return what was added so far."""
        counts = Counts()
        counts.add(self._counts)
        return EpochSummary(
            epoch=self.epoch,
            steps=self._steps,
            counts=counts,
            wait_s=self._wait_s,
            replaced=tuple(self._replaced),
        )
