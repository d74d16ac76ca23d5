"""How many copies a hot file is worth."""

from __future__ import annotations

import pytest
from hotspot_store import MB, figures, hot, stored

from headrace.core.errors import ConfigError
from headrace.policy.hotspot.events import Figures, HotFile, Wanted
from headrace.policy.hotspot.limits import HotspotLimits
from headrace.policy.hotspot.worth import Now, ceiling, plan


def planned(
    *files: HotFile, told: Figures | None = None, eta_s: float = 60.0, copies: int = 3
) -> list[Wanted]:
    """Return what files get that have so many copies and one block each."""
    now = {one.file: Now(original=copies, blocks=1) for one in files}
    return list(plan(files, now, told or figures(), eta_s=eta_s, limits=HotspotLimits()))


def test_a_file_that_a_thousand_ranks_read_gets_fifty_copies_on_an_idle_store() -> None:
    (one,) = planned(hot(readers=1000))
    assert (one.copies, one.original) == (50, 3)
    assert one.saved_s == pytest.approx(1000 / 3 - 1000 / 50)
    assert one.ready_in_s >= 3 * 3.0


def test_it_gets_twenty_while_the_nodes_are_busy_and_something_between_in_between() -> None:
    assert planned(hot(), told=figures(transfers_per_node=40.0))[0].copies == 20
    assert planned(hot(), told=figures(transfers_per_node=18.0))[0].copies == 35


def test_no_file_gets_more_copies_than_there_are_nodes() -> None:
    (one,) = planned(hot(), told=figures(nodes=7))
    assert one.copies == 7
    assert "7 nodes" in one.reason


def test_eight_readers_share_four_copies() -> None:
    (one,) = planned(hot(readers=8, size=500 * MB))
    assert one.copies == 4
    assert one.reason == "8 readers"


def test_few_readers_are_served_by_the_copies_that_are_there() -> None:
    (one,) = planned(hot(readers=6))
    assert one.copies == 3
    assert "no more than the 3 copies" in one.reason


def test_a_large_file_that_is_hot_in_a_small_part_is_left_as_it_is() -> None:
    (one,) = planned(hot(size=100_000 * MB, part=1e-4, readers=100), eta_s=1e5)
    assert one.copies == one.original == 3
    assert "the store copies whole files" in one.reason


def test_where_agents_keep_only_hot_bytes_such_a_file_is_worth_it() -> None:
    told = figures(replicates=False, nodes=8, blocks_per_s=float("inf"))
    (one,) = planned(
        hot(size=100_000 * MB, part=1e-4, readers=100), told=told, eta_s=10.0, copies=0
    )
    assert one.copies == 8


def test_a_raise_that_saves_nothing_worth_speaking_of_is_left() -> None:
    (one,) = planned(hot(size=1000, readers=64))
    assert one.copies == 3
    assert "would save" in one.reason


def test_only_copies_that_are_there_in_time_are_made() -> None:
    slow = figures(blocks_per_s=1.0)
    (soon,) = planned(hot(size=10 * MB, readers=100), told=slow, eta_s=10.0)
    assert 3 < soon.copies < 50
    assert soon.ready_in_s <= 10.0 + 100 * 0.1 / 3 / 2
    assert "10 s left" in soon.reason
    (late,) = planned(hot(size=10 * MB, readers=100), told=slow, eta_s=0.0)
    assert late.copies == 3
    assert "in time" in late.reason


def test_files_share_the_throttle_and_what_gains_most_comes_first() -> None:
    slow = figures(blocks_per_s=1.0)
    small, large = hot("small", readers=1000), hot("large", part=0.01, readers=1000)
    first, second = planned(large, small, told=slow, eta_s=30.0)
    assert (first.file, second.file) == (stored("small"), stored("large"))
    assert first.copies == 50
    assert second.copies == 3


def test_copies_take_a_part_of_the_free_space_at_most() -> None:
    told = figures(free_bytes=10 * 400 * MB)
    first, second = planned(hot("a"), hot("b"), told=told)
    assert (first.copies, second.copies) == (7, 3)
    assert "free space" in first.reason


def test_a_full_store_is_left_alone() -> None:
    assert planned(hot(), told=figures(free_bytes=0.0))[0].copies == 3


def test_a_file_that_has_more_copies_than_anybody_needs_keeps_them() -> None:
    assert planned(hot(), copies=80)[0].copies == 80


def test_a_store_without_nodes_allows_nothing() -> None:
    assert ceiling(figures(nodes=0), HotspotLimits()) == 0
    assert planned(hot(), told=figures(nodes=0))[0].copies == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"readers_per_copy": 0.0},
        {"idle_ceiling": 10},
        {"most_growth": 1},
        {"usual_missing": -1},
        {"busy_transfers": 1.0},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="hotspot"):
        HotspotLimits(**wrong)  # type: ignore[arg-type]
