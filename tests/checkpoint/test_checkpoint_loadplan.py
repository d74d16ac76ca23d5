"""What a start reads, by all ranks, by hosts and by the slowest rank."""

from __future__ import annotations

import pytest

from headrace.checkpoint.layout import Reading
from headrace.checkpoint.loadplan import plan_load
from headrace.core.errors import CallerError

READINGS = [
    Reading(file="a", offset=0, length=100, ranks=range(8), what="embedding"),
    Reading(file="a", offset=100, length=10, ranks=range(2, 4), what="first"),
    Reading(file="b", offset=0, length=30, ranks=range(7, 8), what="last"),
]


def test_bytes_are_added_up_by_ranks_hosts_and_once() -> None:
    plan = plan_load(READINGS, world_size=8, hosts=4)
    assert plan.bytes_by_ranks == 8 * 100 + 2 * 10 + 30
    assert plan.bytes_once_per_host == 4 * 100 + 10 + 30
    assert plan.bytes_once == 140
    assert (plan.slowest_rank, plan.slowest_rank_bytes) == (7, 130)
    assert plan.mean_rank_bytes == 850 / 8
    assert [(part.what, part.readers) for part in plan.ranges] == [
        ("embedding", 8),
        ("first", 2),
        ("last", 1),
    ]


def test_the_last_host_may_have_fewer_ranks() -> None:
    assert plan_load(READINGS, world_size=8, hosts=3).bytes_once_per_host == 3 * 100 + 2 * 10 + 30


def test_more_hosts_than_ranks_are_refused() -> None:
    with pytest.raises(CallerError, match="8 ranks cannot be on 9 hosts"):
        plan_load(READINGS, world_size=8, hosts=9)
