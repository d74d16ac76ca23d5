"""One job in the arbiter's books: what it is like, what it needs, what it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headrace.core.media import Media, TierName
from headrace.policy.reservation.diagnosis import NOTHING, Diagnosis
from headrace.policy.reservation.division import LEAST_PART
from headrace.policy.reservation.events import (
    Action,
    Diagnosed,
    JobJoined,
    Level,
    Mode,
    SetReordering,
)
from headrace.policy.reservation.foresight import Foresight, Outlook
from headrace.policy.reservation.hosts import Hosts, Reading
from headrace.policy.reservation.limits import ReservationLimits
from headrace.policy.reservation.reorder import Reordering
from headrace.policy.reservation.tiers import TierRegulators

_SILENT_STEPS = 5.0
"""A job with long steps is not silent before so many are missing."""

_BLAMED_PART = 0.3
"""Part of its bytes that a tier must give to be blamed for congestion where there is no link."""


class Account:
    """What the arbiter knows of one job.

    Args:
        joined: How it announced itself.
        limits: The arbiter's.
        media: Tier → medium, kept up to date by the arbiter.
        now: When it joined [s].
    """

    def __init__(
        self,
        joined: JobJoined,
        limits: ReservationLimits,
        media: Mapping[TierName, Media],
        now: float,
    ) -> None:
        self.joined = joined
        self.job = joined.job
        """Its name."""
        self.hosts = Hosts(joined.hosts, limits.health, limits.diagnosis)
        self.quotas: dict[TierName, float] = dict(joined.quotas)
        """In force, loans and spare included [B/s]."""
        self.asked: dict[TierName, float] = {}
        """What it wants, as far as it is known [B/s]."""
        self.musts: dict[TierName, float] = {}
        """What its known deadlines need [B/s]."""
        self.reading: Reading | None = None
        self.heard_at = now + joined.begins_in_s
        """When it was heard of last, or will begin [s]."""
        self.score = 100.0
        self.level: Level = "healthy"
        self.diagnosis: Diagnosis = NOTHING
        self.reason = ""
        self.reasons: dict[TierName, str] = {}
        """Why each quota is what it is."""
        self.divided: dict[TierName, float] = {}
        """What it asked for when quotas were last divided [B/s]."""
        self.is_missed = False
        """It was silent when quotas were last divided, and was given for nothing."""
        self.refusals: set[TierName] = set()
        """Where it was told already that it is lent nothing."""
        self._limits = limits
        self._media = media
        self._foresight = Foresight(limits.foresight, joined, now)
        self._regulators: TierRegulators | None = None
        self._regulated: dict[TierName, Media] = {}
        self._forecast: dict[TierName, float] = {}
        self._mean_use: dict[TierName, float] = {}
        self._unregulated = 0
        self._is_corrected = False
        self._reordering = Reordering(limits.reorder)

    @property
    def data_path(self) -> str:
        """What its runs have in common."""
        return self.joined.data_path or self.job

    @property
    def mode(self) -> Mode:
        """Why it is in need."""
        return self.diagnosis.mode

    @property
    def iteration(self) -> int:
        """Its newest iteration that is over; -1 before the first."""
        return self.reading.iteration if self.reading else -1

    @property
    def step_time_s(self) -> float:
        """Time of one step, measured or announced; 0 when not known [s]."""
        measured = self.reading.step_time_s if self.reading else 0.0
        return measured or self.joined.step_time_s

    @property
    def is_reordering(self) -> bool:
        """Whether its reads are merged into sequential runs."""
        return self._reordering.enabled

    @property
    def split(self) -> Mapping[TierName, float]:
        """Parts of its bytes by tier, smoothed; empty while not known."""
        return self._foresight.split

    def used(self, tier: TierName) -> float:
        """Return what it read from a tier in its newest iteration [B/s]."""
        if self.reading is None:
            return 0.0
        return self.reading.read_bytes_per_s * self.reading.split.get(tier, 0.0)

    def next_run(self, joined: JobJoined, now: float) -> Account:
        """Return the books of its next run: what was learnt of the job is kept, and nothing else.

        A run that begins does not know how long its steps will take, nor where its bytes lie.
        """
        learnt = replace(
            joined,
            step_time_s=joined.step_time_s or self.step_time_s,
            split=joined.split or dict(self.split),
        )
        following = Account(learnt, self._limits, self._media, now)
        following.hosts = self.hosts.of_next_run(joined.hosts)
        return following

    def is_silent(self, now: float) -> bool:
        """Return whether nothing was heard of it for long: it stands still, or is dead.

        One that waits for data is not silent: its hosts report that they wait.
        """
        patience_s = max(self._limits.silent_s, _SILENT_STEPS * self.step_time_s)
        return now > self.heard_at + patience_s

    def rejoin(self, joined: JobJoined) -> None:
        """Take another weight, other guarantees or another number of hosts."""
        self.joined = joined
        self.hosts.expect(joined.hosts)

    def forget(self, tier: TierName) -> None:
        """Forget what it had on a tier that is gone."""
        for books in (self.quotas, self.asked, self.musts, self.reasons, self.divided):
            books.pop(tier, None)
        self.refusals.discard(tier)

    @property
    def is_preparing(self) -> bool:
        """Whether its needs follow from what it announced, for it has not reported yet."""
        return self.reading is None

    def blames(self, tier: TierName) -> bool:
        """Return whether it suffers congestion there: on its links, if its bytes cross any."""
        if self.mode != "congestion":
            return False
        crossed = [t for t, part in self.split.items() if part > LEAST_PART]
        links = [t for t in crossed if self._media.get(t) == "link"]
        return tier in links if links else self.split.get(tier, 0.0) > _BLAMED_PART

    def is_transform_bound_in_need(self, tier: TierName) -> bool:
        """Return whether it would borrow on a tier if that could help it."""
        in_need = self.score < self._limits.lend_below
        return in_need and self.mode == "transform-bound" and self.used(tier) > 0

    def outlook(self, now: float) -> Outlook:
        """Return what it needs from now on."""
        return self._foresight.outlook(now)

    def end_iteration(self, now: float) -> list[Action]:
        """Take in the iteration that its hosts ended; return what changed in its state."""
        before, self.heard_at = self.iteration, now
        self.reading = self.hosts.reading()
        self._foresight.observe(self.reading)
        actions = self._judge()
        self._reckon(max(self.iteration - before, 1) if before >= 0 else 1, now)
        return actions

    def _judge(self) -> list[Action]:
        worst = self.hosts.worst()
        was = (self.level, self.mode)
        self.score, self.level = worst.health.score, worst.health.level
        self.diagnosis = worst.diagnosis
        actions: list[Action] = []
        if (self.level, self.mode) != was:
            self.reason = worst.diagnosis.reason or worst.health.reason
            actions.append(
                Diagnosed(
                    job=self.job,
                    score=self.score,
                    level=self.level,
                    mode=self.mode,
                    reason=self.reason,
                )
            )
        return actions + self._reorder()

    def _reorder(self) -> list[Action]:
        parts = self.reading.split if self.reading else {}
        disks = sum(part for tier, part in parts.items() if self._media.get(tier) == "hdd")
        decision = self._reordering.observe(self.score, hdd_share=min(disks, 1.0))
        if not decision.changed:
            return []
        return [SetReordering(job=self.job, enabled=decision.enabled, reason=decision.reason)]

    def forecast(self, now: float) -> None:
        """Reckon what it needs before its first iteration is over.

        Until then, quotas that were in force before a restart are taken for its needs.
        """
        if self.reading is not None:
            return
        if self.joined.quotas:
            self.asked = dict(self.joined.quotas)
        elif self._limits.predictive:
            outlook = self.outlook(now)
            self.musts = {tier: outlook.musts(tier) for tier in self._media}
            self.asked = {tier: outlook.wants(tier) for tier in self._media}

    def _reckon(self, iterations: int, now: float) -> None:
        """Reckon what it must have and what it wants, from its schedule and its health."""
        self._unregulated += iterations
        if not self._limits.predictive:
            self.asked = self._kept_in_use(self._wished())
        else:
            wished = self._wished() if self._needs_regulation() else {}
            outlook = self.outlook(now)
            self.musts = {tier: outlook.musts(tier) for tier in self._media}
            factors = {tier: self._correction(tier, wish) for tier, wish in wished.items()}
            self._is_corrected = max(factors.values(), default=1.0) > 1.0
            self._forecast = {tier: outlook.wants(tier) for tier in self._media}
            self.asked = {t: want * factors.get(t, 1.0) for t, want in self._forecast.items()}
        if self.mode == "transform-bound":
            self._shrink_to_use(self._limits.use_margin, self._media)
        elif self.mode == "congestion":
            beside = [tier for tier in self._media if not self.blames(tier)]
            self._shrink_to_use(3.0 * self._limits.use_margin, beside)

    def _needs_regulation(self) -> bool:
        """Return whether health may correct the forecast: it only ever raises it."""
        regulator = self._limits.regulator
        return self.score < regulator.target + regulator.dead_band or self._is_corrected

    def _wished(self) -> dict[TierName, float]:
        """Return what its regulators make of its health [B/s].

        They count from what was granted of what it asked for, not from the spare it happens
        to have: nobody else may want that now, but it is not its own. New ones take over when
        the estate's tiers change; they begin with what is in force.
        """
        if self._regulators is None or self._regulated != self._media:
            self._regulated = dict(self._media)
            self._regulators = TierRegulators(self._regulated, self._limits.regulator)
        assert self.reading is not None
        granted = {
            tier: min(quota, self.asked.get(tier, quota)) for tier, quota in self.quotas.items()
        }
        iterations, self._unregulated = self._unregulated, 0
        adjustments = self._regulators.adjust(
            self.score, granted=granted, split=self.reading.split, iterations=iterations
        )
        return {tier: adjustment.wanted for tier, adjustment in adjustments.items()}

    def _kept_in_use(self, wished: Mapping[TierName, float]) -> dict[TierName, float]:
        """Return wishes that are not below what is used on average, and a margin.

        A job that others' spare keeps well would otherwise give away, a fifth at a time, what
        it lives on, and would have to ask for it again, a fifth at a time, once that is gone.
        While it is tight it wants up to twice as much: what its quota lacks, the pool may lend.
        Of a tier that it never reads it wants nothing, whatever it was given at first.
        """
        for tier in wished:
            used = self.used(tier)
            mean = self._mean_use.get(tier, used)
            self._mean_use[tier] = mean + self._limits.foresight.size_gain * (used - mean)
        margin = 1.0 + self._limits.foresight.margin
        target = self._limits.regulator.target
        urge = (
            1.0 + max(target - self.score, 0.0) / target
            if self.score < self._limits.lend_below
            else 1.0
        )
        return {
            tier: max(wish, self._mean_use[tier] * margin) * urge if self._mean_use[tier] else 0.0
            for tier, wish in wished.items()
        }

    def _correction(self, tier: TierName, wished: float) -> float:
        """Return the factor by which health corrects the forecast of a tier's needs."""
        forecast = self._forecast.get(tier, 0.0)
        if forecast <= 0:
            return 1.0
        return min(max(wished / forecast, 1.0), self._limits.most_correction)

    def _shrink_to_use(self, margin: float, tiers: Iterable[TierName]) -> None:
        """Want no more than what is read already, and a margin: it could not use it."""
        for tier in tiers:
            most = self.used(tier) * (1.0 + margin)
            self.asked[tier] = min(self.asked.get(tier, most), most)
            self.musts[tier] = min(self.musts.get(tier, 0.0), most)
