"""Turns what was measured into what a training loop would wait for, and into advice. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from headrace.assess.loop import (
    Fleet,
    Loop,
    Samples,
    Stall,
    with_agents,
    with_workers,
    without_workers,
)
from headrace.assess.measuring import Measured, Measurement
from headrace.core.errors import ConfigError, CorruptDataError
from headrace.transform.program import Program
from headrace.transform.split import KindProfile, Premise, allowed_cuts, estimate

FED_SHARE = 0.01
"""A loop that waits less of its time than this is kept fed."""

CLEARLY = 0.5
"""What helps must leave this part of the wait at most."""

READERS = 64
"""Samples read at the same time, where only storage is to be judged."""

HEAVIEST = 5
"""Heavy samples that are named."""

Advice = Literal["nothing", "workers", "offload", "storage", "network", "cpus"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What is to be compared."""

    batch_size: int
    """Samples that this host's loop takes per step."""

    step_s: float
    """Time of one step without waiting for data [s]."""

    workers: tuple[int, ...] = (0, 2, 4, 8)
    """Numbers of local workers; 0: the loop makes its batches itself. As many as the trainer has
    CPUs are compared too, lest agents be advised where more workers would do."""

    agents: int = 1
    agent_cpus: int = 1
    """CPUs of each agent's host that its workers may use."""

    trainer_cpus: int = 1
    """CPUs of this host that loading may use."""

    bandwidth: float = 1.25e9
    """From agents to the trainer [B/s]."""

    seed: int = 0

    def __post_init__(self) -> None:
        counts = (self.agents, self.agent_cpus, self.trainer_cpus)
        if min(counts) < 1 or not self.workers or min(self.workers) < 0 or not self.bandwidth > 0:
            raise ConfigError(
                "agents, their CPUs and the trainer's must be at least 1, workers not negative, "
                "the bandwidth above 0"
            )
        Loop(batch_size=self.batch_size, step_s=self.step_s)  # refuses what cannot be run

    @property
    def compared(self) -> tuple[int, ...]:
        """Numbers of local workers that are compared, the smallest first."""
        return tuple(sorted({*self.workers, self.trainer_cpus}))

    @property
    def loop(self) -> Loop:
        """The training loop."""
        return Loop(batch_size=self.batch_size, step_s=self.step_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpCost:
    """One op on the samples of one kind."""

    position: int
    op: str
    on_storage: bool
    cpu_s: float
    """Mean CPU time [s]; that of ops computed together stands at the first of them."""

    cpu_p10_s: float
    cpu_p90_s: float
    bytes_out: float
    """Mean length of a sample behind it [bytes]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KindOutlook:
    """The samples of one kind."""

    kind: str
    samples: int
    measured_on: int
    stored_bytes: float
    read_s: float
    """Mean length, and time to read it [bytes, s]."""

    cut: int
    """Leading ops that storage would run."""

    ops: tuple[OpCost, ...]
    storage_s: float
    trainer_s: float
    """Mean CPU time on either side at that cut [s]."""

    wire_bytes: float
    next_cut: int | None
    """The best of the other cuts; None: there is none."""

    next_price: float
    """What it would cost, as a multiple."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One way to load, and what the loop would wait."""

    name: str
    stall: Stall


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What a loop that never waits takes."""

    samples_per_s: float
    read_bytes_per_s: float
    network_bytes_per_s: float
    """From agents to the trainer [B/s]."""

    storage_cpus: float
    trainer_cpus: float
    """CPUs on either side, with agents."""

    local_cpus: float
    """CPUs of the trainer, without agents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heavy:
    """A sample that takes long."""

    key: str
    kind: str
    cpu_s: float
    times_mean: float
    """As a multiple of the mean over all samples."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """What was found."""

    advice: Advice
    verdict: str
    """The advice, in words for a person."""

    local: tuple[Variant, ...]
    offload: Variant
    storage_alone: Stall
    """What would be waited if samples only had to be read, many at the same time."""

    needs: Needs
    kinds: tuple[KindOutlook, ...]
    heaviest: tuple[Heavy, ...]


def outlook(
    program: Program,
    profiles: Sequence[KindProfile],
    measurement: Measurement,
    settings: Settings,
) -> Outlook:
    """Return what a loop over the measured samples would wait for.

    Raises:
        CorruptDataError: none of the samples could be used.
    """
    if not measurement.samples:
        raise CorruptDataError(
            f"no sample could be read and transformed; the first: {measurement.unusable[0]}"
            if measurement.unusable
            else "no sample could be measured; the dataset is empty"
        )
    premise = Premise(bandwidth=settings.bandwidth)
    kinds = tuple(
        _kind(program, profile, own, premise)
        for profile in profiles
        if (own := measurement.of_kind(profile.kind))
    )
    samples, weights = _samples(measurement.samples, kinds, premise)
    loop = settings.loop
    rng = np.random.default_rng(settings.seed)
    drawn = rng.choice(len(weights), loop.batch_size * loop.steps, p=weights)
    asked = samples.take(drawn)
    local = tuple(_local(loop, asked, count, settings) for count in settings.compared)
    fleet = Fleet(
        workers=settings.agents * settings.agent_cpus,
        bandwidth=settings.bandwidth,
        trainer_cpus=settings.trainer_cpus,
    )
    offload = Variant(name=_agents(settings), stall=with_agents(loop, asked, fleet))
    alone = with_workers(loop, _only_read(asked), workers=READERS, cpus=settings.trainer_cpus)
    needs = _needs(loop, samples, weights, kinds)
    advice = _advice(local, offload, alone, needs, settings)
    return Outlook(
        advice=advice,
        verdict=_verdict(advice, local, offload, alone, needs),
        local=local,
        offload=offload,
        storage_alone=alone,
        needs=needs,
        kinds=kinds,
        heaviest=_heaviest(measurement.samples, float(samples.local_s @ weights)),
    )


def _kind(
    program: Program, profile: KindProfile, own: Sequence[Measured], premise: Premise
) -> KindOutlook:
    cpu_s = np.array([sample.run.cpu_s for sample in own]).reshape(len(own), -1)
    sizes = np.array([sample.run.nbytes for sample in own])
    prices = {
        cut: premise.price(
            trainer_s=float(cpu_s[:, cut:].sum(1).mean()),
            wire_bytes=float(sizes[:, cut].mean()),
            storage_s=float(cpu_s[:, :cut].sum(1).mean()),
        )
        for cut in allowed_cuts(program, estimate(program, profile))
    }
    cut, *others = sorted(prices, key=lambda one: (prices[one], one))
    return KindOutlook(
        kind=profile.kind,
        samples=profile.samples,
        measured_on=len(own),
        stored_bytes=float(np.mean([sample.stored_bytes for sample in own])),
        read_s=float(np.mean([sample.read_s for sample in own])),
        cut=cut,
        ops=tuple(
            OpCost(
                position=position,
                op=program.ops[position].name,
                on_storage=position < cut,
                cpu_s=float(cpu_s[:, position].mean()),
                cpu_p10_s=float(np.quantile(cpu_s[:, position], 0.1)),
                cpu_p90_s=float(np.quantile(cpu_s[:, position], 0.9)),
                bytes_out=float(sizes[:, position + 1].mean()),
            )
            for position in range(program.sample_ops)
        ),
        storage_s=float(cpu_s[:, :cut].sum(1).mean()),
        trainer_s=float(cpu_s[:, cut:].sum(1).mean()),
        wire_bytes=float(sizes[:, cut].mean()),
        next_cut=others[0] if others else None,
        next_price=prices[others[0]] / prices[cut] if others and prices[cut] else 1.0,
    )


def _samples(
    measured: Sequence[Measured], kinds: Sequence[KindOutlook], premise: Premise
) -> tuple[Samples, Floats]:
    """Return what each sample takes, and which part of the dataset it stands for."""
    of = {kind.kind: kind for kind in kinds}
    cuts = [of[sample.kind].cut for sample in measured]
    weights = np.array([of[one.kind].samples / of[one.kind].measured_on for one in measured])
    pairs = list(zip(measured, cuts, strict=True))
    wire = np.array([one.run.nbytes[cut] for one, cut in pairs])
    trainer = np.array([sum(one.run.cpu_s[cut:]) for one, cut in pairs])
    samples = Samples(
        read_s=np.array([one.read_s for one in measured]),
        local_s=np.array([one.cpu_s for one in measured]),
        storage_s=np.array([sum(one.run.cpu_s[:cut]) for one, cut in pairs]),
        wire_bytes=wire,
        trainer_s=trainer + wire * premise.receive_s_per_byte,
    )
    return samples, weights / weights.sum()


def _local(loop: Loop, asked: Samples, workers: int, settings: Settings) -> Variant:
    if workers == 0:
        return Variant(name="in the loop itself", stall=without_workers(loop, asked))
    name = "1 local worker" if workers == 1 else f"{workers} local workers"
    stall = with_workers(loop, asked, workers=workers, cpus=settings.trainer_cpus)
    return Variant(name=name, stall=stall)


def _agents(settings: Settings) -> str:
    name = "1 agent" if settings.agents == 1 else f"{settings.agents} agents"
    cpus = "1 CPU" if settings.agent_cpus == 1 else f"{settings.agent_cpus} CPUs"
    return f"{name} with {cpus}" + (" each" if settings.agents > 1 else "")


def _only_read(asked: Samples) -> Samples:
    nothing = np.zeros_like(asked.local_s)
    return Samples(
        read_s=asked.read_s,
        local_s=nothing,
        storage_s=nothing,
        wire_bytes=nothing,
        trainer_s=nothing,
    )


def _needs(loop: Loop, samples: Samples, weights: Floats, kinds: Sequence[KindOutlook]) -> Needs:
    rate = loop.samples_per_s
    total = sum(kind.samples for kind in kinds)
    stored = sum(kind.stored_bytes * kind.samples for kind in kinds) / total
    return Needs(
        samples_per_s=rate,
        read_bytes_per_s=rate * stored,
        network_bytes_per_s=rate * float(samples.wire_bytes @ weights),
        storage_cpus=rate * float(samples.storage_s @ weights),
        trainer_cpus=rate * float(samples.trainer_s @ weights),
        local_cpus=rate * float(samples.local_s @ weights),
    )


def _advice(
    local: Sequence[Variant], offload: Variant, alone: Stall, needs: Needs, settings: Settings
) -> Advice:
    fed = [place for place, one in enumerate(local) if one.stall.share <= FED_SHARE]
    if fed:
        return "nothing" if settings.compared[fed[0]] == 0 else "workers"
    best = min(one.stall.share for one in local)
    if offload.stall.share <= CLEARLY * best:
        return "offload"
    if alone.share > CLEARLY * best:
        return "storage"
    if needs.network_bytes_per_s > settings.bandwidth:
        return "network"
    return "cpus"


def _verdict(
    advice: Advice, local: Sequence[Variant], offload: Variant, alone: Stall, needs: Needs
) -> str:
    best = min(local, key=lambda one: one.stall.share)
    fed = next((one for one in local if one.stall.share <= FED_SHARE), best)
    waits = f"{best.name} would leave the loop waiting {100 * best.stall.share:.1f} % of its time"
    there = f"{offload.name} {100 * offload.stall.share:.1f} %"
    match advice:
        case "nothing":
            return "Nothing has to be done: the loop is fed even if it makes its batches itself."
        case "workers":
            return (
                f"Workers are enough: with {fed.name} the loop waits "
                f"{100 * fed.stall.share:.1f} % of its time. Storage-side transforms would only "
                f"free {max(needs.local_cpus - needs.trainer_cpus, 0):.1f} CPUs of the trainer."
            )
        case "offload":
            return f"Storage-side transforms would help: {waits}, {there}."
        case "storage":
            return (
                f"Faster storage would help first: {waits}, and merely reading, "
                f"{READERS} samples at a time, {100 * alone.share:.1f} %."
            )
        case "network":
            return (
                f"The network is too thin for this loop: {waits}, {there}; it takes "
                f"{8e-9 * needs.network_bytes_per_s:.2f} Gbit/s from agents."
            )
        case "cpus":
            return (
                f"More CPUs are needed, on whichever side: {waits}, {there}. Without agents the "
                f"loop takes {needs.local_cpus:.1f} CPUs, with them {needs.storage_cpus:.1f} on "
                f"storage and {needs.trainer_cpus:.1f} here."
            )


def _heaviest(measured: Sequence[Measured], mean_s: float) -> tuple[Heavy, ...]:
    heavy = sorted(measured, key=lambda one: (-one.cpu_s, one.key))[:HEAVIEST]
    return tuple(
        Heavy(key=one.key, kind=one.kind, cpu_s=one.cpu_s, times_mean=one.cpu_s / mean_s)
        for one in heavy
        if mean_s
    )
