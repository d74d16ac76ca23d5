"""Who used the workers lately, so that no job keeps the others from them."""

from __future__ import annotations

_HALF_LIFE_S = 5.0
_TOLERANCE = 1.25
_FREE_S = 0.1


class WorkerShares:
    """Worker time by job, halved every five seconds."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        self._as_of = 0.0

    def spend(self, job: str, seconds: float, now: float) -> None:
        """Charge a task that starts now with its estimated cost."""
        self._decay(now)
        self._spent[job] = self._spent.get(job, 0.0) + seconds

    def is_ahead(self, job: str, rivals: list[str], now: float) -> bool:
        """Return whether a job had clearly more than an equal share among ``rivals``."""
        self._decay(now)
        mean = sum(self._spent.get(rival, 0.0) for rival in rivals) / len(rivals)
        return self._spent.get(job, 0.0) > _TOLERANCE * mean + _FREE_S

    def forget(self, job: str) -> None:
        """Drop a job that is gone."""
        self._spent.pop(job, None)

    def _decay(self, now: float) -> None:
        factor = 0.5 ** ((now - self._as_of) / _HALF_LIFE_S)
        self._as_of = now
        for job in self._spent:
            self._spent[job] *= factor
