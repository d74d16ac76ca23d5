"""Whatever jobs, agents, time and restarts do in whatever order, the books hold together."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, seed, settings
from hypothesis import strategies as st
from reporters_for_tests import MB, Desk, agent, agent_report, announced, health, starving

from headrace.controller import views
from headrace.core.errors import HeadraceError
from headrace.core.media import Media
from headrace.wire.control import AgentOrders, Burst, TierOffer

JOBS, HOSTS, AGENTS = ("a", "b", "c"), ("h0", "h1"), ("n0", "n1")
ROUNDING = 1 + 1e-6


class Life:
    """A desk that is told one thing after the other, and looked at after each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.desk = Desk(path, job_silent_s=60.0, remember=10)
        self._iteration = 0
        self._enforced: dict[str, dict[str, dict[str, float]]] = {name: {} for name in AGENTS}

    def tell(self, step: tuple[Any, ...]) -> None:
        what, *rest = step
        with contextlib.suppress(HeadraceError):  # it was refused
            getattr(self, what)(*rest)
        self._look()

    def announce_job(self, job: str, host: str, weight: float) -> None:
        self.desk.steward.announce_job(job, announced(host, hosts=2, weight=weight))

    def report(self, job: str, host: str, is_starving: bool, nbytes: int) -> None:
        self._iteration += 1
        make = starving if is_starving else health
        report = make(
            self._iteration,
            host=host,
            next_bytes=nbytes,
            direct_bytes={"hdd": nbytes},
            split={"hdd": 0.6, "ssd": 0.4},
        )
        self.desk.steward.take_health(job, report)

    def end_job(self, job: str, host: str | None) -> None:
        self.desk.steward.end_job(job, host)

    def announce_burst(self, job: str, nbytes: int, urgent: bool) -> None:
        burst = Burst(tier="hdd", nbytes=nbytes, deadline_s=20.0, urgent=urgent)
        self.desk.steward.announce_burst(job, "ckpt", burst)

    def end_burst(self, job: str) -> None:
        self.desk.steward.end_burst(job, "ckpt")

    def announce_agent(self, name: str, rate: float, media: Media, tiers: tuple[str, ...]) -> None:
        offers = tuple(TierOffer(tier=tier, media=media, bytes_per_s=rate) for tier in tiers)
        message = agent(tiers=offers, enforced=self._enforced[name])
        self._obey(name, self.desk.steward.announce_agent(name, message))

    def report_agent(self, name: str, job: str, nbytes: float) -> None:
        self._iteration += 1
        report = agent_report(self._iteration, {job: nbytes}, enforced=self._enforced[name])
        self._obey(name, self.desk.steward.take_agent_report(name, report))

    def end_agent(self, name: str) -> None:
        self.desk.steward.end_agent(name)

    def wait(self, seconds: float) -> None:
        self.desk.advance(seconds)

    def restart(self, away_s: float) -> None:
        self.desk.close()
        self.desk.clock.advance(away_s)
        self.desk = Desk(self._path, self.desk.clock, job_silent_s=60.0, remember=10)

    def _look(self) -> None:
        steward = self.desk.steward
        assert views.jobs(steward)
        assert views.agents(steward)
        assert views.tiers(steward) is not None
        if steward.settles_until is not None:
            return
        standing, snapshot = steward.books.standing, steward.arbiter.snapshot()
        assert set(snapshot.jobs) == set(steward.jobs)
        for tier, offered in standing.tiers.items():
            given = sum(standing.quota(job, tier) for job in standing.holders(tier))
            given += sum(b.bytes_per_s for b in standing.bursts.values() if b.tier == tier)
            assert offered.bytes_per_s == 0 or given <= offered.bytes_per_s * ROUNDING
        open_loans = {loan.loan for loan in steward.books.ledger.open_loans()}
        assert open_loans == {loan.loan for job in snapshot.jobs.values() for loan in job.loans}

    def _obey(self, name: str, orders: AgentOrders) -> None:
        """Take an agent's orders: never more than it can give to jobs that are known."""
        self._enforced[name] = orders.quotas
        steward = self.desk.steward
        known = [quotas for job, quotas in orders.quotas.items() if job in steward.jobs]
        for offer in steward.agents[name].announced.tiers:
            ordered = sum(quotas.get(offer.tier, 0.0) for quotas in known)
            assert steward.settles_until or ordered <= offer.bytes_per_s * ROUNDING


JOB, HOST, AGENT = st.sampled_from(JOBS), st.sampled_from(HOSTS), st.sampled_from(AGENTS)
NBYTES = st.sampled_from([10_000_000, 200_000_000, 900_000_000])
STEPS = st.one_of(
    st.tuples(st.just("announce_job"), JOB, HOST, st.sampled_from([1.0, 3.0])),
    st.tuples(st.just("report"), JOB, HOST, st.booleans(), NBYTES),
    st.tuples(st.just("report"), JOB, HOST, st.booleans(), NBYTES),
    st.tuples(st.just("end_job"), JOB, st.one_of(st.none(), HOST)),
    st.tuples(st.just("announce_burst"), JOB, NBYTES, st.booleans()),
    st.tuples(st.just("end_burst"), JOB),
    st.tuples(
        st.just("announce_agent"),
        AGENT,
        st.sampled_from([100 * MB, 400 * MB]),
        st.sampled_from(["hdd", "ssd", "link"]),
        st.sampled_from([("hdd",), ("hdd", "ssd"), ("ssd", "link")]),
    ),
    st.tuples(st.just("report_agent"), AGENT, JOB, st.sampled_from([0.0, 50 * MB])),
    st.tuples(st.just("end_agent"), AGENT),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 1.0, 7.0, 20.0, 70.0])),
    st.tuples(st.just("restart"), st.sampled_from([0.1, 10.0, 100.0])),
)


@seed(31)
@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, min_size=5, max_size=40))
def test_the_books_hold_together(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder) / "j.db")
        try:
            for step in steps:
                life.tell(step)
        finally:
            life.desk.close()
