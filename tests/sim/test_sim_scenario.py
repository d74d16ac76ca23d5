"""Scenarios are read strictly, and all that they draw follows from their seed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from headrace.core.errors import CallerError, ConfigError, NotFoundError
from headrace.core.strict import convert
from headrace.sim.episode import CheckpointBurst, CrossTraffic, Restart, Scan
from headrace.sim.injections import SETTLED_S, draw_episodes
from headrace.sim.scenario import HOUR_S, Scenario, load_scenario

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"

GROUP = {
    "count": 3,
    "batch_size": 8,
    "step_time_s": 1.0,
    "sample_bytes": 1e6,
    "dataset_samples": 1000,
}
DOCUMENT = {
    "title": "small",
    "days": 2,
    "hardware": {"ssd": {}, "hdd": {"devices": 2}, "links": {"wan": 1e8}},
    "groups": {"vision": GROUP | {"restarts_every_h": 2.0, "variety": 0.3}},
    "troubles": {"scans": {"per_day": 12}, "congestion": {"per_day": 24}},
}


def _scenario(**changes: object) -> Scenario:
    return convert(DOCUMENT | changes, Scenario, source="test")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_each_example_can_be_read_and_built(path: Path) -> None:
    scenario = load_scenario(path)
    assert scenario.estate().tiers.keys() >= {"ssd", "hdd"}
    assert len(scenario.jobs()) == sum(group.count for group in scenario.groups.values())
    assert draw_episodes(scenario)


@pytest.mark.parametrize(
    ("changes", "nearest"),
    [
        ({"troubels": {}}, "troubles"),
        ({"hardware": {"ssd": {}, "hdd": {"seeks": 1}}}, "seek_s"),
        ({"groups": {"vision": GROUP | {"batchsize": 4}}}, "batch_size"),
        ({"troubles": {"scans": {"perday": 1}}}, "per_day"),
        ({"limits": {"predictiv": False}}, "predictive"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(
    changes: dict[str, object], nearest: str
) -> None:
    with pytest.raises(ConfigError, match=f"unknown key .*did you mean '{nearest}'"):
        _scenario(**changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"days": 0}, "days"),
        ({"groups": {}}, r"at least one table \[groups.NAME\]"),
        ({"groups": {"vision": GROUP | {"link": "wam"}}}, "not in hardware.links"),
        ({"groups": {"vision": GROUP | {"count": "three"}}}, "count"),
        ({"seed": -1}, "seed"),
        ({"days": 1e-6}, "less than one quantum_s=1, or no number; simulate"),
        ({"days": float("inf")}, "test: days: inf is no number"),
        ({"hardware": {"ssd": {}, "hdd": {}, "links": {"hdd": 1e8}}}, "links.hdd has the name"),
        ({"troubles": {"checkpoints": {"tier": "sdd"}}}, "checkpoints.tier='sdd' is neither"),
        ({"limits": {"pool": {"share": 2}}}, "test: pool.share=2 must lie in"),
    ],
)
def test_a_wrong_value_is_refused_by_name(changes: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        _scenario(**changes)


def test_a_file_that_is_missing_or_no_toml_is_the_callers_fault(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"none\.toml"):
        load_scenario(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("days = = 1")
    with pytest.raises(CallerError, match="is no TOML"):
        load_scenario(broken)


def test_the_same_seed_draws_the_same_jobs_and_mishaps() -> None:
    assert _scenario().jobs() == _scenario().jobs()
    assert draw_episodes(_scenario()) == draw_episodes(_scenario())
    assert draw_episodes(_scenario()) != draw_episodes(_scenario(seed=1))


def test_mishaps_come_at_the_rate_that_is_asked_for_and_in_order() -> None:
    episodes = draw_episodes(msgspec.structs.replace(_scenario(), days=100.0))
    times = [episode.at_s for episode in episodes]
    assert times == sorted(times)
    assert times[0] >= SETTLED_S
    restarts = sum(isinstance(episode, Restart) for episode in episodes)
    assert restarts == pytest.approx(3 * 100 * 24 / 2, rel=0.1)
    assert sum(isinstance(one, Scan) for one in episodes) == pytest.approx(1200, rel=0.1)


def test_cross_traffic_comes_in_spells_of_pulses() -> None:
    congestion = {"per_day": 1, "duration_s": [200, 200], "pulse_s": [10, 20], "gap_s": [5, 5]}
    pulses = draw_episodes(
        _scenario(
            groups={"vision": GROUP},
            troubles={"congestion": congestion | {"share": [0.5, 0.5]}},
            days=200,
        )
    )
    assert all(isinstance(one, CrossTraffic) and one.bytes_per_s == 5e7 for one in pulses)
    assert all(
        10 <= one.until_s - one.at_s <= 20 for one in pulses if isinstance(one, CrossTraffic)
    )
    spells = 1 + sum(after.at_s - before.at_s > 25.1 for before, after in pairwise(pulses))
    assert spells == pytest.approx(200, rel=0.25)
    assert 9 <= len(pulses) / spells <= 14


def test_the_rate_of_one_kind_does_not_move_another() -> None:
    troubles = {"scans": {"per_day": 0}, "congestion": {"per_day": 24}}
    fewer = draw_episodes(_scenario(troubles=troubles))
    assert [one for one in draw_episodes(_scenario()) if not isinstance(one, Scan)] == list(fewer)


def test_checkpoints_come_at_even_distances_in_every_job() -> None:
    group = GROUP | {"checkpoint_every_s": HOUR_S, "checkpoint_bytes": 1e9}
    episodes = draw_episodes(_scenario(groups={"vision": group}, troubles={}))
    times = [
        one.at_s for one in episodes if isinstance(one, CheckpointBurst) and one.job == "vision-0"
    ]
    assert len(times) in (47, 48)
    assert {round(b - a) for a, b in pairwise(times)} == {3600}


def test_jobs_of_a_group_differ_by_its_variety_at_most() -> None:
    steps = [job.step_time_s for job in _scenario().jobs()]
    assert len(set(steps)) == 3
    assert all(0.7 <= step_s <= 1.3 for step_s in steps)
