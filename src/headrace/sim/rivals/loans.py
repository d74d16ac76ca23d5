"""The elastic pool of row B3: part of a tier, lent first come first served for a few iterations."""

from __future__ import annotations

from dataclasses import dataclass

POOL_SHARE = 0.15
"""Part of each tier that stays outside ordinary quotas (row B3)."""

LOAN_ITERATIONS = 3
"""Iterations of its job until a loan is taken back (row B3)."""


@dataclass(kw_only=True, slots=True)
class Loan:
    """What one job holds of one tier's pool."""

    number: int
    bytes_per_s: float
    left: int = LOAN_ITERATIONS
    """Iterations until it is taken back."""


class FirstComePool:
    """One tier's pool; whoever asks first gets all that is free, up to what it asks for."""

    def __init__(self) -> None:
        self._loans: dict[str, Loan] = {}
        self._count = 0

    def held(self, job: str) -> Loan | None:
        """Return a job's loan, if it has one."""
        return self._loans.get(job)

    def lend(self, job: str, wanted: float, *, pool: float) -> Loan | None:
        """Lend up to ``wanted`` of what is free [B/s]; None when nothing is."""
        free = pool - sum(loan.bytes_per_s for loan in self._loans.values())
        granted = min(wanted, free)
        if granted <= 0 or job in self._loans:
            return None
        self._count += 1
        self._loans[job] = Loan(number=self._count, bytes_per_s=granted)
        return self._loans[job]

    def reclaim(self, job: str) -> Loan | None:
        """Take a job's loan back, if it has one."""
        return self._loans.pop(job, None)
