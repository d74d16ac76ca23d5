"""Turns messages and the passing of time into the policy's events, and carries its actions out.

No sockets, no threads: a clock is read, the journal is told. When the controller returns from
a restart it *settles* first: nothing changes until every agent that the journal knows has told
what it enforces, or a few seconds passed. What is in force is then what the policy begins
with, so that a restart moves no quota.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Callable
from dataclasses import replace

from headrace.controller.agents import Agent, Agents, copied
from headrace.controller.books import Books
from headrace.controller.checks import (
    check_agent,
    check_agent_report,
    check_burst,
    check_health,
    check_job,
)
from headrace.controller.crossing import Crossing, crossing
from headrace.controller.jobs import Job, Jobs
from headrace.controller.journal import AgentRow, HostRow, Journal
from headrace.controller.limits import StewardLimits
from headrace.controller.shares import Shares
from headrace.controller.standing import sum_up
from headrace.controller.translation import announced, joined, loan_of, reported
from headrace.core.clock import Clock, SystemClock
from headrace.core.errors import NotFoundError, ReportError
from headrace.policy.reservation.arbiter import Arbiter
from headrace.policy.reservation.events import BurstEnded, Event, JobLeft, Tick, TierChanged
from headrace.policy.reservation.indicators import check_indicators
from headrace.wire.control import (
    AgentAnnounced,
    AgentOrders,
    AgentReport,
    Burst,
    BurstAnswer,
    HealthAnswer,
    HealthReport,
    JobAnnounced,
)

log = logging.getLogger("headrace.controller.steward")

MOST_BURSTS = 64
"""Checkpoints of one job at once; more are a sender that never ends any."""

_SHORTEST_STEP_S = 1e-3

_STALL_EVERY_S = 1.0
"""A host whose step does not come reports this often, unless there are too many hosts [s]."""

_LONGEST_SPREAD_S = 10.0
"""Reports are spread over no longer a time, however long steps are [s]."""

_MOST_SPREAD = 0.25
"""Reports are spread over this part of an iteration at most: later ones would be stale."""


class Steward:
    """The controller without its sockets. For one thread; every call ends soon.

    Args:
        limits: What it waits for.
        journal: Where it keeps what a restart must not lose; it begins with what is there.
        clock: Monotonic time.
        wall: Time since 1970 [s], for the ledger.
    """

    def __init__(
        self,
        limits: StewardLimits,
        journal: Journal,
        *,
        clock: Clock | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.limits = limits
        self.journal = journal
        self.jobs, self.agents = Jobs(), Agents()
        self.books = Books(self.jobs, journal, limits.remember)
        self.arbiter = Arbiter(limits.reservation)
        self.reports = 0
        """Health reports taken."""
        self.refused = 0
        """Messages refused; counted by whoever answers them."""
        self.boot = secrets.token_hex(8)
        """Names this start."""
        self.settles_until: float | None = None
        """Until when agents may tell what they enforce; None: all that is known [s]."""
        self.clock: Clock = clock or SystemClock()
        self.began = self.clock.now()
        self.wall = wall
        self._shares = Shares()
        self._crossing = Crossing()
        self._least_period_s = 0.0
        self._restore()

    # What jobs say

    def announce_job(self, name: str, message: JobAnnounced) -> HealthAnswer:
        """Take one host's announcement of its job.

        Raises:
            ReportError: it makes no sense.
        """
        check_job(name, message)
        now = self.clock.now()
        is_news = self.jobs.announce(name, message, now)
        self.journal.put("host", f"{name}/{message.host}", HostRow(job=name, announced=message))
        if is_news and self.settles_until is None:
            self._join(name, self.jobs[name])
            self._divide()
        return self._answer(name, message.host, message.step_time_s)

    def take_health(self, name: str, report: HealthReport) -> HealthAnswer:
        """Take one host's health.

        Raises:
            ReportError: it makes no sense.
            UnknownJobError: the job, or the host, did not announce itself.
            StaleReportError: it came twice, late, or from an earlier start.
        """
        check_health(report)
        event = reported(name, report, self._crossing.of(name))
        check_indicators(event.indicators)
        self.jobs.take(name, report, self.clock.now())
        self.reports += 1
        if self.settles_until is None:
            self._tell(event)
        return self._answer(name, report.host, report.step_time_s, report.wait_s)

    def end_job(self, name: str, host: str | None = None) -> None:
        """Forget a job, or one host of it; a job ends with its last host.

        Raises:
            UnknownJobError: it is not known.
        """
        hosts = self.jobs[name].hosts
        if host is not None and hosts.keys() - {host}:
            hosts.pop(host, None)
            self.journal.drop("host", f"{name}/{host}")
        else:
            self._end(name)

    def announce_burst(self, name: str, burst: str, message: Burst) -> BurstAnswer:
        """Take the announcement of a checkpoint.

        Raises:
            ReportError: it makes no sense, or the job never ends any.
            UnknownJobError: the job did not announce itself.
            NotFoundError: there is no such tier.
        """
        check_burst(burst, message)
        job = self.jobs[name].name
        if self.settles_until is not None:
            reason = "the controller returned a moment ago; ask again"
            return BurstAnswer(bytes_per_s=0.0, reason=reason, valid_s=self.limits.settle_s)
        if message.tier not in (tiers := self.books.standing.tiers):
            known = ", ".join(tiers) or "none: no agent offers any"
            raise NotFoundError(f"no tier {message.tier!r} here; there are {known}")
        self._require_room(job, burst)
        self._tell(announced(job, burst, message))
        found = self.books.standing.bursts.get((name, burst))
        if found is None:
            return BurstAnswer(bytes_per_s=0.0, reason="nothing is free for it; ask again")
        return BurstAnswer(bytes_per_s=found.bytes_per_s, reason=found.reason)

    def _require_room(self, job: str, burst: str) -> None:
        moving = {one.burst for one in self.arbiter.snapshot().jobs[job].bursts}
        if burst not in moving and len(moving) >= MOST_BURSTS:
            raise ReportError(
                f"job {job!r} moves {MOST_BURSTS} checkpoints already; end with DELETE those "
                "that are over, before you announce more"
            )

    def end_burst(self, name: str, burst: str) -> None:
        """Forget a checkpoint.

        Raises:
            UnknownJobError: the job did not announce itself.
        """
        self._tell(BurstEnded(job=self.jobs[name].name, burst=burst))
        self.books.standing.bursts.pop((name, burst), None)

    # What agents say

    def announce_agent(self, name: str, message: AgentAnnounced) -> AgentOrders:
        """Take an agent's announcement, and with it what it enforces.

        Raises:
            ReportError: it makes no sense.
        """
        check_agent(name, message)
        agent = self.agents.announce(name, message, self.clock.now())
        if agent.replaced and agent.returns == 1:
            log.warning(
                "two agents are called %r, at %s and %s: each takes the other's place, and one "
                "of them is not counted; give each a name of its own (--name)",
                name,
                message.address,
                agent.replaced.address,
            )
        agent.adopted = {
            job: quotas for job, quotas in message.enforced.items() if job not in self.jobs
        }
        self.journal.put("agent", name, AgentRow(agent=name, announced=message))
        self._count_agents()
        return self._orders(agent)

    def take_agent_report(self, name: str, report: AgentReport) -> AgentOrders:
        """Take an agent's report.

        Raises:
            ReportError: it makes no sense.
            UnknownAgentError: it did not announce itself to this controller.
            StaleReportError: it came twice, late, or from an earlier start.
        """
        check_agent_report(report)
        known = self.agents.get(name)
        was_silent = known is not None and known.silent
        agent = self.agents.take(name, report, self.clock.now())
        if was_silent:
            self._tell_tiers()
            self._divide()
        return self._orders(agent)

    def end_agent(self, name: str) -> None:
        """Count on an agent no more.

        Raises:
            UnknownAgentError: it is not known.
        """
        self.agents.remove(name)
        self.journal.drop("agent", name)
        self._count_agents()

    # What time brings

    def tick(self) -> None:
        """Do what is due: let the policy know the time, end what is silent, divide anew."""
        now = self.clock.now()
        if self.settles_until is not None and now >= self.settles_until:
            self._settle()
        if self.settles_until is not None:
            return
        for name in self.jobs.silent(now, self.limits.job_silent_s):
            self._end(name)
        for name, host in self.jobs.drop_silent_hosts(now, self.limits.job_silent_s):
            self.journal.drop("host", f"{name}/{host}")
        if self.agents.fall_silent(now, self.limits.agent_silent_s):
            self._tell_tiers()
        for name in self.agents.forget(now, self.limits.job_silent_s):
            self.journal.drop("agent", name)
        self.agents.let_go(now, self.limits.job_silent_s)
        self._tell(Tick())
        self.books.standing.look_at(self.arbiter.snapshot())
        self._divide()

    # A restart

    def _restore(self) -> None:
        """Take over what the journal has, and settle if there is anything to be settled."""
        kept, now = self.journal.kept, self.clock.now()
        for row in kept.hosts:
            self.jobs.restore(row.job, row.announced, now)
        for agent in kept.agents:
            self.agents.restore(agent.agent, agent.announced, now)
        self.books.restore(kept, self.wall())
        self.settles_until = now + self.limits.settle_s
        if kept.is_empty:
            self._settle()

    def _count_agents(self) -> None:
        """Do what an agent more or less means: it may have been the last to settle with."""
        if self.settles_until is None:
            self._tell_tiers()
            self._divide()
        elif all(agent.confirmed for agent in self.agents.values()):
            self._settle()

    def _settle(self) -> None:
        """Let the policy begin with what is in force."""
        self.settles_until = None
        # Jobs before tiers: the first division then knows of everybody, and moves nothing.
        for name, job in self.jobs.items():
            self._join(name, job)
        self._tell_tiers()
        now, at, ledger = self.clock.now(), self.wall(), self.books.ledger
        loans = [loan_of(entry, now=now, at=at) for entry in ledger.open_loans()]
        self.books.carry_out(self.arbiter.restore(loans, next_loan=ledger.next_loan), at)
        self._divide()

    def _join(self, name: str, job: Job) -> None:
        """Tell the policy of a job; what is in force for it goes on until decided otherwise.

        That is what agents enforce, or what was ordered if that is more: what they do not
        enforce of an order, hosts and silent agents do.
        """
        quotas = self.agents.enforced(name)
        self.books.reconcile(name, quotas, self.wall())
        for tier, quota in self.books.standing.quotas.get(name, {}).items():
            quotas[tier] = max(quotas.get(tier, 0.0), quota.bytes_per_s)
        self._tell(joined(name, job.announced, quotas, is_running=job.is_running))
        for agent in self.agents.values():
            agent.adopted.pop(name, None)

    # Events, actions, answers

    def _tell(self, event: Event) -> None:
        self.books.carry_out(self.arbiter.handle(event, self.clock.now()), self.wall())

    def _tell_tiers(self) -> None:
        """Tell the policy of tiers that give more or less than before."""
        known = self.books.standing.tiers
        offered = sum_up((*self.limits.tiers, *self.agents.offers()))
        gone = {name: replace(known[name], bytes_per_s=0.0) for name in known.keys() - offered}
        self.books.standing.tiers = offered
        for name, tier in sorted((offered | gone).items()):
            if known.get(name) != tier:
                self._tell(TierChanged(tier=name, media=tier.media, bytes_per_s=tier.bytes_per_s))

    def _end(self, name: str) -> None:
        for host in self.jobs[name].hosts:
            self.journal.drop("host", f"{name}/{host}")
        self.jobs.leave(name)
        self._tell(JobLeft(job=name))
        self.books.forget_job(name, self.wall())
        for agent in self.agents.values():
            agent.forget_job(name)
        self._divide()

    def _divide(self) -> None:
        """Divide all quotas anew."""
        self._shares.divide(self.books.standing, self.jobs, self.agents)
        self._crossing = crossing(self.agents.values())
        self._least_period_s = self.jobs.announced_hosts / self.limits.most_reports_per_s

    def _answer(
        self, name: str, host: str, step_time_s: float, wait_s: float = 0.0
    ) -> HealthAnswer:
        found = self.books.standing.diagnosis(name)
        iteration_s = step_time_s + wait_s
        spread_s = (self.jobs[name].host_count - 1) / self.limits.most_at_once_per_s
        return HealthAnswer(
            score=found.score,
            level=found.level,
            mode=found.mode,
            reason=found.reason,
            quotas=self._shares.direct(name, host),
            settling=self.settles_until is not None,
            every=self._every(iteration_s) if step_time_s > 0 else 1,
            stall_every_s=max(_STALL_EVERY_S, self._least_period_s),
            spread_s=min(spread_s, _MOST_SPREAD * iteration_s, _LONGEST_SPREAD_S),
        )

    def _every(self, iteration_s: float) -> int:
        """Return after how many iterations a host is to report again, so that not too many do.

        Not for hosts whose steps take nobody knows how long: their jobs' needs are not known
        before they report.
        """
        return max(1, math.ceil(self._least_period_s / max(iteration_s, _SHORTEST_STEP_S)))

    def _orders(self, agent: Agent) -> AgentOrders:
        """Return what an agent is to do: nothing else than it does until all is settled."""
        settling = self.settles_until is not None
        if settling:
            orders = copied(agent.enforced)
        else:
            orders = copied(agent.adopted) | self._shares.orders(agent.name)
        agent.ordered = orders
        return AgentOrders(
            quotas=orders,
            reorder=None if settling else tuple(sorted(self.books.standing.reordering)),
            every_s=self.limits.agent_report_s,
        )
