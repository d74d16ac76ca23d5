"""The message about one host: its shares, its tiers and its length."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from headrace.client.reporting.figures import Figures
from headrace.client.reporting.origins import Origins
from headrace.client.reporting.portions import Portions
from headrace.client.reporting.report import encoded, health_report
from headrace.wire.control import MOST_REPORT_BYTES, HealthReport

AMOUNT = st.integers(0, 2**62)
TIME = st.floats(0, 1e12)
TIERS = st.dictionaries(st.text("abcdefgh-", max_size=24), AMOUNT, max_size=12)


def figures(**changes: object) -> Figures:
    values: dict[str, object] = {
        "iteration": 5,
        "step": 9,
        "step_time_s": 1.0,
        "wait_s": 0.25,
        "queue_depth": 3.0,
        "queue_capacity": 8.0,
        "latency_s": 0.0123456,
        "latency_cv": 0.5,
        "upcoming_bytes": (100, 200, 300),
    }
    return Figures(**{**values, **changes})  # type: ignore[arg-type]


def report_of(*told: Figures, origins: Origins | None = None) -> HealthReport:
    """Return the report of the last figures, after those before."""
    portions = Portions()
    for one in told:
        portions.note(one)
    return health_report(
        told[-1], origins or Origins(), portions, host="h", boot="b", ranks=2, interval_s=2.0
    )


@seed(5)
@given(
    st.builds(
        Figures,
        iteration=AMOUNT,
        step=AMOUNT,
        step_time_s=TIME,
        wait_s=TIME,
        queue_depth=TIME,
        queue_capacity=TIME,
        latency_s=TIME,
        latency_cv=TIME,
        upcoming_bytes=st.lists(AMOUNT, max_size=8).map(tuple),
        queued_s=TIME,
        cores_s=TIME,
        throttled_s=TIME,
        read_s=TIME,
        transform_s=TIME,
        tier_bytes=TIERS,
        hit_bytes=st.just({}),
        cache_bytes=AMOUNT,
        direct_bytes=AMOUNT,
        wire_bytes=AMOUNT,
    )
)
def test_a_report_is_shorter_than_a_kilobyte_and_its_shares_are_shares(told: Figures) -> None:
    origins = Origins()
    origins.note(told)
    portions = Portions()
    portions.note(told)
    report = health_report(
        told, origins, portions, host="h" * 80, boot="b" * 16, ranks=10_000, interval_s=1e-3
    )
    body = encoded(report)
    assert len(body) < MOST_REPORT_BYTES
    again = msgspec.json.decode(body, type=HealthReport)
    for share in (again.queue_share, again.throttled_share, again.transform_share, again.hit_rate):
        assert 0 <= share <= 1
    assert sum(again.split.values()) <= 1.01


def test_shares_are_of_the_time_of_reads() -> None:
    report = report_of(figures(queued_s=1.0, throttled_s=2.0, read_s=5.0, transform_s=2.0))
    assert report.queue_share == 0.125
    assert report.throttled_share == 0.25
    assert report.transform_share == 0.2


def test_waiting_for_cores_is_work_of_cores() -> None:
    report = report_of(figures(queued_s=1.0, cores_s=4.0, read_s=1.0, transform_s=2.0))
    assert report.queue_share == 0.5
    assert report.transform_share == 0.75


def test_a_report_that_read_nothing_tells_where_the_time_of_the_one_before_went() -> None:
    read = figures(queued_s=1.0, throttled_s=1.0, read_s=2.0, transform_s=4.0)
    stalled = report_of(read, figures())
    assert (stalled.queue_share, stalled.throttled_share) == (0.25, 0.25)
    assert stalled.transform_share == 0.5
    held = report_of(read, figures(throttled_s=3.0))
    assert (held.queue_share, held.throttled_share) == (0.0, 1.0)


def test_rates_are_per_second_since_the_report_before() -> None:
    report = report_of(figures(tier_bytes={"hdd": 600}, direct_bytes=400, wire_bytes=1000))
    assert report.read_bytes_per_s == 500
    assert report.nic_bytes_per_s == 700
    assert report.agent_bytes_per_s == 500
    assert report.direct_bytes == {"hdd": 400}


def test_the_next_batch_is_told_apart_from_those_after_it() -> None:
    report = report_of(figures())
    assert report.next_bytes == 100
    assert report.upcoming_bytes == (200, 300)


def test_bytes_that_nobody_names_a_tier_of_are_of_the_hard_disks() -> None:
    assert report_of(figures(tier_bytes={"": 10})).split == {"hdd": 1.0}


def test_own_reads_belong_to_the_tier_that_agents_read_where_no_cache_helps() -> None:
    origins = Origins()
    told = figures(
        tier_bytes={"ssd": 900, "archive": 100},
        hit_bytes={"ssd": 900},
        cache_bytes=1000,
        direct_bytes=1000,
    )
    origins.note(told)
    report = report_of(told, origins=origins)
    assert report.direct_bytes == {"archive": 1000}
    assert report.split == {"archive": 0.55, "ssd": 0.45}
    assert report.hit_rate == 0.45


def test_own_reads_belong_to_the_tier_that_was_named_whatever_agents_read() -> None:
    origins = Origins("nvme")
    told = figures(tier_bytes={"archive": 300}, direct_bytes=100)
    origins.note(told)
    report = report_of(told, origins=origins)
    assert report.direct_bytes == {"nvme": 100}
    assert report.split == {"archive": 0.75, "nvme": 0.25}


def hit_rates(*told: Figures) -> list[float]:
    """Return what a host reports after each of these."""
    origins, rates = Origins(), []
    for one in told:
        origins.note(one)
        rates.append(report_of(one, origins=origins).hit_rate)
    return rates


def test_where_there_is_no_cache_nothing_is_missed() -> None:
    assert hit_rates(figures(tier_bytes={"hdd": 10}), figures(direct_bytes=10)) == [1.0, 1.0]


def test_a_cache_that_was_never_hit_has_a_hit_rate_of_nothing() -> None:
    missed = figures(tier_bytes={"hdd": 10}, cache_bytes=10)
    assert hit_rates(missed, missed) == [0.0, 0.0]


def test_a_report_that_read_nothing_tells_the_hit_rate_of_the_one_before() -> None:
    half = figures(tier_bytes={"hdd": 5, "ssd": 5}, hit_bytes={"ssd": 5}, cache_bytes=10)
    assert hit_rates(half, figures(), figures(direct_bytes=10)) == [0.5, 0.5, 0.0]


def test_distant_batches_are_left_out_where_there_is_no_room() -> None:
    report = report_of(figures(upcoming_bytes=tuple([2**62] * 8)))
    long = msgspec.structs.replace(report, host="h" * 520)
    told = msgspec.json.decode(encoded(long), type=HealthReport)
    assert 0 < len(told.upcoming_bytes) < 7
    assert told.upcoming_bytes == report.upcoming_bytes[: len(told.upcoming_bytes)]


def test_measured_numbers_have_four_digits() -> None:
    assert report_of(figures()).io_latency_s == pytest.approx(0.01235)
