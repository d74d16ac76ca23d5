"""What all contenders have in common is found out once."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from headrace.core.strict import convert
from headrace.sim.contest import run_contest
from headrace.sim.ground import PREPARING, prepare
from headrace.sim.job import Batches
from headrace.sim.scenario import Scenario

GROUP = {
    "batch_size": 16,
    "step_time_s": 2.0,
    "sample_bytes": 1e6,
    "dataset_samples": 2000,
    "initialise_s": [1, 2],
}
DOCUMENT: dict[str, Any] = {
    "title": "two",
    "days": 0.01,
    "hardware": {"ssd": {}, "hdd": {}, "links": {"wan": 1e9}},
    "groups": {"near": GROUP | {"count": 2}, "far": GROUP | {"count": 1, "link": "wan"}},
}


@pytest.fixture
def scenario() -> Scenario:
    return convert(DOCUMENT, Scenario, source="test")


def test_batches_are_the_same_however_many_processes_compute_them(scenario: Scenario) -> None:
    told: list[float] = []
    alone, together = prepare(scenario), prepare(scenario, processes=2, tell=told.append)
    assert together.needs == alone.needs
    for ours, theirs in zip(alone.batches, together.batches, strict=True):
        assert ours.ahead(0, 400) == theirs.ahead(0, 400)
    assert told == sorted(told)
    assert told[-1] == pytest.approx(scenario.duration_s)


def test_a_prepared_run_computes_no_schedule(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    extended: list[int] = []
    extend = Batches._extend
    monkeypatch.setattr(Batches, "_extend", lambda own: extended.append(1) or extend(own))
    seen: list[tuple[str, int]] = []
    run_contest(scenario, ["static"], seen=lambda name, _: seen.append((name, len(extended))))
    assert {count for name, count in seen if name == "static"} == {len(extended)}
    assert seen[0][0] == PREPARING


def test_batches_travel_without_the_sizes_of_samples(scenario: Scenario) -> None:
    batches = prepare(scenario).batches[0]
    pickled = pickle.dumps(batches)
    assert len(pickled) < 8 * 2000, "what the sizes alone would take"
    again: Batches = pickle.loads(pickled)
    assert again.ahead(0, 3000) == batches.ahead(0, 3000)


def test_needs_are_what_a_job_reads_of_each_tier_when_nothing_goes_wrong(
    scenario: Scenario,
) -> None:
    needs = prepare(scenario).needs
    assert needs.keys() == {"near-0", "near-1", "far-0"}
    assert needs["far-0"]["wan"] == pytest.approx(16e6 / 2.0, rel=0.1)
    assert "wan" not in needs["near-0"]
    assert sum(needs["near-0"].values()) == pytest.approx(16e6 / 2.0, rel=0.1)
