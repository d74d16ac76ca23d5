"""Messages that make sense, to be spoiled by tests, and a steward with a manual clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.controller.journal import Journal
from headrace.controller.limits import StewardLimits
from headrace.controller.steward import Steward
from headrace.core.clock import ManualClock
from headrace.wire.control import (
    AgentAnnounced,
    AgentOrders,
    AgentReport,
    HealthAnswer,
    HealthReport,
    JobAnnounced,
    JobUse,
    TierOffer,
    TierUse,
)

MB = 1e6
WALL = 1_800_000_000.0
"""The manual clock's zero, since 1970 [s]."""


def announced(host: str = "h0", boot: str = "b0", **changed: Any) -> JobAnnounced:
    return JobAnnounced(host=host, boot=boot, **{"world": 8, "step_time_s": 1.0, **changed})


def health(iteration: int, host: str = "h0", boot: str = "b0", **changed: Any) -> HealthReport:
    usual = {
        "iteration": iteration,
        "step": iteration,
        "step_time_s": 1.0,
        "wait_s": 0.0,
        "queue_depth": 4.0,
        "queue_capacity": 4.0,
        "io_latency_s": 0.01,
        "io_latency_cv": 0.3,
        "next_bytes": 50_000_000,
        "upcoming_bytes": (50_000_000,) * 4,
        "split": {"hdd": 1.0},
        "read_bytes_per_s": 50 * MB,
    }
    return HealthReport(host=host, boot=boot, **{**usual, **changed})


def starving(iteration: int, **changed: Any) -> HealthReport:
    return health(iteration, **{"queue_depth": 0.0, "wait_s": 1.0, **changed})


def agent(boot: str = "a0", rate: float = 400 * MB, **changed: Any) -> AgentAnnounced:
    offer = TierOffer(tier="hdd", media="hdd", bytes_per_s=rate)
    usual = {"address": "http://10.0.0.1:7411", "tiers": (offer,)}
    return AgentAnnounced(boot=boot, **{**usual, **changed})


def agent_report(
    sequence: int,
    read: dict[str, float] | None = None,
    boot: str = "a0",
    enforced: dict[str, dict[str, float]] | None = None,
    sent: dict[str, float] | None = None,
    link: str | None = None,
) -> AgentReport:
    """One second's report: job → bytes read from ``hdd``, and sent (over ``link``, if any)."""
    read, sent = read or {}, sent or {}
    jobs = {
        job: JobUse(
            tiers={
                tier: TierUse(nbytes=round(nbytes), reads=10)
                for tier, nbytes in (("hdd", read.get(job, 0.0)), (link, sent.get(job, 0.0)))
                if tier
            },
            tensor_bytes=round(sent.get(job, 0.0)),
            enforced=(enforced or {}).get(job, {}),
        )
        for job in {*read, *sent}
    }
    return AgentReport(boot=boot, sequence=sequence, interval_s=1.0, jobs=jobs)


class Desk:
    """A steward over a manual clock, with its journal."""

    def __init__(
        self, path: Path | None = None, clock: ManualClock | None = None, **limits: Any
    ) -> None:
        self.clock = clock or ManualClock(1000.0)
        self.journal = Journal(path)
        self.steward = Steward(
            StewardLimits(**limits),
            self.journal,
            clock=self.clock,
            wall=lambda: WALL + self.clock.now(),
        )

    def advance(self, seconds: float) -> None:
        """Let time pass in ticks of half a second."""
        for _ in range(round(seconds * 2)):
            self.clock.advance(0.5)
            self.steward.tick()

    def close(self) -> None:
        self.journal.close()


class FakeAgent:
    """Does what it is told, as an agent does; what it sends may cross a link of its own."""

    def __init__(
        self, desk: Desk, name: str, rate: float = 400 * MB, link: float | None = None
    ) -> None:
        self.name = name
        self.desk = desk
        self.tiers = [TierOffer(tier="hdd", media="hdd", bytes_per_s=rate)]
        if link is not None:
            self.tiers += [TierOffer(tier="wan", media="link", bytes_per_s=link)]
        self.sequence = 0
        self.enforced: dict[str, dict[str, float]] = {}

    def announce(self) -> AgentOrders:
        orders = self.desk.steward.announce_agent(
            self.name, agent(tiers=tuple(self.tiers), enforced=self.enforced)
        )
        self.enforced = orders.quotas
        return orders

    def report(self, read: dict[str, float], sent: dict[str, float] | None = None) -> AgentOrders:
        named = {job: read.get(job, 0.0) for job in {*read, *self.enforced}}
        link = "wan" if len(self.tiers) > 1 else None
        report = agent_report(self.sequence, named, enforced=self.enforced, sent=sent, link=link)
        orders = self.desk.steward.take_agent_report(self.name, report)
        self.sequence += 1
        self.enforced = orders.quotas
        return orders


def join(desk: Desk, job: str, **changed: Any) -> HealthAnswer:
    return desk.steward.announce_job(job, announced(**changed))
