"""Applies an arbiter's actions as whoever carries them out does, and checks each on the way."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.policy.reservation.arbiter import Arbiter
from headrace.policy.reservation.events import (
    Action,
    BurstEnded,
    Event,
    HealthReported,
    Indicators,
    JobJoined,
    JobLeft,
    Lend,
    Reclaim,
    Refuse,
    SetBurstRate,
    SetQuota,
    TierChanged,
)
from headrace.policy.reservation.limits import ReservationLimits

ROUNDING = 1 + 1e-9


class Books:
    """An arbiter whose actions are applied one by one, with what is in force then.

    Every action is checked: no tier is handed out beyond its bandwidth, not even between two
    actions of one answer, and loans never exceed their pool.
    """

    def __init__(self, limits: ReservationLimits | None = None) -> None:
        self.limits = limits or ReservationLimits()
        self.arbiter = Arbiter(self.limits)
        self.now = 0.0
        self.capacity: dict[str, float] = {}
        self.quotas: dict[tuple[str, str], float] = {}
        self.bursts: dict[tuple[str, str], SetBurstRate] = {}
        self.loans: dict[int, tuple[Lend, float]] = {}
        self.actions: list[Action] = []

    def tell(self, event: Event, now: float | None = None) -> list[Action]:
        """Hand over an event and apply what is answered."""
        self.now = self.now if now is None else now
        self._note(event)
        actions = self.arbiter.handle(event, self.now)
        shrinks = isinstance(event, TierChanged)
        for action in actions:
            self._apply(action, is_checked=not shrinks)
        self._check()
        assert all(self.now < ends_at for _, ends_at in self.loans.values())
        self.actions += actions
        return actions

    def quota(self, job: str, tier: str = "ssd") -> float:
        """Return what a job has of a tier."""
        return self.quotas.get((job, tier), 0.0)

    def given(self, tier: str) -> float:
        """Return what is handed out of a tier, to jobs and bursts."""
        jobs = sum(quota for (_, t), quota in self.quotas.items() if t == tier)
        return jobs + sum(b.bytes_per_s for b in self.bursts.values() if b.tier == tier)

    def lent(self, job: str, tier: str = "ssd") -> float:
        """Return what a job has borrowed of a tier."""
        mine = [loan for loan, _ in self.loans.values() if (loan.job, loan.tier) == (job, tier)]
        return sum(loan.bytes_per_s for loan in mine)

    def _note(self, event: Event) -> None:
        match event:
            case TierChanged():
                self.capacity[event.tier] = event.bytes_per_s
            case JobJoined():
                known = {key for key in self.quotas if key[0] == event.job}
                if not known:
                    self.quotas |= {(event.job, t): q for t, q in event.quotas.items()}
            case JobLeft(job=job):
                self.quotas = {key: q for key, q in self.quotas.items() if key[0] != job}
                self.bursts = {key: b for key, b in self.bursts.items() if key[0] != job}
            case BurstEnded():
                self.bursts.pop((event.job, event.burst), None)
            case _:
                pass

    def _apply(self, action: Action, *, is_checked: bool) -> None:
        match action:
            case SetQuota():
                self.quotas[action.job, action.tier] = action.bytes_per_s
            case SetBurstRate():
                self.bursts[action.job, action.burst] = action
            case Lend():
                assert action.loan not in self.loans
                self.loans[action.loan] = (action, self.now + action.expires_in_s)
            case Reclaim():
                assert self.loans.pop(action.loan)[0].job == action.job
            case _:
                pass
        if is_checked:
            self._check()

    def _check(self) -> None:
        for tier, capacity in self.capacity.items():
            if capacity > 0:
                assert self.given(tier) <= capacity * ROUNDING
                lent = sum(loan.bytes_per_s for loan, _ in self.loans.values() if loan.tier == tier)
                assert lent <= capacity * self.limits.pool.share * ROUNDING


def report(
    job: str,
    iteration: int,
    *,
    host: str = "h0",
    depth: float = 8.0,
    nbytes: float = 100e6,
    step_s: float = 1.0,
    split: dict[str, float] | None = None,
    upcoming: Sequence[float] | None = None,
    read: float | None = None,
    wait_s: float = 0.0,
    **others: float,
) -> HealthReported:
    """Return a report of a job that reads 100 MB a second for a queue of eight batches."""
    read = nbytes / (step_s + wait_s) if read is None else read
    indicators = Indicators(
        iteration=iteration,
        step_time_s=step_s,
        wait_s=wait_s,
        queue_depth=depth,
        queue_capacity=8.0,
        io_latency_s=others.pop("io_latency_s", 0.01),
        io_latency_cv=others.pop("io_latency_cv", 0.5),
        next_bytes=nbytes,
        upcoming_bytes=tuple(upcoming) if upcoming is not None else (nbytes,) * 7,
        split={"ssd": 1.0} if split is None else split,
        read_bytes_per_s=read,
        nic_bytes_per_s=read,
        **others,
    )
    return HealthReported(job=job, host=host, indicators=indicators)


def refusals(actions: Sequence[Action]) -> list[str]:
    """Return the reasons of all refusals."""
    return [action.reason for action in actions if isinstance(action, Refuse)]
