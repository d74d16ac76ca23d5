"""Figures of a whole trace against a plain computation over the same events."""

from __future__ import annotations

import random
import tracemalloc
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_type_hints

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from analysis_events import random_batch

from headrace.analysis.analyser import Analyser
from headrace.analysis.columns import Columns
from headrace.analysis.evidence import Evidence
from headrace.analysis.figures import Analysis, Checkpoints, JobFigures, Loading, Spread
from headrace.analysis.overview import blocks
from headrace.analysis.timekeeping import TimeSums
from headrace.analysis.warmup import WarmUp
from headrace.analysis.windows import Quantity
from headrace.core.errors import CallerError, CorruptDataError
from headrace.trace.events import PARTS, Event, Kind, batch_of
from headrace.trace.importer import Notes

S = 1_000_000_000
IO = {"load", "request", "checkpoint_read", "checkpoint_save", "logits_write"}


def analysed(*batches: pa.RecordBatch, notes: Notes | None = None, **given: Any) -> Analysis:
    analyser = Analyser(**given)
    for batch in batches:
        analyser.add(batch)
    return analyser.result(format_name="made up", notes=notes or Notes())


def of(events: Iterable[Event], **given: Any) -> JobFigures:
    (job,) = analysed(batch_of(events), **given).jobs
    return job


def event(kind: Kind, begin_s: float = 0, duration_s: float | None = None, **more: Any) -> Event:
    duration_ns = None if duration_s is None else round(duration_s * S)
    return Event(kind=kind, begin_ns=round(begin_s * S), duration_ns=duration_ns, **more)


def assert_spread(found: Spread | None, values: Sequence[float]) -> None:
    assert found is not None
    assert found.count == len(values)
    assert found.total == pytest.approx(sum(values))
    assert (found.p50, found.p99, found.most) == pytest.approx(
        tuple(np.quantile(values, (0.5, 0.99, 1)))
    )


def per_operation(rows: Iterable[dict[str, Any]], name: str) -> list[float]:
    found = []
    for row in rows:
        if row[name] is not None:
            count = row["count"] or 1
            found += [row[name] / count] * count
    return found


def of_kind(rows: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["kind"] in kinds]


@pytest.fixture(scope="module")
def batch() -> pa.RecordBatch:
    return random_batch(3_000, seed=11)


@pytest.fixture(scope="module")
def rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = batch.to_pylist()
    return found


@pytest.fixture(scope="module")
def job(batch: pa.RecordBatch) -> JobFigures:
    (job,) = analysed(batch).jobs
    return job


def test_loading_is_what_a_plain_computation_finds(
    job: JobFigures, rows: list[dict[str, Any]]
) -> None:
    assert job.loading is not None
    loads = [row for row in of_kind(rows, "load") if row["sample"] is None]
    waits = [row["duration_ns"] for row in of_kind(rows, "wait")]
    assert_spread(job.wait_s, [one / S for one in waits if one is not None])
    assert job.loading.unit == "batch"
    seconds = [one / S for one in per_operation(loads, "duration_ns")]
    assert_spread(job.loading.latency_s, seconds)
    totals = {
        part: sum(row["duration_ns"] or 0 for row in of_kind(rows, part)) / S for part in PARTS
    }
    for part, found in job.loading.parts.items():
        assert found.total_s == pytest.approx(totals[Kind(part)])
        assert found.share == pytest.approx(totals[Kind(part)] / sum(totals.values()))
        assert found.per_load_s == pytest.approx(totals[Kind(part)] / len(seconds))


def test_further_numbers_and_cpu_of_loads_are_summed_and_levels_are_not() -> None:
    events = [
        event(
            Kind.LOAD, n, 1, cpu_ns=S // 4, counts={"samples": 8, "bytes_wire": n, "queue_bytes": 9}
        )
        for n in range(10)
    ]
    loading = of([*events, event(Kind.LOAD, 0, 1), event(Kind.STEP, 0, 1, counts={"x": 1})]).loading
    assert loading is not None
    assert loading.counts == {"samples": 80, "bytes_wire": 45}
    assert loading.cpu_s == pytest.approx(2.5)


