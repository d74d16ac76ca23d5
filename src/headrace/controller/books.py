"""Carries the policy's actions out: what stands, what was lent and decided, what is journaled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

import msgspec

from headrace.controller.jobs import Jobs
from headrace.controller.journal import Journal, Kept, QuotaRow
from headrace.controller.ledger import Decisions, Ledger, Written
from headrace.controller.standing import Standing
from headrace.controller.unwritten import Table
from headrace.core.media import TierName
from headrace.policy.reservation.events import (
    Action,
    Diagnosed,
    Lend,
    Reclaim,
    Refuse,
    SetBurstRate,
    SetQuota,
    SetReordering,
)


class Books:
    """What holds and how it came about.

    Args:
        jobs: Who may hold anything.
        journal: Where it is kept.
        remember: Entries of the ledger, and decisions, that are kept.
    """

    def __init__(self, jobs: Jobs, journal: Journal, remember: int) -> None:
        self.standing = Standing()
        self.ledger = Ledger(remember, self._writes("entry"))
        self.decisions = Decisions(remember, self._writes("decision"))
        self._jobs = jobs
        self._journal = journal

    def restore(self, kept: Kept, at: float) -> None:
        """Take over what a journal has; loans that ran out meanwhile end."""
        self.ledger.restore(kept.entries)
        self.decisions.restore(kept.decisions)
        for row in kept.quotas:
            if row.job in self._jobs:
                quota = SetQuota(
                    job=row.job,
                    tier=row.tier,
                    bytes_per_s=row.bytes_per_s,
                    asked=row.asked,
                    reason=row.reason,
                )
                self.standing.quotas.setdefault(row.job, {})[row.tier] = quota
        for loan in self.ledger.open_loans():
            if loan.job not in self._jobs:
                self.ledger.end(loan, at=at, reason="its job was not known any more")
            elif loan.expires_at is not None and loan.expires_at <= at:
                reason = "its timer ran out while the controller was away"
                self.ledger.end(loan, at=at, reason=reason)

    def carry_out(self, actions: Iterable[Action], at: float) -> None:
        """Make true what the policy decided."""
        for action in actions:
            match action:
                case SetQuota():
                    self._set_quota(action, at)
                case SetBurstRate():
                    self._set_burst(action, at)
                case Lend():
                    self._lend(action, at)
                case Reclaim():
                    self.ledger.reclaim(action, at=at)
                case Refuse():
                    self.ledger.refuse(action, title=self._title(action.job), at=at)
                case SetReordering():
                    self._set_reordering(action, at)
                case Diagnosed():
                    self._diagnose(action, at)
                case _:
                    assert_never(action)

    def reconcile(self, job: str, enforced: Mapping[TierName, float], at: float) -> None:
        """Take over a job's quotas that agents enforce and nobody here knew of."""
        for tier, bytes_per_s in enforced.items():
            known = self.standing.quota(job, tier)
            if bytes_per_s > known * 1.01:
                self.decisions.note(
                    "reconciled",
                    job,
                    f"{tier} {bytes_per_s:.4g} B/s",
                    f"agents enforce it, and {known:.4g} B/s was known of",
                    at=at,
                    tier=tier,
                    bytes_per_s=bytes_per_s,
                )

    def forget_job(self, job: str, at: float) -> None:
        """Forget what a job had that ended; its loans end with it."""
        for tier in self.standing.quotas.get(job, {}):
            self._journal.drop("quota", f"{job}/{tier}")
        for loan in self.ledger.open_loans(job):
            self.ledger.end(loan, at=at, reason="its job ended")
        self.ledger.forget_job(job)
        self.standing.forget_job(job)

    def _lend(self, action: Lend, at: float) -> None:
        title, iteration = self._title(action.job), self._iteration(action.job)
        self.ledger.lend(action, title=title, iteration=iteration, at=at)

    def _set_quota(self, action: SetQuota, at: float) -> None:
        self.standing.quotas.setdefault(action.job, {})[action.tier] = action
        row = QuotaRow(
            job=action.job,
            tier=action.tier,
            bytes_per_s=action.bytes_per_s,
            asked=action.asked,
            reason=action.reason,
        )
        self._journal.put("quota", f"{action.job}/{action.tier}", row)
        self._note_rate(action, action.tier, at)

    def _set_burst(self, action: SetBurstRate, at: float) -> None:
        self.standing.bursts[action.job, action.burst] = action
        self._note_rate(action, f"{action.burst} on {action.tier}", at)

    def _note_rate(self, action: SetQuota | SetBurstRate, of: str, at: float) -> None:
        self.decisions.note(
            "quota" if isinstance(action, SetQuota) else "burst",
            action.job,
            f"{of} {action.bytes_per_s / 1e6:.4g} MB/s",
            action.reason,
            at=at,
            tier=action.tier,
            bytes_per_s=action.bytes_per_s,
        )

    def _set_reordering(self, action: SetReordering, at: float) -> None:
        if action.enabled:
            self.standing.reordering.add(action.job)
        else:
            self.standing.reordering.discard(action.job)
        what = "merge reads into runs" if action.enabled else "read as before"
        self.decisions.note("reordering", action.job, what, action.reason, at=at)

    def _diagnose(self, action: Diagnosed, at: float) -> None:
        self.standing.diagnoses[action.job] = action
        what = f"{action.level}, {action.mode}" if action.mode != "none" else action.level
        self.decisions.note("diagnosis", action.job, what, action.reason, at=at)

    def _title(self, job: str) -> str:
        return self._jobs[job].announced.title if job in self._jobs else ""

    def _iteration(self, job: str) -> int:
        report = self._jobs[job].newest_report if job in self._jobs else None
        return report.iteration if report else 0

    def _writes(self, table: Table) -> Written:
        def write(number: int, row: msgspec.Struct | None) -> None:
            if row is None:
                self._journal.drop(table, str(number))
            else:
                self._journal.put(table, str(number), row)

        return write
