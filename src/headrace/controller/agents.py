"""Who reads beside the storage: agents, what they offer, do and enforce. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headrace.controller.rates import renewed
from headrace.controller.refusals import StaleReportError, UnknownAgentError
from headrace.core.errors import ReportError
from headrace.core.media import TierName
from headrace.wire.control import AgentAnnounced, AgentReport, TierOffer

MOST_AGENTS = 10_000
"""Agents at once; more are a sender that names itself anew each time."""

Quotas = Mapping[str, Mapping[TierName, float]]
"""Job → tier → bandwidth [B/s]."""


@dataclass(slots=True)
class Agent:
    """One agent: what it said last."""

    name: str
    announced: AgentAnnounced
    came: float
    """When it announced itself [s, monotonic]."""

    seen: float
    """When it was heard of [s, monotonic]."""

    replaced: AgentAnnounced | None = None
    """The start of it that this one took the place of."""

    returns: int = 0
    """How often one that had been replaced came back: two agents share the name."""

    confirmed: bool = True
    """It told this controller what it enforces; False when only the journal knows of it."""

    silent: bool = False
    sequence: int = -1
    report: AgentReport | None = None
    use: dict[TierName, dict[str, float]] = field(default_factory=dict)
    """Tier → job → what was read lately [B/s]; it begins with what was in force."""

    sent: dict[str, float] = field(default_factory=dict)
    """Job → what is sent to its hosts [B/s]."""

    ordered: Quotas = field(default_factory=dict)
    """What it was told last."""

    enforced: dict[str, Mapping[TierName, float]] = field(default_factory=dict)
    """What it said is in force."""

    adopted: dict[str, Mapping[TierName, float]] = field(default_factory=dict)
    """The part of it that is of jobs nobody announced: left as it is until somebody does."""

    @property
    def offers(self) -> tuple[TierOffer, ...]:
        """Its tiers, as far as they can be counted on."""
        return () if self.silent else self.announced.tiers

    def used(self, job: str, tier: TierName) -> float:
        """Return what the job reads there [B/s]."""
        return self.use.get(tier, {}).get(job, 0.0)

    def used_of(self, tier: TierName) -> float:
        """Return what all jobs read of a tier there [B/s]."""
        return sum(self.use.get(tier, {}).values())

    def follow(self, before: Agent) -> None:
        """Take over what is known of the agent under its name before."""
        self.ordered, self.use, self.sent = before.ordered, before.use, before.sent
        self.replaced, self.returns = before.replaced, before.returns
        if self.announced.boot != before.announced.boot:
            came_back = before.replaced is not None and self.announced.boot == before.replaced.boot
            self.returns += came_back
            self.replaced = before.announced

    def forget_job(self, job: str) -> None:
        """Forget what a job that ended did and was allowed."""
        self.enforced.pop(job, None)
        self.adopted.pop(job, None)
        self.sent.pop(job, None)
        for used in self.use.values():
            used.pop(job, None)


class Agents(Mapping[str, Agent]):
    """The agents that announced themselves."""

    def __init__(self) -> None:
        self._agents: dict[str, Agent] = {}

    def __getitem__(self, name: str) -> Agent:
        """Return an agent.

        Raises:
            UnknownAgentError: it did not announce itself.
        """
        try:
            return self._agents[name]
        except KeyError:
            raise UnknownAgentError(
                f"no agent {name!r} here (the controller may have restarted); "
                "announce it with PUT first"
            ) from None

    def __iter__(self) -> Iterator[str]:
        """Return the names."""
        return iter(self._agents)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._agents)

    def announce(self, name: str, message: AgentAnnounced, now: float) -> Agent:
        """Take an announcement: a new agent, or what a known one is now.

        Quotas are divided by what agents read lately. One that only lost its connection, or
        whose controller was started again, must not be taken for idle until it reports.

        Raises:
            ReportError: there are too many agents already.
        """
        known = self._agents.get(name)
        if known is None and len(self._agents) >= MOST_AGENTS:
            raise ReportError(
                f"there are {MOST_AGENTS} agents already; let each keep its name when it is "
                "started again (--name), and end those that do not run any more with DELETE"
            )
        agent = Agent(name, message, now, now, enforced=dict(message.enforced))
        if known is not None:
            agent.follow(known)
        agent.use = agent.use or _by_tier(message.enforced)
        self._agents[name] = agent
        return agent

    def restore(self, name: str, message: AgentAnnounced, now: float) -> None:
        """Count on an agent that the journal knows, until it is silent for too long."""
        self._agents[name] = Agent(name, message, now, now, confirmed=False)

    def offers(self) -> Iterator[TierOffer]:
        """Return the tiers of all that can be counted on."""
        return (offer for agent in self._agents.values() for offer in agent.offers)

    def addresses(self) -> dict[str, str]:
        """Return name → address of all that can be counted on."""
        return {
            name: agent.announced.address
            for name, agent in self._agents.items()
            if not agent.silent
        }

    def enforced(self, job: str) -> dict[TierName, float]:
        """Return tier → what agents say they hold a job to, summed [B/s]."""
        sums: dict[TierName, float] = {}
        for agent in self._agents.values():
            for tier, bytes_per_s in agent.enforced.get(job, {}).items():
                sums[tier] = sums.get(tier, 0.0) + bytes_per_s
        return sums

    def let_go(self, now: float, after_s: float) -> None:
        """Adopt no longer what was of jobs that nobody announced for longer than ``after_s``."""
        for agent in self._agents.values():
            if agent.adopted and now - agent.came > after_s:
                agent.adopted = {}

    def take(self, name: str, report: AgentReport, now: float) -> Agent:
        """Take an agent's report, if it is the next one of its run.

        Raises:
            UnknownAgentError: it did not announce itself to this controller.
            StaleReportError: it is of an earlier start, or not later than what was taken.
        """
        agent = self[name]
        if not agent.confirmed:
            raise UnknownAgentError(
                f"the controller restarted; announce agent {name!r} again with PUT, "
                "so that it knows what is in force"
            )
        _require_next(agent, report)
        _meter(agent, report)
        agent.enforced = {job: use.enforced for job, use in report.jobs.items() if use.enforced}
        agent.report, agent.sequence, agent.seen = report, report.sequence, now
        agent.silent = False
        return agent

    def remove(self, name: str) -> None:
        """Forget an agent.

        Raises:
            UnknownAgentError: it is not known.
        """
        del self._agents[self[name].name]

    def fall_silent(self, now: float, after_s: float) -> list[Agent]:
        """Mark the agents that were not heard of for longer than ``after_s``; return them."""
        fallen = [a for a in self._agents.values() if not a.silent and now - a.seen > after_s]
        for agent in fallen:
            agent.silent = True
            agent.use.clear()
            agent.sent.clear()
        return fallen

    def forget(self, now: float, after_s: float) -> list[str]:
        """Forget agents that were silent for longer than ``after_s``; return their names."""
        gone = [agent.name for agent in self._agents.values() if now - agent.seen > after_s]
        for name in gone:
            del self._agents[name]
        return gone


def copied(quotas: Quotas) -> dict[str, dict[TierName, float]]:
    """Return quotas as a message carries them."""
    return {job: dict(tiers) for job, tiers in quotas.items()}


def _by_tier(quotas: Quotas) -> dict[TierName, dict[str, float]]:
    """Return tier → job → bandwidth [B/s]."""
    found: dict[TierName, dict[str, float]] = {}
    for job, tiers in quotas.items():
        for tier, bytes_per_s in tiers.items():
            found.setdefault(tier, {})[job] = bytes_per_s
    return found


def _require_next(agent: Agent, report: AgentReport) -> None:
    if report.boot != agent.announced.boot:
        raise StaleReportError(
            f"the report of agent {agent.name!r} is of start {report.boot!r}, and it announced "
            f"start {agent.announced.boot!r} last; announce it with PUT first, and give each "
            "agent a name of its own"
        )
    if report.sequence <= agent.sequence:
        raise StaleReportError(
            f"agent {agent.name!r} sent report {agent.sequence} already, so report "
            f"{report.sequence} came twice or late; drop it"
        )


def _meter(agent: Agent, report: AgentReport) -> None:
    read: dict[TierName, dict[str, float]] = {tier: {} for tier in agent.use}
    for job, use in report.jobs.items():
        for tier, one in use.tiers.items():
            read.setdefault(tier, {})[job] = one.nbytes
    rates = {
        tier: renewed(agent.use.get(tier, {}), nbytes, report.interval_s)
        for tier, nbytes in read.items()
    }
    agent.use = {tier: by_job for tier, by_job in rates.items() if by_job}
    sent = {job: use.tensor_bytes + use.raw_bytes for job, use in report.jobs.items()}
    agent.sent = renewed(agent.sent, sent, report.interval_s)
