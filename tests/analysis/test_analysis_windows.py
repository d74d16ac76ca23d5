"""Sums over windows that widen, re-reads and latencies, against plain computations."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from analysis_events import random_batch

from headrace.analysis.columns import Columns
from headrace.analysis.evidence import Evidence
from headrace.analysis.latencies import Latencies
from headrace.analysis.rereads import Rereads, _hashed
from headrace.analysis.windows import MOST_WINDOWS, History, Quantity, Windows
from headrace.trace.events import Event, Kind, batch_of

S = 1_000_000_000


def moments(rng: np.random.Generator, count: int, span_ns: int) -> np.ndarray:
    return 1_700_000_000 * S + rng.integers(0, span_ns, count)


@pytest.mark.parametrize("span_ns", [S // 10, 100 * S, 10**7 * S])
def test_amounts_lie_in_the_window_of_their_moment_however_wide_windows_became(
    span_ns: int,
) -> None:
    rng = np.random.default_rng(0)
    at, amounts = moments(rng, 5000, span_ns), rng.random(5000)
    windows = Windows()
    for part in range(0, 5000, 700):
        rows = slice(part, part + 700)
        windows.add(at[rows], {Quantity.WAIT_S: amounts[rows]})
    history = windows.history()
    assert len(history.sums) <= MOST_WINDOWS
    edges = history.begin_ns + np.arange(len(history.sums) + 1) * round(history.width_s * S)
    expected, _ = np.histogram(at, edges, weights=amounts)
    np.testing.assert_allclose(history.of(Quantity.WAIT_S), expected, atol=1e-9)


def test_a_stretch_is_spread_over_all_windows_that_it_lasts() -> None:
    rng = np.random.default_rng(1)
    begins = moments(rng, 300, 50 * S)
    ends = begins + rng.integers(0, 20 * S, 300)
    windows = Windows()
    for part in range(0, 300, 90):
        rows = slice(part, part + 90)
        windows.spread(Quantity.BARRIER_S, begins[rows], ends[rows])
    history = windows.history()
    width = round(history.width_s * S)
    for place, found in enumerate(history.of(Quantity.BARRIER_S)):
        first = history.begin_ns + place * width
        inside = np.minimum(ends, first + width) - np.maximum(begins, first)
        assert found == pytest.approx(np.maximum(inside, 0).sum() / S, abs=1e-6)


def test_coarser_windows_keep_the_sums() -> None:
    sums = np.arange(7 * len(Quantity), dtype=np.float64).reshape(7, -1)
    coarser = History(0, 1.0, sums).coarser(3)
    assert coarser.width_s == 3.0
    np.testing.assert_array_equal(coarser.sums, [sums[:3].sum(0), sums[3:6].sum(0), sums[6]])


def reads(places: np.ndarray, begins_s: np.ndarray, took_s: np.ndarray) -> Columns:
    events = (
        Event(
            kind=Kind.REQUEST,
            begin_ns=round(begin * S),
            duration_ns=round(took * S),
            file=f"data/{place // 10}",
            offset=int(place % 10) * 4096,
            bytes=4096,
        )
        for place, begin, took in zip(places, begins_s, took_s, strict=True)
    )
    return Columns(batch_of(events))


def history_of(seconds: int) -> History:
    return History(0, 1.0, np.zeros((seconds, len(Quantity))))


def test_a_reread_that_takes_a_third_of_the_first_read_is_a_hit() -> None:
    rereads = Rereads()
    rereads.add(reads(np.array([3, 3, 3]), np.array([2.1, 0.1, 1.1]), np.array([0.05, 0.3, 0.2])))
    found = rereads.hit_rates(history_of(3))
    assert found is not None
    np.testing.assert_array_equal(found.reads, [1, 1, 1])
    np.testing.assert_array_equal(found.hits, [0, 0, 1])


def test_places_in_files_are_told_apart_by_file_and_offset() -> None:
    rereads = Rereads()
    rereads.add(reads(np.arange(5000), np.linspace(0, 1, 5000), np.full(5000, 1e-4)))
    assert rereads.hit_rates(history_of(2)) is None


def test_reads_beyond_what_memory_holds_are_sampled_by_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.analysis.rereads.MOST_READS", 1000)
    rng = np.random.default_rng(2)
    rereads, count = Rereads(), 2000
    for again in range(3):
        took = np.full(count, 0.001 if again else 0.1)
        rereads.add(reads(np.arange(count), again + rng.random(count) * 0.8, took))
    found = rereads.hit_rates(history_of(4))
    assert found is not None
    assert 0 < found.reads.sum() <= 1000
    assert found.hits.sum() == pytest.approx(2 / 3 * found.reads.sum())


def test_the_fastest_reads_are_those_that_no_cache_answered() -> None:
    rng = np.random.default_rng(3)
    latencies = Latencies()
    latencies.add(rng.uniform(0.020, 0.060, 5000))
    latencies.add(np.full(5000, 50e-6))
    least, typical = latencies.least_s(), latencies.typical_s()
    assert least == pytest.approx(0.024, rel=0.1)
    assert typical == pytest.approx(0.040, rel=0.1)


def test_no_latency_is_known_of_no_requests() -> None:
    assert Latencies().least_s() is None
    assert Latencies().typical_s() is None
    assert Latencies().median_s() is None


def test_the_median_is_of_all_requests_and_what_is_typical_of_those_that_take_the_time() -> None:
    latencies = Latencies()
    latencies.add(np.array([1e-4] * 9 + [1.0]))
    assert latencies.median_s() == pytest.approx(1e-4, rel=0.1)
    assert latencies.typical_s() == pytest.approx(1.0, rel=0.1)


def test_evidence_does_not_depend_on_the_order_of_batches() -> None:
    batches = [random_batch(2000, seed) for seed in range(4)]
    ways = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        evidence = Evidence()
        for place in order:
            evidence.add(Columns(batches[place]))
        ways.append(evidence.result("j"))
    one, other = ways
    assert (one.ranks, one.span_s) == (other.ranks, other.span_s)
    np.testing.assert_allclose(one.history.sums, other.history.sums, atol=1e-6)
    for place in (*one.by_host, *one.by_rank):
        (same,) = (found for found in (*other.by_host, *other.by_rank) if found.name == place.name)
        assert (place.ranks, place.loads) == (same.ranks, same.loads)
        assert place.wait_s == pytest.approx(same.wait_s)


def test_memory_does_not_grow_with_the_trace() -> None:
    batch = random_batch(65_536, 0, files=30_000, span_ns=10**13)
    evidence = Evidence()
    for _ in range(4):
        evidence.add(Columns(batch))
    tracemalloc.start()
    for _ in range(12):
        evidence.add(Columns(batch))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 8e6


def test_ranks_are_counted_once_whoever_names_them() -> None:
    named = [Event(kind=Kind.WAIT, begin_ns=0, duration_ns=1, rank=r, host="a") for r in (0, 1, 1)]
    unnamed = [
        Event(kind=Kind.WAIT, begin_ns=0, duration_ns=1, host=host, pid=7) for host in ("a", "b")
    ]
    for events, ranks in ((named, 2), (unnamed, 2)):
        evidence = Evidence()
        evidence.add(Columns(batch_of(events)))
        assert evidence.result("j").ranks == ranks


def test_a_trace_of_hashes_has_the_same_hashes_in_a_slice() -> None:
    files = pa.array(["a/b", "c", "", "a/b", "ümläut"])
    whole, part = _hashed(files), _hashed(files.slice(2))
    np.testing.assert_array_equal(whole[2:], part)
    assert whole[0] == whole[3]
    assert len(set(whole.tolist())) == 4
