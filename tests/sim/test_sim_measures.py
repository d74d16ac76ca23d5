"""Figures of a run, by hand and on a small world."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.policy.reservation.events import Diagnosed, SetReordering
from headrace.sim.measures import Figures, figures_of, regret
from headrace.sim.recording import Recording


def _recording(**changes: Any) -> Recording:
    """Two jobs, two iterations each; the second of ``b`` is a cold start that waited 1 s."""
    values: dict[str, Any] = {
        "jobs": ("a", "b"),
        "batch_samples": (10, 20),
        "duration_s": 3600.0,
        "job": np.array([0, 1, 0, 1], dtype=np.int32),
        "begun_s": np.array([10.0, 10.0, 12.0, 13.0]),
        "wait_s": np.array([0.0, 0.0, 0.0, 1.0]),
        "failed": np.array([False, False, False, True]),
        "step_s": np.full(4, 2.0),
        "iteration": np.array([0, 0, 1, 1], dtype=np.int32),
        "truths": np.array([0, 0, 0, 1 << 1], dtype=np.int32),
        "nbytes": np.full(4, 100.0),
        "hit_rate": np.ones(4),
        "actions": (),
        "quota_changes": 7,
        "read_bytes": {"ssd": 400.0},
        "lost_bytes": 0.0,
        "queued_bytes": 0.0,
        "bursts_late_s": (0.0, 3.0),
    }
    return Recording(**(values | changes))


def test_figures_are_means_over_iterations_and_rates_per_job_and_hour() -> None:
    found = figures_of(_recording())
    assert found.iterations == 4
    assert found.idle_wait_s == 0.25
    assert found.idle_share == pytest.approx(1 / 9)
    assert found.failures_per_hour == 0.5
    assert found.samples_per_s == pytest.approx(60 / 3600)
    assert found.job_speed == {"a": 1.0, "b": pytest.approx(0.8)}
    assert (found.bursts, found.bursts_late, found.quota_changes) == (2, 1, 7)


def test_what_went_wrong_is_told_apart_by_the_iterations_labels() -> None:
    modes = figures_of(_recording()).modes
    assert modes["cold-start"].failures_per_hour == 0.5
    assert modes["cold-start"].idle_share == 1.0
    assert modes["none"].failures_per_hour == 0.0
    assert sum(mode.iterations for mode in modes.values()) == 4


def test_a_diagnosis_is_compared_with_the_labels_of_its_job() -> None:
    said = Diagnosed(job="b", score=20.0, level="danger", mode="cold-start", reason="")
    reordered = SetReordering(job="b", enabled=True, reason="")
    found = figures_of(_recording(actions=((12.5, said), (12.6, reordered))))
    assert found.diagnosis.counts["cold-start"]["cold-start"] == 1
    assert found.reorderings == 1


def test_regret_is_what_the_worst_off_job_lacks_of_its_due() -> None:
    def with_speeds(**speeds: float) -> Figures:
        found = figures_of(_recording())
        return type(found)(**{name: getattr(found, name) for name in found.__struct_fields__}
                           | {"job_speed": speeds})  # fmt: skip

    assert regret(with_speeds(a=0.9, b=0.5), with_speeds(a=0.9, b=1.0)) == pytest.approx(0.5)


def test_a_run_in_which_nothing_began_has_figures_too() -> None:
    empty = {
        name: getattr(_recording(), name)[:0]
        for name in ("job", "begun_s", "wait_s", "failed", "step_s", "iteration", "truths",
                     "nbytes", "hit_rate")
    }  # fmt: skip
    found = figures_of(_recording(**empty))
    assert (found.iterations, found.idle_wait_s, found.idle_share) == (0, 0.0, 0.0)
