"""What a simulated run amounted to: the figures that policies are compared by."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from headrace.policy.reservation.events import Diagnosed, Lend, Mode, Refuse, SetReordering
from headrace.policy.reservation.fairness import jain_index, max_min_regret
from headrace.sim.borrowing import Borrowing, borrowing
from headrace.sim.confusion import AFTERMATH_S, Confusion, Statement, Stretch, confusion
from headrace.sim.episode import MODES
from headrace.sim.recording import Recording

HOUR_S = 3600.0


class ModeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What happened while one thing was wrong."""

    iterations: int
    failures_per_hour: float
    """Per job and hour of the whole run, so that modes add up."""
    idle_share: float
    """Of all idle wait."""
    idle_wait_s: float
    """Mean over the iterations of this mode [s]."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One policy's run."""

    iterations: int
    idle_wait_s: float
    """Per iteration: how long the accelerators stood still for its batch [s]."""
    idle_share: float
    """Idle wait over all time between first and last step."""
    failures_per_hour: float
    """Batches that were not there when asked for, per job."""
    samples_per_s: float
    """Over all jobs."""
    job_speed: dict[str, float]
    """Each job's steps per second over what it would do if it never waited."""
    jain_index: float
    """Of the jobs' speeds."""
    modes: dict[str, ModeFigures]
    borrowing: dict[str, Borrowing]
    """By tier."""
    loans: int
    refusals: int
    reorderings: int
    """How often the reads of a job began to be reordered."""
    quota_changes: int
    bursts_late: int
    bursts: int
    diagnosis: Confusion


def figures_of(
    recording: Recording, *, settled_s: float = 0.0, aftermath_s: float = AFTERMATH_S
) -> Figures:
    """Return the figures of one run.

    Args:
        recording: What happened.
        settled_s: Alarms before are not false [s].
        aftermath_s: For so long after an episode its cause may still be named [s].
    """
    waited_s, busy_s = float(recording.wait_s.sum()), float(recording.step_s.sum())
    speed = _speeds(recording)
    samples = np.asarray(recording.batch_samples)[recording.job].sum()
    job_hours = len(recording.jobs) * recording.duration_s / HOUR_S
    actions = [action for _, action in recording.actions]
    counted_as = recording.mode
    return Figures(
        iterations=recording.job.size,
        idle_wait_s=_mean(recording.wait_s),
        idle_share=waited_s / (waited_s + busy_s) if busy_s > 0 else 0.0,
        failures_per_hour=float(recording.failed.sum()) / job_hours,
        samples_per_s=float(samples) / recording.duration_s,
        job_speed=speed,
        jain_index=jain_index(list(speed.values())),
        modes={
            mode: _mode_figures(recording, counted_as == code) for code, mode in enumerate(MODES)
        },
        borrowing=borrowing(recording.actions, _asked(recording)),
        loans=sum(isinstance(action, Lend) for action in actions),
        refusals=sum(isinstance(action, Refuse) for action in actions),
        reorderings=sum(isinstance(action, SetReordering) and action.enabled for action in actions),
        quota_changes=recording.quota_changes,
        bursts_late=sum(late_s > 0 for late_s in recording.bursts_late_s),
        bursts=len(recording.bursts_late_s),
        diagnosis=confusion(
            list(_stretches(recording)),
            list(_statements(recording)),
            from_s=settled_s,
            until_s=recording.duration_s,
            aftermath_s=aftermath_s,
        ),
    )


def regret(figures: Figures, bound: Figures) -> float:
    """Return the largest part of its due speed that a job lacks, against another run of it."""
    jobs = sorted(bound.job_speed)
    return max_min_regret(
        [figures.job_speed[job] for job in jobs], [bound.job_speed[job] for job in jobs]
    )


def _mode_figures(recording: Recording, chosen: npt.NDArray[np.bool_]) -> ModeFigures:
    waits = recording.wait_s[chosen]
    total_s = float(recording.wait_s.sum())
    job_hours = len(recording.jobs) * recording.duration_s / HOUR_S
    return ModeFigures(
        iterations=int(chosen.sum()),
        failures_per_hour=float(recording.failed[chosen].sum()) / job_hours,
        idle_share=float(waits.sum()) / total_s if total_s > 0 else 0.0,
        idle_wait_s=_mean(waits),
    )


def _speeds(recording: Recording) -> dict[str, float]:
    """Return each job's busy time over busy and idle time; 0 for one that never began."""
    count = len(recording.jobs)
    busy_s = np.bincount(recording.job, weights=recording.step_s, minlength=count)
    idle_s = np.bincount(recording.job, weights=recording.wait_s, minlength=count)
    speed = np.divide(busy_s, busy_s + idle_s, out=np.zeros(count), where=busy_s > 0)
    return dict(zip(recording.jobs, speed.tolist(), strict=True))


def _asked(recording: Recording) -> dict[str, npt.NDArray[np.float64]]:
    asked_s = recording.begun_s - recording.wait_s
    return {job: asked_s[recording.job == number] for number, job in enumerate(recording.jobs)}


def _stretches(recording: Recording) -> Iterator[Stretch]:
    """Yield the runs of iterations of one job of which one thing is true; they may overlap."""
    for number, job in enumerate(recording.jobs):
        rows = np.flatnonzero(recording.job == number)
        for code, mode in enumerate(MODES):
            true = recording.truths[rows] & 1 << code != 0
            for part in np.split(rows, np.flatnonzero(np.diff(true)) + 1):
                if part.size and recording.truths[part[0]] & 1 << code:
                    yield _stretch(recording, job, mode, part)


def _stretch(recording: Recording, job: str, mode: Mode, rows: npt.NDArray[np.intp]) -> Stretch:
    first, last = rows[0], rows[-1]
    return Stretch(
        job=job,
        mode=mode,
        begin_s=float(recording.begun_s[first] - recording.wait_s[first]),
        end_s=float(recording.begun_s[last] + recording.step_s[last]),
        hurt=bool(recording.failed[rows].any()),
    )


def _statements(recording: Recording) -> Iterator[Statement]:
    for at_s, action in recording.actions:
        if isinstance(action, Diagnosed):
            yield Statement(job=action.job, mode=action.mode, at_s=at_s)


def _mean(values: npt.NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else 0.0
