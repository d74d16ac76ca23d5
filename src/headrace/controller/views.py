"""The estate as people and tools see it: pure functions of what the steward holds."""

from __future__ import annotations

import msgspec

from headrace.controller.agents import Agent
from headrace.controller.jobs import Job
from headrace.controller.steward import Steward
from headrace.policy.reservation.foresight import EVERYTHING
from headrace.policy.reservation.snapshot import JobState, Snapshot
from headrace.wire.estate import (
    AgentJobView,
    Agents,
    AgentTierView,
    AgentView,
    BurstView,
    Jobs,
    JobView,
    LedgerEntry,
    TierShare,
    TierView,
)


def jobs(steward: Steward) -> Jobs:
    """Return all jobs."""
    snapshot = steward.arbiter.snapshot()
    return Jobs(jobs=tuple(_job(steward, snapshot, one) for one in steward.jobs.values()))


def job(steward: Steward, name: str) -> JobView:
    """Return one job.

    Raises:
        UnknownJobError: it is not known.
    """
    return _job(steward, steward.arbiter.snapshot(), steward.jobs[name])


def agents(steward: Steward, *, with_jobs: bool = True) -> Agents:
    """Return all agents."""
    found = (_agent(steward, one, with_jobs=with_jobs) for one in steward.agents.values())
    return Agents(agents=tuple(found))


def tiers(steward: Steward) -> tuple[TierView, ...]:
    """Return all tiers that somebody offers."""
    used = {
        tier: sum(_used(steward, one, tier) for one in steward.jobs.values())
        for tier in steward.books.standing.tiers
    }
    return tuple(
        TierView(
            tier=name,
            media=tier.media,
            bytes_per_s=tier.nominal,
            effective_bytes_per_s=tier.effective,
            granted_bytes_per_s=tier.granted,
            lent_bytes_per_s=tier.lent,
            pool_bytes_per_s=tier.pool,
            used_bytes_per_s=used.get(name, 0.0),
        )
        for name, tier in sorted(steward.arbiter.snapshot().tiers.items())
    )


def with_timer(entry: LedgerEntry, at: float) -> LedgerEntry:
    """Return a ledger's entry with the time that an open loan has left."""
    if not entry.is_open or entry.expires_at is None:
        return entry
    return msgspec.structs.replace(entry, expires_in_s=max(entry.expires_at - at, 0.0))


def _job(steward: Steward, snapshot: Snapshot, job: Job) -> JobView:
    report, books, at = job.newest_report, steward.books, steward.wall()
    state = snapshot.jobs.get(job.name)
    found = books.standing.diagnosis(job.name)
    said = job.announced
    return JobView(
        job=job.name,
        title=said.title,
        weight=said.weight,
        world=said.world,
        hosts=said.hosts,
        hosts_reporting=sum(host.report is not None for host in job.hosts.values()),
        score=state.score if state else found.score,
        level=state.level if state else found.level,
        mode=state.mode if state else found.mode,
        reason=state.reason if state else found.reason,
        iteration=report.iteration if report else said.iteration,
        step=report.step if report else said.iteration,
        step_time_s=report.step_time_s if report else said.step_time_s,
        wait_s=report.wait_s if report else 0.0,
        queue_depth=report.queue_depth if report else 0.0,
        queue_capacity=report.queue_capacity if report else 0.0,
        hit_rate=report.hit_rate if report else 0.0,
        read_bytes_per_s=sum(h.report.read_bytes_per_s for h in job.hosts.values() if h.report),
        tiers=_shares(steward, job, state),
        loans=tuple(with_timer(loan, at) for loan in books.ledger.open_loans(job.name)),
        bursts=_bursts(steward, state),
        reordering=job.name in books.standing.reordering,
        age_s=steward.clock.now() - job.seen,
        guaranteed=said.guaranteed,
    )


def _shares(steward: Steward, job: Job, state: JobState | None) -> dict[str, TierShare]:
    enforced = steward.agents.enforced(job.name)
    standing, grants = steward.books.standing, state.tiers if state else {}
    shares = {}
    for tier, quota in sorted(standing.quotas.get(job.name, {}).items()):
        grant = grants.get(tier)
        asked = grant.asked if grant else quota.asked
        shares[tier] = TierShare(
            asked_bytes_per_s=asked if asked < EVERYTHING else 0.0,
            granted_bytes_per_s=quota.bytes_per_s,
            lent_bytes_per_s=grant.lent if grant else 0.0,
            enforced_bytes_per_s=enforced.get(tier, 0.0),
            used_bytes_per_s=_used(steward, job, tier),
            reason=quota.reason,
        )
    return shares


def _used(steward: Steward, job: Job, tier: str) -> float:
    by_agents = sum(agent.used(job.name, tier) for agent in steward.agents.values())
    return by_agents + sum(job.direct_use(tier).values())


def _bursts(steward: Steward, state: JobState | None) -> tuple[BurstView, ...]:
    now, rates = steward.clock.now(), steward.books.standing.bursts
    return tuple(
        BurstView(
            burst=one.burst,
            tier=one.tier,
            nbytes=round(one.left),
            bytes_per_s=one.bytes_per_s,
            urgent=one.urgent,
            deadline_in_s=one.deadline_at - now,
            reason=rates[one.job, one.burst].reason if (one.job, one.burst) in rates else "",
        )
        for one in (state.bursts if state else ())
    )


def _agent(steward: Steward, agent: Agent, *, with_jobs: bool) -> AgentView:
    said, report = agent.announced, agent.report
    return AgentView(
        agent=agent.name,
        address=said.address,
        hosts=said.hosts,
        tiers=tuple(
            AgentTierView(
                tier=offer.tier,
                media=offer.media,
                bytes_per_s=offer.bytes_per_s,
                used_bytes_per_s=agent.used_of(offer.tier),
            )
            for offer in said.tiers
        ),
        cpu_share=report.cpu_share if report else 0.0,
        workers=report.workers if report else 0,
        transforming=report.transforming if report else True,
        cache_hit_share=report.cache_hit_share if report else None,
        waiting=sum(use.waiting for use in report.jobs.values()) if report else 0,
        jobs=_agent_jobs(agent) if with_jobs else {},
        silent=agent.silent,
        age_s=steward.clock.now() - agent.seen,
    )


def _agent_jobs(agent: Agent) -> dict[str, AgentJobView]:
    reported = agent.report.jobs if agent.report else {}
    names = sorted(agent.ordered.keys() | agent.enforced.keys() | reported.keys())
    return {
        name: AgentJobView(
            ordered=dict(agent.ordered.get(name, {})),
            enforced=dict(agent.enforced.get(name, {})),
            used={tier: used[name] for tier, used in agent.use.items() if name in used},
            waiting=reported[name].waiting if name in reported else 0,
        )
        for name in names
    }
