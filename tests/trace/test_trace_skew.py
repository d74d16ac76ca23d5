"""Clocks of hosts: what barriers and requests say of them, and what they do not."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from headrace.trace import skew
from headrace.trace.events import Event, Kind, batch_of
from headrace.trace.skew import ClockEvidence, Clocks

BEGIN = 1_700_000_000_000_000_000
HOUR = 3_600_000_000_000


class Estate:
    """Hosts whose clocks are off, told by ``ahead_ms`` and ``drift_ppm`` of each."""

    def __init__(self, ahead_ms: list[float], drift_ppm: list[float] | None = None) -> None:
        self.ahead = [1e6 * ms for ms in ahead_ms]
        self.drift = [1e-6 * ppm for ppm in drift_ppm or [0.0] * len(ahead_ms)]

    def said(self, host: int, true_ns: float) -> int:
        return BEGIN + round(true_ns + self.ahead[host] + self.drift[host] * (true_ns - HOUR / 2))

    def barriers(
        self, hosts: list[int], rng: np.random.Generator, count: int = 200, noise_ms: float = 1.0
    ) -> list[Event]:
        moments = np.sort(rng.uniform(0, HOUR, count))
        return [
            Event(
                kind=Kind.BARRIER,
                begin_ns=self.said(host, moment + late - 1e7),
                duration_ns=10_000_000,
                job="j",
                host=f"h{host}",
                rank=host * 2 + local,
                step=step,
            )
            for step, moment in enumerate(moments.tolist())
            for host in hosts
            for local in range(2)
            for late in [rng.exponential(noise_ms * 1e6)]
        ]

    def request(
        self, client: int, server: int, step: int, true_ns: float, ms: float
    ) -> list[Event]:
        """Return a request that takes ``ms``; the middle half of it is work at the server."""
        begin, end = self.said(client, true_ns), self.said(client, true_ns + ms * 1e6)
        began, ended = (self.said(server, true_ns + share * ms * 1e6) for share in (0.25, 0.75))
        fields = {"kind": Kind.REQUEST, "job": "j", "rank": client, "step": step}
        return [
            Event(begin_ns=begin, duration_ns=end - begin, host=f"h{client}",
                  replica=f"h{server}:9000", **fields),
            Event(begin_ns=began, duration_ns=ended - began, host=f"h{server}", **fields),
        ]  # fmt: skip


def clocks(events: list[Event], parts: int = 3) -> Clocks:
    evidence = ClockEvidence()
    for part in range(parts):
        evidence.add(batch_of(events[part::parts]))
    return evidence.result()


def test_barriers_tell_offsets_within_the_uncertainty_that_is_stated() -> None:
    held = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        estate = Estate([0.0, *rng.uniform(-500, 500, 3)])
        found = clocks(estate.barriers([0, 1, 2, 3], rng)).offsets
        assert list(found) == ["h0", "h1", "h2", "h3"]
        for host in range(1, 4):
            offset = found[f"h{host}"]
            assert offset.uncertainty_ns < 5e6
            held += abs(offset.ns - estate.ahead[host]) <= offset.uncertainty_ns
    assert held >= 0.95 * 30 * 3


@pytest.mark.parametrize("seed", range(5))
def test_a_drift_is_found_and_corrected(seed: int) -> None:
    rng = np.random.default_rng(seed)
    estate = Estate([0.0, 40.0], [0.0, 30.0])
    events = estate.barriers([0, 1], rng, noise_ms=0.5)
    found = clocks(events)
    assert found.offsets["h1"].drift == pytest.approx(30e-6, rel=0.1)
    corrected = found.corrected(batch_of(events)).column("begin_ns").to_numpy()
    late = corrected.reshape(-1, 2, 2).min(axis=2)  # [barriers, hosts]
    assert np.abs(np.median(late[:, 0] - late[:, 1])) < 1e6


def test_without_drift_none_is_invented() -> None:
    for seed in range(20):
        events = Estate([0.0, 100.0]).barriers([0, 1], np.random.default_rng(seed))
        assert clocks(events).offsets["h1"].drift == 0


def test_a_difference_below_its_uncertainty_is_left_alone() -> None:
    events = Estate([0.0, 0.1]).barriers([0, 1], np.random.default_rng(1))
    found = clocks(events)
    assert not found.offsets["h1"].is_significant
    assert found.corrected(batch_of(events)).equals(batch_of(events))


@pytest.mark.parametrize("seed", range(5))
def test_requests_bound_a_server_s_clock(seed: int) -> None:
    rng = np.random.default_rng(seed)
    estate = Estate([0.0, float(rng.uniform(-1e6, 1e6))])
    events = [
        one
        for step in range(100)
        for one in estate.request(0, 1, step, rng.uniform(0, HOUR), rng.uniform(1, 50))
    ]
    offset = clocks(events).offsets["h1"]
    assert abs(offset.ns - estate.ahead[1]) <= offset.uncertainty_ns <= 15e6


def test_calls_of_a_server_are_the_work_on_requests_too() -> None:
    rng = np.random.default_rng(1)
    estate = Estate([0.0, 2_000.0])
    asked, done = zip(
        *(estate.request(0, 1, step, rng.uniform(0, HOUR), 10.0) for step in range(100)),
        strict=True,
    )
    calls = [msgspec.structs.replace(one, kind=Kind.CALL, name="serve") for one in done]
    offset = clocks([*asked, *calls]).offsets["h1"]
    assert abs(offset.ns - estate.ahead[1]) <= offset.uncertainty_ns <= 15e6


def test_work_that_was_done_before_it_was_asked_for_is_no_answer() -> None:
    estate = Estate([0.0, 0.0])
    rng = np.random.default_rng(3)
    asked = [estate.request(0, 1, step, step * 1e9, 10.0)[0] for step in range(50)]
    done = [
        estate.request(0, 1, step, step * 1e9 - rng.uniform(1e9, 20e9), 10.0)[1]
        for step in range(50)
    ]
    assert clocks(asked + done).offsets == {}


def test_chains_of_comparisons_reach_hosts_that_never_met() -> None:
    rng = np.random.default_rng(5)
    estate = Estate([0.0, 300.0, -200.0])
    events = estate.barriers([0, 1], rng)
    events += [one for step in range(50) for one in estate.request(1, 2, step, step * 6e10, 4.0)]
    found = clocks(events).offsets
    assert found["h1"].ns == pytest.approx(300e6, abs=3e6)
    assert found["h2"].ns == pytest.approx(-200e6, abs=6e6)
    assert found["h2"].uncertainty_ns > found["h1"].uncertainty_ns


def test_a_host_that_nothing_binds_is_named_and_left_alone() -> None:
    lonely = Event(kind=Kind.STEP, begin_ns=BEGIN, duration_ns=1, host="h9")
    found = clocks([*Estate([0.0, 50.0]).barriers([0, 1], np.random.default_rng(0)), lonely])
    assert found.unknown == ("h9",)
    assert found.corrected(batch_of([lonely])).equals(batch_of([lonely]))


def test_a_host_alone_need_not_be_compared() -> None:
    assert clocks([Event(kind=Kind.STEP, begin_ns=BEGIN, duration_ns=1, host="h")]).unknown == ()


def test_a_few_barriers_or_ranks_that_miss_some_say_nothing() -> None:
    rng = np.random.default_rng(0)
    few = Estate([0.0, 50.0]).barriers([0, 1], rng, count=3)
    assert clocks(few).offsets == {}
    unnamed = [
        Event(kind=Kind.BARRIER, begin_ns=BEGIN + n * 10**9, duration_ns=1, host=host, rank=rank)
        for rank, host in enumerate(("a", "b"))
        for n in range(rank * 3, 40)
    ]
    assert clocks(unnamed).offsets == {}


def test_barriers_over_different_files_are_not_one() -> None:
    events = [
        Event(kind=Kind.BARRIER, begin_ns=BEGIN + n * 10**9, duration_ns=1, host=host, file=file)
        for n, (host, file) in enumerate(20 * [("a", "/first"), ("b", "/second")])
    ]
    assert clocks(events).offsets == {}


def test_barriers_of_one_name_are_told_apart_by_their_order() -> None:
    events = [
        Event(kind=Kind.BARRIER, begin_ns=BEGIN + n * 10**9 + late, duration_ns=1, host=host)
        for host, late in (("a", 0), ("b", 7_000_000_000))
        for n in range(40)
    ]
    assert clocks(events).offsets["b"].ns == pytest.approx(7e9)


def test_a_clock_that_was_set_is_left_uncertain() -> None:
    rng = np.random.default_rng(0)
    before = Estate([0.0, 0.0]).barriers([0, 1], rng, count=100)
    after = Estate([0.0, 60_000.0]).barriers([0, 1], rng, count=200)
    joined = [one for one in before if (one.step or 0) < 50]
    joined += [one for one in after if (one.step or 0) >= 100]
    found = clocks(joined).offsets["h1"]
    assert found.drift == 0
    assert found.uncertainty_ns > 10e9


def test_memory_is_bounded_and_what_is_left_out_does_not_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(skew, "MOST_ROWS", 500)
    rng = np.random.default_rng(0)
    estate = Estate([0.0, 80.0])
    events = estate.barriers([0, 1], rng, count=3000)
    events += [one for step in range(3000) for one in estate.request(0, 1, step, step * 1e9, 9.0)]
    evidence = ClockEvidence()
    for begin in range(0, len(events), 1000):
        evidence.add(batch_of(events[begin : begin + 1000]))
        for rows in (evidence._barriers, evidence._asked, evidence._answered):
            assert rows.columns()[0].size <= 1000
    assert evidence.result().offsets["h1"].ns == pytest.approx(80e6, abs=3e6)


def test_nothing_is_said_of_nothing() -> None:
    assert clocks([]) == Clocks(offsets={})