def test_requests_are_what_a_plain_computation_finds(
    job: JobFigures, rows: list[dict[str, Any]]
) -> None:
    assert job.requests is not None
    requests = of_kind(rows, "request")
    reads = [row for row in requests if not row["is_write"]]
    assert_spread(job.requests.read_bytes, per_operation(reads, "bytes"))
    writes = [row for row in requests if row["is_write"]]
    assert_spread(job.requests.write_bytes, per_operation(writes, "bytes"))
    assert_spread(
        job.requests.latency_s, [one / S for one in per_operation(requests, "duration_ns")]
    )
    files = {row["file"] for row in of_kind(rows, "request", "metadata")} - {None}
    assert job.requests.files == len(files)
    asked = [row for row in of_kind(rows, "metadata") if row["name"] is not None]
    assert_spread(job.requests.metadata_s, [one / S for one in per_operation(asked, "duration_ns")])
    opens = [row for row in of_kind(rows, "request", "metadata") if row["name"] == "open"]
    assert job.requests.operations["open"] == sum(row["count"] or 1 for row in opens)


def place(row: dict[str, Any]) -> int:
    return -2 - row["pid"] if row["rank"] is None else row["rank"]


def seconds_of(rows: Iterable[dict[str, Any]], places: set[int]) -> dict[int, set[int]]:
    """Return the microseconds in which each place was at something; single operations only."""
    covered = defaultdict(set)
    for row in rows:
        if row["duration_ns"] is not None and (row["count"] or 1) == 1 and place(row) in places:
            begin = row["begin_ns"]
            covered[place(row)] |= set(range(begin, begin + row["duration_ns"]))
    return covered


def runs(moments: set[int]) -> list[tuple[int, int]]:
    """Return the stretches without a gap that moments form."""
    begins = sorted(moment for moment in moments if moment - 1 not in moments)
    ends = sorted(moment + 1 for moment in moments if moment + 1 not in moments)
    return list(zip(begins, ends, strict=True))


def in_background(checkpoints: set[int], waits: set[int]) -> set[int]:
    """Return the moments of checkpoints during which a wait begins."""
    begins = [begin for begin, _ in runs(waits)]
    return {
        moment
        for begin, end in runs(checkpoints)
        if any(begin < one < end for one in begins)
        for moment in range(begin, end)
    }


def small_trace() -> pa.RecordBatch:
    """Times of a few hundred ns, so that each can be counted."""
    rng = np.random.default_rng(5)
    kinds = [kind.value for kind in Kind]
    return batch_of(
        Event(
            kind=kinds[rng.integers(0, len(kinds))],
            begin_ns=int(rng.integers(0, 3_000)),
            duration_ns=int(rng.integers(0, 60)),
            rank=int(rng.integers(0, 3)),
            pid=1,
        )
        for _ in range(400)
    )


@pytest.mark.parametrize("knows_compute", [True, False])
def test_idle_time_and_overlap_are_what_counting_every_nanosecond_finds(
    knows_compute: bool,
) -> None:
    batch = small_trace()
    if not knows_compute:
        batch = batch.filter(pa.compute.not_equal(batch["kind"], "compute"))
    rows = batch.to_pylist()
    (job,) = analysed(batch, price_per_hour=3.6e12).jobs
    places = {0, 1, 2}
    causes = [
        seconds_of(of_kind(rows, *kinds), places)
        for kinds in (["checkpoint_read"], ["checkpoint_save"], ["wait"], ["barrier"])
    ]
    for checkpoints in causes[:2]:
        for one in places:
            checkpoints[one] -= in_background(checkpoints[one], causes[2][one])
    still = {one: set().union(*(cause[one] for cause in causes)) for one in places}
    if knows_compute:
        compute = seconds_of(of_kind(rows, "compute"), places)
    else:
        steps = seconds_of(of_kind(rows, "step"), places)
        compute = {one: steps[one] - still[one] for one in places}
    recorded = compute if knows_compute else {one: set[int]() for one in places}
    io = seconds_of([row for row in rows if row["kind"] in IO], places)
    assert job.accelerators is not None and job.overlap is not None
    idle_ns = sum(len(still[one] - recorded[one]) for one in places)
    assert job.accelerators.idle_s * S == pytest.approx(idle_ns)
    assert job.accelerators.cost == pytest.approx(idle_ns)
    first = {one: causes[0][one] - recorded[one] for one in places}
    assert job.accelerators.by_cause_s["checkpoint_read"] * S == pytest.approx(
        sum(map(len, first.values()))
    )
    assert sum(job.accelerators.by_cause_s.values()) == pytest.approx(job.accelerators.idle_s)
    busy_s = job.accelerators.compute_s
    assert busy_s == (pytest.approx(job.overlap.compute_s) if knows_compute else None)
    assert job.overlap.compute_s * S == pytest.approx(sum(len(compute[one]) for one in places))
    assert job.overlap.io_s * S == pytest.approx(sum(len(io[one]) for one in places))
    both = sum(len(io[one] & compute[one]) for one in places)
    assert job.overlap.both_s * S == pytest.approx(both)
    assert job.overlap.hidden_share == pytest.approx(both / sum(map(len, io.values())))


