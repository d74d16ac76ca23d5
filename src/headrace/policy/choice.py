"""Whose turn it is: the sample to start next, what to reserve for it, and who makes room."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from headrace.policy.item import Item
from headrace.policy.memory_shares import MemoryShares
from headrace.policy.window import JobWindow
from headrace.policy.worker_shares import WorkerShares

Jobs: TypeAlias = Mapping[str, JobWindow]

_LARGEST_GUESS = 4
"""What was learned reserves at most this part of the budget; a result that needs more asks."""


def next_to_start(
    jobs: Jobs, workers: WorkerShares, *, blocked: Collection[str], now: float
) -> tuple[JobWindow, Item] | None:
    """Return the sample to start next and its job; None when nothing is to be started.

    Args:
        jobs: All jobs.
        workers: Who used the workers lately; whoever had too much comes after the others.
        blocked: Jobs whose next sample found no memory.
        now: Monotonic time [s].
    """
    found = [
        (job, candidate)
        for job in jobs.values()
        if job.name not in blocked and (candidate := job.candidate(now)) is not None
    ]
    if not found:
        return None
    rivals = [job.name for job, _ in found]
    job, (_, _, item) = min(
        found, key=lambda f: (workers.is_ahead(f[0].name, rivals, now), *f[1][:2])
    )
    return job, item


def reservation(job: JobWindow, item: Item, budget: int) -> int:
    """Return the memory to reserve before an item starts [bytes].

    One huge result must not make all its kind look too large for the budget.
    """
    foreseen = item.planned.nbytes
    learned = job.estimates.nbytes(item.planned.kind, foreseen)
    return min(learned, max(foreseen, budget // _LARGEST_GUESS))


def job_to_yield(
    jobs: Jobs, memory: MemoryShares, item: Item, *, nbytes: int, now: float
) -> JobWindow | None:
    """Return the job whose latest ready sample is to be dropped for ``nbytes`` of ``item``.

    Its own job, when that keeps something less urgent; else the job furthest beyond its
    share, if ``item``'s job stays within its own and does not need the same sooner. A silent job
    has no share.
    """
    job = jobs[item.visit.job]
    own = job.latest_ready()
    if own is not None and own.visit.step > item.visit.step:
        return job
    awake = sum(not other.is_silent(now) for other in jobs.values())
    excess = {
        name: memory.excess(name, 0 if other.is_silent(now) else awake)
        for name, other in jobs.items()
    }
    if excess[job.name] + nbytes > 0:
        return None
    others = [
        (excess[name], name)
        for name, other in jobs.items()
        if excess[name] > 0
        and (ready := other.latest_ready()) is not None
        and not _is_needed_sooner(ready, item)
    ]
    return jobs[max(others)[1]] if others else None


def _is_needed_sooner(ready: Item, item: Item) -> bool:
    """Return whether ``item``'s job shares what lies ready, for a step not after ``item``'s."""
    sharers = ready.result.items if ready.result else []
    return any(
        sharer.visit.job == item.visit.job and sharer.visit.step <= item.visit.step
        for sharer in sharers
    )
