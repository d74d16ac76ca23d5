"""The premise of one comparison on the cluster, in figures and in one line. Pure."""

from __future__ import annotations

import msgspec

from headrace.demo.premise import UTILISATION
from headrace.report.units import percent, seconds, significant


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """CPU that the hosts may use."""

    trainer: float
    """Of the trainer host [cores]."""

    storage: float
    """Of each storage host [cores]."""

    storage_hosts: int

    @property
    def all_storage(self) -> float:
        """Of all storage hosts together [cores]."""
        return self.storage * self.storage_hosts


class Premise(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison assumes about its surroundings."""

    quotas: Quotas
    background: float
    """Share of the storage hosts' CPU that a named load takes, besides DataNodes and agents."""

    step_s: float
    """Emulated time of the accelerator per step [s]."""

    rate_mbit_per_s: float
    """Of every host's link, each way [Mbit/s]."""


def just_in_time_step(batch_cpu_s: float, quotas: Quotas, background: float) -> float:
    """Return the step time that agents, alone, can just keep up with [s].

    The demo's rule: preparing a batch in a step's time keeps the storage hosts, with all else
    that they do, as busy as leaves room below the threshold at which agents give up.

    Args:
        batch_cpu_s: Measured CPU to prepare one batch [s].
        quotas: CPU of the hosts.
        background: Share of the storage hosts' CPU that others use.
    """
    return batch_cpu_s / (quotas.all_storage * (UTILISATION - background))


def even_quotas(quotas: Quotas, background: float) -> Quotas:
    """Return quotas of the same sum that leave both sides equally much CPU for loading."""
    total = quotas.trainer + quotas.all_storage
    trainer = total * (1 - background) / (2 - background)
    return msgspec.structs.replace(
        quotas, trainer=trainer, storage=(total - trainer) / quotas.storage_hosts
    )


def premise_line(premise: Premise) -> str:
    """State the premise in one line."""
    quotas = premise.quotas
    step = f"step {seconds(premise.step_s)}, emulated" if premise.step_s else "no accelerator time"
    return (
        f"trainer host capped at {significant(quotas.trainer)} core, all of it for data loading; "
        f"{quotas.storage_hosts} storage hosts at {significant(quotas.storage)} core each, "
        f"{percent(premise.background)} of it taken by a background load; {step}; "
        f"{premise.rate_mbit_per_s:g} Mbit/s per host"
    )
