"""Tiers: quotas follow where a job reads, links stand beside storage, nobody jumps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.core.media import Media
from headrace.policy.reservation.media import HDD, SSD
from headrace.policy.reservation.regulator import Adjustment, Regulator
from headrace.policy.reservation.tiers import AccessSplit, TierRegulators

MEDIA: dict[str, Media] = {"ssd": "ssd", "hdd": "hdd", "wan": "link"}
GRANTED = {"ssd": 7e8, "hdd": 3e8}
SPLIT = {"ssd": 0.7, "hdd": 0.3}

GOLDEN = [
    # score, part read from ssd → change of ssd, of hdd [%]
    (75.0, 0.7, 0.0, 0.0),
    (55.0, 0.7, 19.74, 19.74),
    (30.0, 0.4, 4.57, 20.0),
    (12.0, 0.1, 0.0, 20.0),
    (12.0, 0.1, 0.0, 20.0),
    (45.0, 0.1, -20.0, 0.0),
    (85.0, 0.5, -20.0, 0.0),
    (100.0, 0.7, -15.62, -6.69),
]
"""A job whose cache is lost: it reads ever more from hard disks, and recovers."""


def changes(adjustments: dict[str, Adjustment]) -> dict[str, float]:
    return {tier: adjustment.change for tier, adjustment in adjustments.items()}


def test_golden_trace() -> None:
    regulators, granted, seen = TierRegulators(MEDIA), dict(GRANTED), []
    for score, part, *_ in GOLDEN:
        split = {"ssd": part, "hdd": 1 - part}
        adjustments = regulators.adjust(score, granted=granted, split=split)
        granted = {tier: adjustment.wanted for tier, adjustment in adjustments.items()}
        moved = changes(adjustments)
        seen.append((score, part, round(100 * moved["ssd"], 2), round(100 * moved["hdd"], 2)))
    assert seen == GOLDEN


def test_where_quotas_lie_as_reads_do_tiers_change_by_the_weighted_sum() -> None:
    regulators = TierRegulators(MEDIA)
    alone = {"ssd": Regulator(SSD), "hdd": Regulator(HDD)}
    for score in (75.0, 65.0):
        both = changes(regulators.adjust(score, granted=GRANTED, split=SPLIT))
        single = {
            tier: regulator.adjust(score, granted=GRANTED[tier]).change
            for tier, regulator in alone.items()
        }
    weighted = 0.7 * single["ssd"] + 0.3 * single["hdd"]
    assert single["ssd"] != single["hdd"]
    assert both == {"ssd": pytest.approx(weighted), "hdd": pytest.approx(weighted)}


def test_one_tier_alone_is_regulated_as_if_there_were_no_others() -> None:
    regulators, alone = TierRegulators(MEDIA), Regulator(HDD)
    for score in (75.0, 60.0, 30.0, 80.0, 95.0):
        both = regulators.adjust(score, granted={"hdd": 1e9}, split={"hdd": 1.0})["hdd"]
        assert both.change == pytest.approx(alone.adjust(score, granted=1e9).change)


def test_a_starving_jobs_quotas_move_to_the_tier_that_it_reads_from() -> None:
    regulators, granted = TierRegulators(MEDIA), {"ssd": 9e8, "hdd": 1e8}
    for _ in range(10):
        adjustments = regulators.adjust(20, granted=granted, split={"ssd": 0.2, "hdd": 0.8})
        assert all(adjustment.change >= 0 for adjustment in adjustments.values())
        granted = {tier: adjustment.wanted for tier, adjustment in adjustments.items()}
    assert granted["hdd"] > 3e8
    assert granted["ssd"] < 9.1e8


def test_a_link_is_no_part_of_the_storage_tiers_sum() -> None:
    with_link, without = TierRegulators(MEDIA), TierRegulators(MEDIA)
    for score in (75.0, 50.0):
        linked = with_link.adjust(score, granted=GRANTED | {"wan": 1e9}, split=SPLIT | {"wan": 1.0})
        plain = without.adjust(score, granted=GRANTED, split=SPLIT)
    assert linked["wan"].change > 0
    assert {tier: linked[tier] for tier in GRANTED} == plain


def test_a_link_that_nothing_crosses_keeps_its_quota() -> None:
    regulators = TierRegulators(MEDIA)
    for score in (75.0, 20.0):
        adjustments = regulators.adjust(score, granted=GRANTED | {"wan": 1e9}, split=SPLIT)
    assert adjustments["wan"].wanted == 1e9
    assert adjustments["wan"].change == 0


def test_a_third_storage_tier_takes_part() -> None:
    regulators = TierRegulators({**MEDIA, "hdd2": "hdd"})
    granted = {"ssd": 1e8, "hdd": 1e8, "hdd2": 1e8}
    split = {"ssd": 0.2, "hdd": 0.2, "hdd2": 0.6}
    for score in (75.0, 30.0):
        adjustments = regulators.adjust(score, granted=granted, split=split)
    assert adjustments["hdd2"].change > adjustments["hdd"].change


def test_before_anything_was_read_the_quotas_themselves_are_the_weights() -> None:
    regulators = TierRegulators(MEDIA)
    for score in (75.0, 60.0):
        adjustments = regulators.adjust(score, granted=GRANTED, split={})
    assert adjustments["ssd"].change == pytest.approx(adjustments["hdd"].change)


def test_a_tier_without_a_medium_is_refused() -> None:
    with pytest.raises(ConfigError, match="'tape'"):
        TierRegulators(MEDIA).adjust(50, granted={"tape": 1e8}, split={"tape": 1.0})
    with pytest.raises(ConfigError, match="smoothing"):
        AccessSplit(smoothing=0)


parts = st.floats(0, 1)
quotas = st.floats(1e6, 1e12)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 100), parts, parts, quotas, quotas, quotas), max_size=20))
def test_no_tier_moves_by_more_than_a_fifth_and_all_move_one_way(
    trace: list[tuple[float, float, float, float, float, float]],
) -> None:
    regulators = TierRegulators(MEDIA)
    for score, part, crossing, ssd, hdd, wan in trace:
        moved = changes(
            regulators.adjust(
                score,
                granted={"ssd": ssd, "hdd": hdd, "wan": wan},
                split={"ssd": part, "hdd": 1 - part, "wan": crossing},
            )
        )
        assert all(abs(change) <= 0.2 + 1e-9 for change in moved.values())
        assert moved["ssd"] * moved["hdd"] >= 0
        if abs(75 - score) < 5:
            assert set(moved.values()) == {0.0}


@given(st.lists(parts, min_size=1, max_size=30))
def test_weights_of_storage_tiers_sum_to_1_and_follow_the_reads(seen: list[float]) -> None:
    split = AccessSplit()
    for part in seen:
        split.observe({"ssd": part, "hdd": 1 - part, "wan": part})
    weights = split.weights({"ssd": 1e8, "hdd": 1e8})
    assert sum(weights.values()) == pytest.approx(1)
    assert min(seen) - 1e-9 <= weights["ssd"] <= max(seen) + 1e-9


def test_tiers_that_were_read_once_are_forgotten() -> None:
    split = AccessSplit()
    for number in range(1000):
        split.observe({f"tier-{number}": 1.0})
    assert split.part("tier-998") > 0.0 == split.part("tier-0")
    assert len(split._parts) < 100