def test_a_save_in_the_background_of_the_loop_is_not_idle_time() -> None:
    steps = [
        event(kind, 10 * n, 10 if kind == Kind.STEP else 1, rank=0)
        for n in range(9)
        for kind in (Kind.STEP, Kind.WAIT)
    ]
    background = event(Kind.CHECKPOINT_SAVE, 25, 20, rank=0)
    blocking = event(Kind.CHECKPOINT_SAVE, 63, 5, rank=0)
    found = of([*steps, background, blocking]).accelerators
    assert found is not None
    assert found.by_cause_s["checkpoint_save"] == pytest.approx(5)
    assert found.by_cause_s["data"] == pytest.approx(9)


@pytest.mark.parametrize("order", ["rank by rank", "all ranks at a time"])
def test_idle_time_of_a_long_trace_is_exact_though_few_stretches_are_kept(order: str) -> None:
    steps, ranks = 400, 6
    events = [
        event(
            kind, 3 * step + begin, duration, rank=rank, file="f" if kind == Kind.REQUEST else None
        )
        for rank in range(ranks)
        for step in range(steps)
        for kind, begin, duration in (
            (Kind.WAIT, 0.0, 1 + step % 2 / 2),
            (Kind.STEP, 0.0, 3.0),
            (Kind.LOAD, 0.5, 2.0),
        )
    ]
    if order == "all ranks at a time":
        events.sort(key=lambda one: one.begin_ns)
    exact, bounded = TimeSums(), TimeSums(most=1_000)
    for begin in range(0, len(events), 100):
        part = Columns(batch_of(events[begin : begin + 100]))
        exact.add(part)
        bounded.add(part)
        assert bounded._rows <= 1_000
    assert bounded.late == 0
    for found, wanted in zip(bounded.spent(), exact.spent(), strict=True):
        assert found == pytest.approx(wanted)
    assert exact.spent().idle_s.sum() == pytest.approx(ranks * steps * 1.25)
    assert bounded.timeline(0) == exact.timeline(0)


