"""The premise of the comparison: who has which CPUs, and how long a step takes. Pure.

Offloading pays where a trainer's CPUs are busy with the model's own host work and
storage CPUs are not. The demo makes such a situation openly and says in one line what
it is; the same line with the premise off is part of every report.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from headrace.report.units import percent, seconds

LARGEST_SIDE = 4
"""CPUs that either side gets at most, so that the dataset lasts on a large machine."""

UTILISATION = 0.67
"""How busy preparing one step in one step's time keeps the storage side: just in time, with
room for the uneven cost of real samples, and below the 80 % at which an agent gives up."""


class Cpus(msgspec.Struct, frozen=True, kw_only=True):
    """Which CPUs the two sides run on."""

    trainer: tuple[int, ...]
    storage: tuple[int, ...]

    @property
    def shared(self) -> bool:
        """True on a machine that is too small to keep the sides apart."""
        return bool(set(self.trainer) & set(self.storage))


class Premise(msgspec.Struct, frozen=True, kw_only=True):
    """What a run assumes about its surroundings."""

    cpus: Cpus
    host_work: float
    """Share of the trainer's CPUs that the model's own work takes; 0 turns the premise off."""

    storage_idle: float
    """Share of the storage side's CPUs that was idle before the run."""

    step_s: float
    """Emulated time of the accelerator per step [s]."""

    link: str
    """How samples travel."""


def share_cpus(usable: Sequence[int]) -> Cpus:
    """Give both sides equally many CPUs, none in common where there are two or more."""
    ordered = sorted(usable)
    side = min(LARGEST_SIDE, len(ordered) // 2)
    if side == 0:
        return Cpus(trainer=tuple(ordered), storage=tuple(ordered))
    return Cpus(trainer=tuple(ordered[:side]), storage=tuple(ordered[side : 2 * side]))


def just_in_time_step(prepare_batch_s: float) -> float:
    """Return the step time at which storage, alone, prepares a batch with room to spare.

    Args:
        prepare_batch_s: Measured time in which the storage side's CPUs prepare one batch [s].
    """
    return prepare_batch_s / UTILISATION


def steps_in(budget_s: float, *, step_s: float, prepare_batch_s: float, host_work: float) -> int:
    """Return how many steps of both runs together fit in a budget, at least 8."""
    local_s = max(step_s, prepare_batch_s / (1 - host_work))
    return max(8, math.floor(budget_s / (local_s + step_s)))


def premise_line(premise: Premise) -> str:
    """State the premise in one line."""
    cpus = premise.cpus
    pinned = (
        f"trainer and storage share CPU {_numbers(cpus.trainer)} (too few to pin apart)"
        if cpus.shared
        else f"trainer pinned to CPU {_numbers(cpus.trainer)}, storage to {_numbers(cpus.storage)}"
    )
    return (
        f"{pinned}; {_left_to_loading(premise.host_work)}; storage CPU "
        f"{percent(premise.storage_idle)} idle; {_step(premise.step_s)}; link: {premise.link}"
    )


def _left_to_loading(host_work: float) -> str:
    if not host_work:
        return "all of the trainer's CPU left to data loading (no host work)"
    return (
        f"{percent(1 - host_work)} of the trainer's CPU left to data loading (a host-work load "
        f"takes {percent(host_work)})"
    )


def _step(step_s: float) -> str:
    return f"accelerator step {seconds(step_s)}, emulated" if step_s else "no accelerator time"


def _numbers(cpus: tuple[int, ...]) -> str:
    return ", ".join(map(str, cpus))
