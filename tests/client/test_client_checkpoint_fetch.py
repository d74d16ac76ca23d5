"""Many small ranges become few large reads, many at once, within bounded memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.checkpoint.coalescing import FetchLimits, plan_requests
from headrace.client.checkpoint.fetch import RangeFetcher
from headrace.client.checkpoint.tally import Tally
from headrace.core.clock import ManualClock
from headrace.core.errors import CallerError, ConfigError, NotFoundError, StorageError
from headrace.storage.local import LocalStorage
from headrace.storage.port import FileRange
from waiting import eventually

DATA = np.random.default_rng(11).integers(0, 256, 1 << 20, np.uint8).tobytes()


class Source:
    """Files in memory that note what is asked, and may fail or take their time."""

    def __init__(self, answer: Callable[[], object] = lambda: None) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.at_once = self.most_at_once = 0
        self._answer = answer
        self._lock = threading.Lock()

    def read(self, path: str, offset: int, length: int) -> bytes:
        with self._lock:
            self.asked.append((path, offset, length))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            self._answer()
            return DATA[offset : offset + length]
        finally:
            with self._lock:
                self.at_once -= 1


RANGES = st.lists(
    st.builds(FileRange, st.sampled_from(["a", "b"]), st.integers(0, 4000), st.integers(0, 900)),
    max_size=30,
)
LIMITS = st.builds(
    FetchLimits,
    parallel=st.integers(1, 5),
    gap_bytes=st.integers(0, 300),
    request_bytes=st.integers(1, 700),
    memory_bytes=st.integers(1, 2000),
)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(wanted=RANGES, limits=LIMITS, own=st.integers(0, 3))
def test_any_ranges_come_whole_whatever_the_limits(
    wanted: list[FileRange], limits: FetchLimits, own: int
) -> None:
    into = {
        index: memoryview(bytearray(one.length)) for index, one in enumerate(wanted) if index & own
    }
    got = {}
    for index, view in RangeFetcher(Source(), limits).fetch(wanted, into):
        assert index not in got
        got[index] = bytes(view)
        assert index not in into or bytes(into[index]) == got[index]
    assert got == {
        index: DATA[one.offset : one.offset + one.length] for index, one in enumerate(wanted)
    }


@settings(max_examples=150, derandomize=True, deadline=None)
@given(wanted=RANGES, limits=LIMITS)
def test_no_request_is_longer_than_allowed_nor_reads_over_a_longer_gap(
    wanted: list[FileRange], limits: FetchLimits
) -> None:
    for request in plan_requests(wanted, limits):
        assert 0 < request.length <= limits.request_bytes
        covered = 0
        for part in request.parts:
            assert part.start <= covered + limits.gap_bytes
            covered = max(covered, part.start + part.length)
        assert covered == request.length


def test_thousands_of_tiny_neighbours_are_a_few_large_reads() -> None:
    source = Source()
    wanted = [FileRange("a", 100 * number, 96) for number in range(8000)]
    fetcher = RangeFetcher(source, FetchLimits(request_bytes=1 << 18))
    assert len(list(fetcher.fetch(wanted))) == 8000
    assert len(source.asked) <= 4
    assert fetcher.statistics().requests_per_range < 0.001
    assert fetcher.statistics().wanted_bytes == 8000 * 96


def test_a_far_link_is_kept_full() -> None:
    """64 requests take two round trips where 32 are in flight: none ends before 32 have begun."""
    meeting = threading.Barrier(32)
    source = Source(lambda: meeting.wait(30))
    wanted = [FileRange("a", 8000 * number, 10) for number in range(64)]
    fetcher = RangeFetcher(source, FetchLimits(parallel=32, gap_bytes=0))
    assert len(list(fetcher.fetch(wanted))) == 64
    assert source.most_at_once == 32


def test_files_take_turns_so_that_many_nodes_of_the_store_are_busy() -> None:
    wanted = [FileRange(path, 1000 * n, 100) for path in "abc" for n in range(3)]
    order = [one.path for one in plan_requests(wanted, FetchLimits(gap_bytes=0))]
    assert order == list("abcabcabc")


def test_a_file_is_asked_for_from_its_beginning_on() -> None:
    """What comes first may tell that the rest is not wanted."""
    wanted = [FileRange("a", 10, 300), FileRange("a", 0, 10), FileRange("a", 310, 5)]
    requests = plan_requests(wanted, FetchLimits(request_bytes=100, gap_bytes=10))
    assert [one.offset for one in requests] == [0, 10, 110, 210, 310]


def test_what_is_not_taken_holds_up_what_is_read() -> None:
    source = Source()
    wanted = [FileRange("a", 1000 * number, 1000) for number in range(40)]
    limits = FetchLimits(parallel=4, gap_bytes=0, request_bytes=1000, memory_bytes=5000)
    results = RangeFetcher(source, limits).fetch(wanted)
    next(results)
    eventually(lambda: len(source.asked) == 5)
    time.sleep(0.05)  # a sixth would be asked for at once
    assert len(source.asked) == 5
    assert len(list(results)) == 39


def test_a_request_that_fails_is_asked_for_again() -> None:
    failures = iter([StorageError("a node died")] * 2)

    def fail_twice() -> None:
        for failure in failures:
            raise failure

    fetcher = RangeFetcher(Source(fail_twice), FetchLimits(parallel=1))
    assert [bytes(view) for _, view in fetcher.fetch([FileRange("a", 5, 10)])] == [DATA[5:15]]
    assert fetcher.statistics().retries == 2


def test_an_error_comes_out_and_ends_all_threads() -> None:
    def fail() -> None:
        raise StorageError("all nodes died")

    with pytest.raises(StorageError, match="all nodes died"):
        list(RangeFetcher(Source(fail), FetchLimits(attempts=2)).fetch([FileRange("a", 0, 10)]))


def test_a_source_that_returns_too_little_is_an_error() -> None:
    with pytest.raises(StorageError, match="instead of 10"):
        list(RangeFetcher(Source(), FetchLimits(attempts=1)).fetch([FileRange("a", len(DATA), 10)]))


def test_leaving_in_the_middle_ends_all_threads() -> None:
    source = Source()
    wanted = [FileRange("a", 1000 * number, 1000) for number in range(40)]
    results = RangeFetcher(source, FetchLimits(gap_bytes=0, request_bytes=1000)).fetch(wanted)
    next(results)
    results.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("headrace-fetch")]


def test_a_missing_file_is_not_asked_for_again(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        list(RangeFetcher(LocalStorage(tmp_path)).fetch([FileRange("a", 0, 10)]))


@pytest.mark.parametrize("into", [memoryview(bytearray(9)), memoryview(bytes(10))])
def test_a_destination_that_does_not_fit_is_refused(into: memoryview) -> None:
    with pytest.raises(CallerError, match="10 bytes of a"):
        list(RangeFetcher(Source()).fetch([FileRange("a", 0, 10)], {0: into}))


def test_a_range_before_the_start_of_its_file_is_refused() -> None:
    with pytest.raises(CallerError, match="does not lie in a file"):
        list(RangeFetcher(Source()).fetch([FileRange("a", -1, 10)]))


def test_limits_that_allow_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"fetch\.parallel=0"):
        FetchLimits(parallel=0)
    with pytest.raises(ConfigError, match=r"fetch\.gap_bytes=-1"):
        FetchLimits(gap_bytes=-1)


def test_time_in_round_trips_is_told_from_time_in_transfer() -> None:
    clock = ManualClock()
    tally = Tally(clock)
    for nbytes in (1000, 2000, 50_000):
        with tally.request(nbytes):
            clock.advance(0.03 + nbytes / 1e6)
    statistics = tally.statistics()
    assert statistics.round_trip_s == pytest.approx(0.09)
    assert statistics.round_trip_share == pytest.approx(0.09 / (0.09 + 0.053))
    assert statistics.bytes_per_request == pytest.approx(53_000 / 3)


def test_requests_of_one_length_tell_no_more_than_the_shortest_one() -> None:
    clock = ManualClock()
    tally = Tally(clock)
    for seconds in (0.03, 0.05):
        with tally.request(1000):
            clock.advance(seconds)
    assert tally.statistics().round_trip_s == pytest.approx(0.06)