@pytest.mark.parametrize("ranks", [range(1, 1_001, 2), range(500)])
def test_some_of_many_ranks_are_drawn_and_each_of_them_whole(ranks: range) -> None:
    times = TimeSums()
    for half in (ranks[: len(ranks) // 2], ranks[len(ranks) // 2 :]):
        steps = [event(Kind.STEP, 3 * step, 3, rank=rank) for rank in half for step in range(5)]
        times.add(Columns(batch_of(steps)))
        times.spent()
    timeline = times.timeline(0)
    assert timeline is not None
    assert 32 <= len(timeline.ranks) <= 64
    assert set(map(int, timeline.ranks)) <= set(ranks)
    for row in timeline.shares["compute"]:
        assert set(row[:-1]) == {"9"}


def test_events_that_come_when_their_time_was_added_up_are_counted() -> None:
    times = TimeSums(most=100)
    for _ in range(2):
        times.add(Columns(batch_of(event(Kind.WAIT, 2 * step, 1, rank=0) for step in range(150))))
    assert times.late > 0


def without_dust(value: object) -> object:
    """Round what differs in the last digits, since sums of fractions do."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {name: without_dust(one) for name, one in value.items()}
    return [without_dust(one) for one in value] if isinstance(value, list | tuple) else value


def test_neither_the_order_nor_the_size_of_batches_matters(batch: pa.RecordBatch) -> None:
    pieces = [batch.slice(begin, 500) for begin in range(0, batch.num_rows, 500)]
    whole, one, other = analysed(batch), analysed(*pieces), analysed(*pieces[::-1])
    told = [without_dust(msgspec.to_builtins(found)) for found in (whole, one, other)]
    assert told[0] == told[1] == told[2]


def test_a_quarter_of_a_million_events_of_as_many_files_leave_little_behind() -> None:
    analyser = Analyser()
    batches = [random_batch(65_536, seed, files=1_000_000, ranks=2_000) for seed in range(4)]
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    for batch in batches:
        analyser.add(batch)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept + pa.total_allocated_bytes() - before < 80e6


def test_stragglers_are_named_by_host_file_and_suffix() -> None:
    events = []
    for number in range(2_000):
        is_slow = number % 100 == 7
        file = f"/d/{number}.mp4" if is_slow else f"/d/{number % 50}.jpg"
        seconds = 30 if is_slow else 1 + number % 7 / 10
        host = "h3" if is_slow else f"h{number % 4}"
        events.append(event(Kind.LOAD, number, seconds, host=host, file=file, sample=str(number)))
    loading = of(events).loading
    assert loading is not None and loading.stragglers is not None
    stragglers = loading.stragglers
    assert (loading.unit, stragglers.slowest_host) == ("sample", "h3")
    (host,) = stragglers.hosts
    assert (host.name, host.share) == ("h3", 1.0)
    (sort,) = stragglers.kinds
    assert (sort.name, sort.mean_s, sort.share) == (".mp4", pytest.approx(30), 1.0)
    assert sort.others_mean_s == pytest.approx(1.3, rel=0.05)
    assert all(one.name.endswith(".mp4") for one in stragglers.files)
    means = defaultdict(list)
    for one in events:
        means[one.host].append((one.duration_ns or 0) / S)
    mean_of_hosts = np.mean([np.mean(values) for values in means.values()])
    assert stragglers.gap_s is not None
    assert stragglers.gap_s == pytest.approx(np.mean(means["h3"]) - mean_of_hosts)


def test_a_batch_is_the_unit_and_its_slow_samples_name_the_files() -> None:
    batches = [event(Kind.LOAD, n, 1 + (n % 20 == 0), host=f"h{n % 2}", step=n) for n in range(400)]
    samples = [
        event(Kind.LOAD, n, 5 if n % 40 == 0 else 0.1, host="h0", file=f"f{n % 40}.tar", sample="s")
        for n in range(400)
    ]
    loading = of(batches + samples).loading
    assert loading is not None and loading.stragglers is not None
    assert (loading.unit, loading.latency_s.count) == ("batch", 400)
    assert [one.name for one in loading.stragglers.files] == ["f0.tar"]


def test_files_that_are_read_once_each_are_not_to_blame_for_loads_that_differ_by_chance() -> None:
    rng = random.Random(3)
    epochs = [
        event(Kind.LOAD, n, rng.lognormvariate(0, 0.4), host="h", sample="s", file=f"{n % 500}.jpg")
        for n in range(1_000)
    ]
    for loads in (epochs[:500], epochs):
        assert of(loads).loading.stragglers is None


def test_few_loads_accuse_nobody() -> None:
    loading = of([event(Kind.LOAD, n, n, host=f"h{n}", file=f"f{n}") for n in range(15)]).loading
    assert loading is not None and loading.stragglers is not None
    assert loading.stragglers.slowest_host == "h14"
    assert not loading.stragglers.hosts and not loading.stragglers.files


def test_one_host_is_no_straggler_and_its_slow_files_are_named_all_the_same() -> None:
    def loading(seconds_of_slow: float) -> Loading:
        found = of(
            event(
                Kind.LOAD,
                number,
                seconds_of_slow if number % 50 == 0 else 1,
                host="h",
                sample="s",
                file="slow.mp4" if number % 50 == 0 else f"{number}.jpg",
            )
            for number in range(2_000)
        ).loading
        assert found is not None
        return found

    assert loading(1).stragglers is None
    slow = loading(9).stragglers
    assert slow is not None
    assert (slow.slowest_host, slow.gap_s, slow.hosts) == (None, None, ())
    assert [one.name for one in (*slow.files, *slow.kinds)] == ["slow.mp4", ".mp4"]


def checkpoints(*events: Event) -> Checkpoints:
    found = of(events).checkpoint_save
    assert found is not None
    return found


@pytest.mark.parametrize("named", [True, False])
def test_saves_of_ranks_are_told_apart_and_what_they_wait_for_the_slowest(named: bool) -> None:
    events = [
        event(
            Kind.CHECKPOINT_SAVE,
            100 * occasion + part * seconds / 2,
            seconds / 2,
            rank=rank,
            step=1000 * occasion if named else None,
            bytes=10**9,
            **({"count": 10} if part else {"counts": {"requests": 10}}),
        )
        for occasion in range(3)
        for rank, seconds in enumerate((4, 6, 10))
        for part in range(2)
    ]
    found = checkpoints(*events)
    assert (found.events, found.occasions, found.slowest_rank) == (18, 3, 2)
    assert_spread(found.per_rank_s, [4, 6, 10] * 3)
    assert found.barrier_s == pytest.approx(3 * (6 + 4))
    assert (found.bytes, found.mean_request_bytes) == (18 * 10**9, 1e8)


def test_requests_of_a_checkpoint_are_found_by_the_files_that_it_names() -> None:
    job = of(
        [
            event(Kind.CHECKPOINT_READ, 0, 9, rank=0, file="/runs/step-7"),
            event(Kind.CHECKPOINT_READ, 0, 9, rank=1, file="/runs/other.pt"),
            *(event(Kind.REQUEST, n, 1, file="/runs/step-7/a", bytes=10_000) for n in range(6)),
            *(event(Kind.REQUEST, n, 1, file="/runs/other.pt", bytes=30_000) for n in range(2)),
            *(event(Kind.REQUEST, n, 1, file="/runs/step-77/a", bytes=10**9) for n in range(3)),
        ]
    )
    assert job.checkpoint_read is not None
    assert job.checkpoint_read.mean_request_bytes == pytest.approx(15_000)


def test_one_rank_waits_for_no_other_and_has_no_slowest() -> None:
    found = checkpoints(event(Kind.CHECKPOINT_SAVE, 0, 5, rank=0))
    assert (found.slowest_rank, found.barrier_s, found.bytes) == (None, None, None)


@pytest.mark.parametrize(
    ("duration_s", "pause_s", "occasions"),
    [(0.002, 0.5, 4), (0.002, 0.05, 1), (3, 2, 1), (3, 4, 4), (60, 9, 1), (60, 11, 4)],
)
def test_events_that_name_no_step_are_of_one_save_if_they_last_longer_than_their_pauses(
    duration_s: float, pause_s: float, occasions: int
) -> None:
    begins = [number * (duration_s + pause_s) for number in range(4)]
    found = checkpoints(*(event(Kind.CHECKPOINT_SAVE, at, duration_s, rank=0) for at in begins))
    assert found.occasions == occasions


def test_saves_that_name_no_step_and_are_not_equally_many_are_told_apart_by_time() -> None:
    found = checkpoints(
        event(Kind.CHECKPOINT_SAVE, 0, 5, rank=0),
        event(Kind.CHECKPOINT_SAVE, 100, 5, rank=0),
        event(Kind.CHECKPOINT_SAVE, 101, 9, rank=1),
    )
    assert found.occasions == 2
    assert found.barrier_s == pytest.approx(4)


@pytest.mark.parametrize(("latency_s", "bandwidth"), [(0.03, 1e8), (0.0005, 1e7)])
def test_the_share_of_round_trips_is_found_among_queues_and_bytes(
    latency_s: float, bandwidth: float
) -> None:
    rng = np.random.default_rng(6)
    events, trips_s, total_s = [], 0.0, 0.0
    for number in range(4_000):
        size = int(rng.lognormal(11, 2))
        queue_s = rng.exponential(0.2)
        service_s = latency_s + size / bandwidth
        trips_s += latency_s
        total_s += service_s
        events.append(
            event(
                Kind.REQUEST, number, service_s + queue_s, bytes=size, queue_ns=round(queue_s * S)
            )
        )
    requests = of(events).requests
    assert requests is not None
    assert requests.round_trip_share == pytest.approx(trips_s / total_s, abs=0.05)


def test_requests_of_one_size_do_not_tell_round_trips_from_bytes() -> None:
    requests = of(event(Kind.REQUEST, n, 0.1, bytes=15_000) for n in range(100)).requests
    assert requests is not None and requests.round_trip_share is None


def test_bandwidth_counts_only_time_in_which_something_was_under_way() -> None:
    requests = of(
        [
            event(Kind.REQUEST, 0, 2, bytes=100, rank=0),
            event(Kind.REQUEST, 1, 2, bytes=100, rank=1),
            event(Kind.REQUEST, 10, 1, bytes=200, rank=0),
        ]
    ).requests
    assert requests is not None and requests.bytes_per_s == pytest.approx(100)


def test_bandwidth_of_too_many_pauses_is_told_and_said_to_be_rough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headrace.analysis.requests.MOST_BUSY", 100)
    requests = [event(Kind.REQUEST, 2 * n, 1, bytes=100, rank=n % 3) for n in range(1_000)]
    found = analysed(batch_of(requests))
    assert "bandwidth is too low" in found.unknown["bytes_per_s"]
    (job,) = found.jobs
    assert job.requests is not None and job.requests.bytes_per_s is not None
    assert 50 <= job.requests.bytes_per_s <= 100


def test_the_hottest_files_are_told_with_ranks_and_time() -> None:
    reads = [
        event(Kind.REQUEST, at, 1, file=f"f{number}", bytes=10, rank=at % 4)
        for number in range(5)
        for at in range(0, 600, 10 * (number + 1))
    ]
    writes = [event(Kind.REQUEST, 0, 1, file="log", is_write=True) for _ in range(500)]
    opens = [event(Kind.METADATA, 0, 1, file="index", name="open") for _ in range(500)]
    hottest = of([*reads, *writes, *opens]).hottest
    assert [one.file for one in hottest] == [f"f{number}" for number in range(5)]
    first = hottest[0]
    assert (first.reads, first.bytes, first.ranks) == (60, 600, 2)
    assert (first.first_s, first.last_s) == (0, 590)
    assert sum(first.over_time) == 60 and max(first.over_time) <= 2


def test_runs_that_are_read_as_one_are_told_by_the_pause_between_them() -> None:
    def run(begin_s: float) -> list[Event]:
        return [event(Kind.STEP, begin_s + 2 * n, 2, rank=n % 2) for n in range(20)]

    apart = analysed(batch_of([*run(5000), *run(0)]))
    assert apart.jobs[0].longest_pause_s == 5000 - 40
    assert "each by itself" in apart.unknown["runs"]
    close = analysed(batch_of([*run(60), *run(0)]))
    assert close.jobs[0].longest_pause_s == 20
    assert "runs" not in close.unknown


def test_a_long_event_bridges_a_pause_and_short_traces_have_none_that_matters() -> None:
    steps = [event(Kind.STEP, begin_s, 1) for begin_s in (0, 900)]
    bridged = analysed(batch_of([*steps, event(Kind.CALL, 0.5, 1000)]))
    assert bridged.jobs[0].longest_pause_s == 0
    few = analysed(batch_of([event(Kind.STEP, begin_s, 0.1) for begin_s in (0, 9)]))
    assert few.jobs[0].longest_pause_s == pytest.approx(8.9) and "runs" not in few.unknown


def test_a_log_of_questions_alone_tells_opens_and_nothing_of_times() -> None:
    opens = [event(Kind.METADATA, n, name="open", file=f"/f{n % 3}", host="h") for n in range(9)]
    others = [event(Kind.METADATA, n, name="rename", file="/x") for n in range(20)]
    job = of(opens + others)
    assert job.loading is None and job.accelerators is None and job.ranks is None
    assert job.requests is not None and job.requests.metadata_s is None
    assert job.requests.operations == {"rename": 20, "open": 9}
    assert [(one.file, one.reads) for one in job.hottest] == [("/f0", 3), ("/f1", 3), ("/f2", 3)]
    assert job.hottest[0].bytes is None
    assert job.hottest[0].ranks is None


def test_requests_without_a_name_are_told_as_requests() -> None:
    requests = of([event(Kind.REQUEST, 0, 1), event(Kind.METADATA, 0, 1)]).requests
    assert requests is not None and requests.operations == {"request": 1}


def test_phases_are_told_apart_and_the_job_is_all_of_them() -> None:
    events = [
        event(Kind.LOAD, n, seconds, rank=n % 2, phase=phase)
        for phase, seconds in (("initialisation", 4), ("iteration", 1))
        for n in range(10)
    ]
    job = of(events)
    assert [(one.phase, one.loading and one.loading.latency_s.mean) for one in job.phases] == [
        ("initialisation", 4),
        ("iteration", 1),
    ]
    assert job.loading is not None and job.loading.latency_s.mean == 2.5
    assert job.phases[0].seconds == pytest.approx(12)


def test_jobs_are_told_apart_and_one_can_be_chosen() -> None:
    batch = batch_of(event(Kind.STEP, n, 1, job=f"j{n % 2}", rank=0) for n in range(10))
    assert [one.job for one in analysed(batch).jobs] == ["j0", "j1"]
    chosen = analysed(batch, job="j1")
    assert ([one.job for one in chosen.jobs], chosen.events) == (["j1"], 5)
    with pytest.raises(CallerError, match="no job j7; it has j0, j1"):
        analysed(batch, job="j7")


def test_a_trace_without_events_is_refused() -> None:
    with pytest.raises(CallerError, match="holds no event"):
        analysed(batch_of([]))


def test_a_trace_of_which_nothing_can_be_read_is_damaged_and_not_too_short() -> None:
    notes = Notes(problems=["part.events.arrows: what follows byte 8 is cut"])
    with pytest.raises(CorruptDataError, match="what follows byte 8 is cut"):
        Analyser().result(format_name="headrace", notes=notes)


def test_the_first_steps_of_each_rank_are_left_out_and_what_names_no_step_stays() -> None:
    events = [
        event(kind, 10 * n + rank, 9 if n < 2 else 1, rank=rank, step=100 * rank + n)
        for rank in range(2)
        for n in range(6)
        for kind in (Kind.STEP, Kind.LOAD)
    ]
    batch = batch_of([*events, event(Kind.CHECKPOINT_READ, 0, 3, rank=0)])
    warm_up = WarmUp(2)
    for begin in (20, 10, 0):
        warm_up.add(batch.slice(begin, 10))
    (job,) = analysed(batch, warm_up=warm_up).jobs
    assert job.steps == 4 and job.step_s is not None and job.step_s.most == 1
    assert job.loading is not None and job.loading.latency_s.count == 8
    assert job.checkpoint_read is not None


def fetched(*, serves: bool) -> Iterator[Event]:
    """A rank fetches ten times 100 bytes of an agent, which reads 300 for each twice as fast."""
    for n in range(10):
        yield event(Kind.REQUEST, n, 1, name="fetch", rank=0, host="h", bytes=100, replica="a")
        if serves:
            yield event(Kind.REQUEST, n, 0.5, name="read", host="a", bytes=300, file="/f", offset=n)
            yield event(Kind.CALL, n, 0.6, name="serve", host="a", rank=0, bytes=100)
    yield event(Kind.REQUEST, 5, 1, name="read", rank=0, host="h", bytes=1000)


def test_bytes_that_an_agent_read_and_sent_count_for_storage_once() -> None:
    (told, alone) = (of(fetched(serves=serves)).requests for serves in (True, False))
    assert told is not None and alone is not None
    assert_spread(told.read_bytes, [300.0] * 10 + [1000.0])
    assert_spread(told.fetched_bytes, [100.0] * 10)
    assert_spread(told.latency_s, [0.5] * 10 + [1.0])
    assert told.operations == {"read": 11}
    assert_spread(alone.read_bytes, [100.0] * 10 + [1000.0])
    assert alone.fetched_bytes is None


@pytest.mark.parametrize(("serves", "nbytes", "seconds"), [(True, 4000, 6.0), (False, 2000, 11.0)])
def test_evidence_of_storage_is_what_agents_read_where_they_tell_it(
    serves: bool, nbytes: int, seconds: float
) -> None:
    evidence = Evidence()
    for one in fetched(serves=serves):
        evidence.add(Columns(batch_of([one])))
    found = evidence.result("j")
    assert found.history.total(Quantity.READ_BYTES) == nbytes
    assert found.history.total(Quantity.READ_S) == pytest.approx(seconds)
    assert found.history.total(Quantity.READS) == 11
    assert found.reads.median_s() == pytest.approx(0.5 if serves else 1.0, rel=0.1)


@pytest.mark.parametrize(("step", "says"), [(7, "more than 1; skip"), (None, "has a number")])
def test_a_warm_up_that_no_step_outlasts_is_refused(step: int | None, says: str) -> None:
    batch, warm_up = batch_of([event(Kind.STEP, 0, 1, rank=0, step=step)]), WarmUp(1)
    warm_up.add(batch)
    with pytest.raises(CallerError, match=says):
        analysed(batch, warm_up=warm_up)


def test_what_a_trace_cannot_tell_is_named_with_the_reason() -> None:
    notes = Notes(unknown={"ranks": "the format has none"})
    found = analysed(batch_of([event(Kind.STEP, 0, 1, pid=5)]), notes=notes)
    assert found.unknown["ranks"] == "the format has none"
    assert "no event is the loading" in found.unknown["loading"]
    assert "steps" not in found.unknown


def test_damage_makes_the_figures_partial() -> None:
    batch = batch_of([event(Kind.STEP, 0, 1)])
    assert not analysed(batch).is_partial
    assert analysed(batch, notes=Notes(problems=["x: line 3 is cut off"])).is_partial
    assert analysed(batch, notes=Notes(lost_events=2)).is_partial


def test_a_timeline_shows_what_each_rank_was_at() -> None:
    events = [
        event(kind, begin, 60, rank=rank)
        for rank in range(100)
        for kind, begin in (
            (Kind.CHECKPOINT_READ, 0),
            (Kind.WAIT, 60),
            (Kind.STEP, 60),
            (Kind.STEP, 120),
            (Kind.CHECKPOINT_SAVE, 180),
        )
    ]
    earlier = event(Kind.CALL, -100, 1, rank=0)
    timeline = of([*events, earlier]).timeline
    assert timeline is not None and timeline.begin_s == pytest.approx(100)
    assert len(timeline.ranks) == 64 and timeline.ranks[0] == "0" and timeline.ranks[-1] == "99"
    assert timeline.bin_s == pytest.approx(2**30 / S)
    rows = {name: rows[0] for name, rows in timeline.shares.items()}
    shown = ("checkpoint_read", "data", "compute", "checkpoint_save")
    for place, name in enumerate(shown):
        begin, end = (round(60 * at / timeline.bin_s) for at in (place, place + 1))
        assert set(rows[name][begin + 1 : end - 1]) == {"9"}
        assert set(rows[name][: max(begin - 1, 0)] + rows[name][end + 1 :]) == {"0"}


HOSTILE = (0, 1, -1, 2**63 - 1, -(2**63), 2**62, 10**18, -5, 7, 1000)
NAMES = (None, "", "$x$", "\x1b[0m", "ü" * 50, "/a/b.jpg", "x" * 5000, "\n")


def hostile_event(draw: random.Random) -> Event:
    """An event whose values are of the right type, and make no sense."""
    values: dict[str, Any] = {"kind": draw.choice([*Kind, "strange", ""])}
    for name, hint in get_type_hints(Event).items():
        told = str(hint)
        if name == "kind" or (name != "begin_ns" and draw.random() < 0.4):
            continue
        if "dict" in told:
            values[name] = {"requests": draw.choice(HOSTILE), "": 1}
        elif "bool" in told:
            values[name] = draw.random() < 0.5
        else:
            values[name] = draw.choice(HOSTILE if "int" in told else NAMES)
    return Event(**values)


@pytest.mark.parametrize("seed", range(40))
def test_values_that_make_no_sense_break_nothing(seed: int) -> None:
    draw = random.Random(seed)
    events = [hostile_event(draw) for _ in range(draw.choice([1, 2, 5, 40]))]
    try:
        found = analysed(batch_of(events), price_per_hour=2.0)
    except CallerError as error:
        assert "holds no event" in str(error)  # all are of impossible times
        return
    assert list(blocks(found))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Analysis)


def test_events_of_impossible_times_are_left_out_and_make_the_figures_partial() -> None:
    found = analysed(batch_of([event(Kind.STEP, 0, 1), Event(kind="step", begin_ns=2**63 - 1)]))
    assert (found.events, found.is_partial) == (1, True)
    assert "1 events are of impossible times" in found.problems[0]


def test_jobs_share_the_memory_for_stretches_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.analysis.analyser.MOST_STRETCHES", 300)
    analyser = Analyser()
    for begin in range(0, 1_000, 50):
        analyser.add(
            batch_of(
                event(Kind.WAIT, 2 * step, 1, rank=0, job=f"j{number}")
                for number in range(3)
                for step in range(begin, begin + 50)
            )
        )
        assert sum(sums._times._rows for sums in analyser._jobs.values()) <= 300
    for job in analyser.result(format_name="made up", notes=Notes()).jobs:
        assert job.accelerators is not None and job.accelerators.idle_s == pytest.approx(1_000)
