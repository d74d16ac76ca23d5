"""The line between two sites: its arithmetic without a clock, and the real thing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from testbed_programs import closest, received_bytes_per_s, round_trips_s

from headrace.core.errors import CallerError
from testbed import Scenario, Testbed
from testbed.relay import Line

PACKETS = st.lists(st.tuples(st.floats(0, 0.01), st.integers(1, 65_536)), min_size=1, max_size=60)
"""Pauses before packets, and their sizes."""


def _line(**changes: float) -> Line:
    shape = {"bytes_per_s": 1e6, "delay_s": 0.02, "queue_s": 0.05} | changes
    return Line(**shape)


def _drain(line: Line, now: float) -> list[bytes]:
    packets = []
    while (packet := line.due(now)) is not None:
        packets.append(packet)
    return packets


def test_a_packet_arrives_after_its_time_on_the_line_and_the_delay() -> None:
    line = _line()
    line.take(bytes(10_000), now=5.0)
    assert line.next_at() == pytest.approx(5.03)
    assert line.due(5.0299) is None
    assert line.due(5.0301) == bytes(10_000)
    assert line.next_at() is None


def test_a_line_that_is_busy_lets_packets_wait_and_drops_what_would_wait_too_long() -> None:
    line = _line()
    taken = [line.take(bytes(10_000), now=0.0) for _ in range(10)]
    assert taken == [True] * 6 + [False] * 4
    assert line.dropped == 4


@given(PACKETS)
def test_packets_arrive_in_order_and_none_twice(packets: list[tuple[float, int]]) -> None:
    line, now, sent, arrived = _line(queue_s=10.0), 0.0, [], []
    for number, (pause, size) in enumerate(packets):
        now += pause
        packet = bytes([number]) * size
        sent.append(packet)
        assert line.take(packet, now)
        arrived += _drain(line, now)
    assert arrived + _drain(line, now + 100) == sent


@given(PACKETS)
def test_a_line_never_carries_more_than_its_rate(packets: list[tuple[float, int]]) -> None:
    line, now, taken = _line(), 0.0, 0
    for pause, size in packets:
        now += pause
        taken += size if line.take(bytes(size), now) else 0
    last = 0.0
    while (at := line.next_at()) is not None:
        last = at
        line.due(at)
    assert last >= taken / 1e6 + 0.02 - 1e-9


@given(PACKETS)
def test_a_line_never_holds_more_than_its_queue(packets: list[tuple[float, int]]) -> None:
    line, held = _line(), 0
    for _, size in packets:
        held += size if line.take(bytes(size), 0.0) else 0
    assert held <= 1e6 * 0.05 + 65_536


FAR = """
name = "far"
[[hosts]]
role = "storage"
site = "home"
[[hosts]]
role = "trainer"
site = "away"
[wan]
delay_ms = 15
rate_mbit_per_s = 160
"""


@pytest.fixture(scope="module")
def far(machine: None) -> Iterator[Testbed]:
    with Testbed(Scenario.parse(FAR)) as bed:
        yield bed


def test_a_round_trip_between_sites_takes_twice_the_delay(far: Testbed) -> None:
    storage, trainer = far.hosts["storage-1"], far.hosts["trainer-1"]
    shortest, _ = round_trips_s(storage, trainer, 20)
    assert 0.0299 < shortest < 0.0299 * 1.15


def test_the_line_carries_its_rate_and_no_more(far: Testbed) -> None:
    storage, trainer = far.hosts["storage-1"], far.hosts["trainer-1"]
    measure = partial(received_bytes_per_s, storage, trainer, 1.0, starting_s=1.0)
    rate = closest(20e6, measure)
    assert rate == pytest.approx(20e6, rel=0.15)


def test_what_crosses_the_line_is_counted_in_each_direction(far: Testbed) -> None:
    storage, trainer = far.hosts["storage-1"], far.hosts["trainer-1"]
    for sender, receiver, way in ((storage, trainer, "onwards"), (trainer, storage, "back")):
        before = far.line_bytes()
        sent_before = sender.network_bytes().sent
        received_bytes_per_s(sender, receiver, 0.3)
        crossed = getattr(far.line_bytes(), way) - getattr(before, way)
        assert crossed == pytest.approx(sender.network_bytes().sent - sent_before, rel=0.1)


def test_a_bed_without_a_line_has_nothing_to_count(bed: Testbed) -> None:
    with pytest.raises(CallerError, match="no line between sites"):
        bed.line_bytes()
