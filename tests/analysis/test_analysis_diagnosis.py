"""Causes of lost time: named where numbers show them, and nowhere else."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import click
import pytest
from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is no package of the wheel

from bench.diagnosis.cases import INJECTIONS, labelled
from bench.diagnosis.model import run
from headrace.analysis.analyser import Analyser
from headrace.analysis.causes import (
    ANSWERS,
    CHECKPOINT_PLAN,
    CHECKPOINT_UNTOLD,
    REMOTE_CHECKPOINT,
    SAVING,
    Answer,
    Cause,
)
from headrace.analysis.evidence import CACHED
from headrace.analysis.figures import Finding
from headrace.analysis.overview import finding_facts
from headrace.analysis.thresholds import Thresholds
from headrace.cli.main import cli
from headrace.core.errors import ConfigError
from headrace.policy.reservation.events import Mode
from headrace.trace.events import Event, Kind, Phase, batch_of
from headrace.trace.importer import Notes

S = 1_000_000_000
REPORTS = Path(__file__).parents[2] / "bench" / "reports"
DEVELOPMENT_SEED = 5_000_000
"""None of the scored ones."""


def findings(*batches: Any) -> tuple[Finding, ...]:
    analyser = Analyser()
    for batch in batches:
        analyser.add(batch)
    return analyser.result(format_name="made up", notes=Notes()).findings


def event(kind: Kind, begin_s: float, duration_s: float | None, **more: Any) -> Event:
    duration_ns = None if duration_s is None else round(duration_s * S)
    return Event(kind=kind, begin_ns=round((1000 + begin_s) * S), duration_ns=duration_ns, **more)


def steps(
    *,
    ranks: int = 2,
    count: int = 60,
    wait_s: float = 0.3,
    load_s: float = 0.4,
    slow_rank: int | None = None,
) -> Iterator[Event]:
    """A loop that waits in each step of a second for a load whose parts are not told."""
    for rank in range(ranks):
        for step in range(count):
            more = {"rank": rank, "host": f"host-{rank}", "step": step}
            waited_s = wait_s if slow_rank in (None, rank) else 0.0
            took_s = 0.9 if rank == slow_rank else load_s
            yield event(Kind.WAIT, step, waited_s, **more)
            yield event(Kind.STEP, step, 1.0, **more)
            yield event(Kind.LOAD, step - 0.5, took_s, **more)


def with_parts(events: Iterable[Event], **shares: float) -> Iterator[Event]:
    for one in events:
        yield one
        if one.kind == Kind.LOAD:
            assert one.duration_ns is not None
            for kind, share in shares.items():
                took_s = share * one.duration_ns / S
                begin_s = one.begin_ns / S - 1000
                yield event(Kind(kind), begin_s, took_s, rank=one.rank, host=one.host)


class Stretch(NamedTuple):
    """Steps of a rank that computes for a second in each."""

    steps: int
    wait_s: float
    read_s: float
    """Of what a step takes: 100 MB."""

    hit: float | None = None
    stands_s: float = 0.0
    """For which it saves a checkpoint first."""


def loop(*stretches: Stretch) -> list[Event]:
    """One rank that goes through one stretch after another.

    While it saves a checkpoint the batches of the stretch are loaded already.
    """
    at_s, found = 0.0, []
    more: dict[str, Any] = {"rank": 0, "host": "host-0"}
    for steps, wait_s, read_s, hit, stands_s in stretches:
        saved_s = at_s
        if stands_s:
            found.append(event(Kind.CHECKPOINT_SAVE, at_s, stands_s, **more))
            at_s += stands_s
        load = {"bytes": 10**8, "counts": None if hit is None else {CACHED: round(hit * 1e8)}}
        for step in range(steps):
            end_s = saved_s + stands_s * (step + 1) / steps if stands_s else at_s + wait_s
            found += [
                event(Kind.WAIT, at_s, wait_s, **more),
                event(Kind.STEP, at_s, wait_s + 1, **more),
                event(Kind.LOAD, end_s - read_s, read_s, **load, **more),
                event(Kind.RETRIEVAL, end_s - read_s, read_s, bytes=10**8, **more),
            ]
            at_s += wait_s + 1
    return found


def causes(events: Iterable[Event]) -> list[Cause]:
    return [Cause(one.cause) for one in findings(batch_of(events))]


@pytest.mark.parametrize("cause", [cause for cause in INJECTIONS if cause is not Cause.NONE])
def test_an_injected_cause_is_named_with_numbers_and_what_helps(cause: Cause) -> None:
    found = findings(run(labelled(DEVELOPMENT_SEED + 1000, (cause,))).events())
    assert found[0].cause == cause
    assert found[0].lost_share >= Thresholds().lost_share
    assert any(letter.isdigit() for line in found[0].evidence for letter in line)
    assert found[0].command
    assert (found[0].expected_gain is None) == (not found[0].basis)


def test_a_job_that_loses_little_has_nothing_wrong() -> None:
    (one,) = findings(batch_of(steps(wait_s=0.015)))
    assert one.cause == Cause.NONE
    assert one.command == ""
    assert one.lost_share == pytest.approx(0.015, rel=0.05)


def test_no_cause_is_named_where_the_trace_does_not_tell_what_loads_did() -> None:
    (one,) = findings(batch_of(steps(wait_s=0.3)))
    assert one.cause == Cause.UNEXPLAINED
    assert "what the trace does not tell took 100 % of loading" in one.evidence


def test_nothing_is_said_where_it_is_not_known_whether_anything_waited() -> None:
    requests = (event(Kind.REQUEST, at, 0.5, bytes=1000, file="a", offset=0) for at in range(20))
    assert findings(batch_of(requests)) == ()
    assert findings(batch_of([event(Kind.METADATA, 0, None, name="open")])) == ()


def test_the_part_that_takes_most_of_loading_is_to_blame_where_all_windows_wait() -> None:
    for part, cause in (
        ("transformation", Cause.TRANSFORM_BOUND),
        ("metadata", Cause.METADATA_BOUND),
    ):
        (one,) = findings(batch_of(with_parts(steps(), **{part: 0.8, "retrieval": 0.2})))
        assert one.cause == cause
        assert one.lost_s == pytest.approx(2 * 60 * 0.3)


def test_no_part_is_to_blame_for_waits_that_are_far_longer_than_all_loading() -> None:
    started = event(Kind.WAIT, -30, 29, rank=0, host="host-0", step=-1)
    loads = with_parts(steps(ranks=1, wait_s=0.0), transformation=0.9, retrieval=0.1)
    (one,) = findings(batch_of([started, *loads]))
    assert one.cause == Cause.UNEXPLAINED


def test_reads_whose_bytes_are_not_told_are_not_called_small() -> None:
    (one,) = findings(batch_of(with_parts(steps(), retrieval=0.9, transformation=0.1)))
    assert one.cause == Cause.STORAGE_BANDWIDTH_BOUND
    assert not any("nan" in line or "0 B" in line for line in one.evidence)


def test_no_part_is_to_blame_that_takes_less_than_half() -> None:
    parts = {"transformation": 0.45, "metadata": 0.1, "overhead": 0.45}
    (one,) = findings(batch_of(with_parts(steps(), **parts)))
    assert one.cause == Cause.UNEXPLAINED
    assert one.evidence[1:] == (
        "finding files took 10 % of loading",
        "transforming took 45 % of loading",
        "what is none of these took 45 % of loading",
    )
    assert one.command == ""  # recording more would tell no more


def test_unexplained_time_at_checkpoints_is_not_called_waiting_for_data() -> None:
    quiet = list(steps(ranks=2, wait_s=0.0))
    (one,) = findings(batch_of([*checkpoint(2), *quiet]))
    assert one.cause == Cause.UNEXPLAINED
    assert one.evidence == ("up to 2 of 2 ranks at once, 20.0 s in all for reading checkpoints",)
    assert (one.answer, one.command) == (CHECKPOINT_UNTOLD.text, CHECKPOINT_UNTOLD.command)


def test_a_job_of_one_rank_has_none_that_read_at_once() -> None:
    quiet = list(steps(ranks=1, wait_s=0.0))
    (one,) = findings(batch_of([*checkpoint(1), *quiet]))
    assert one.evidence == ("10.0 s in all for reading checkpoints",)


def test_unexplained_time_at_checkpoints_whose_requests_are_told_asks_for_no_more_records() -> None:
    quiet = list(steps(ranks=2, wait_s=0.0))
    (one,) = findings(batch_of([*checkpoint(2, request_bytes=10**7), *quiet]))
    assert (one.cause, one.answer) == (Cause.UNEXPLAINED, CHECKPOINT_PLAN.text)


def test_waits_of_a_trace_without_loads_are_not_held_against_parts_of_loading() -> None:
    waits = [one for one in steps() if one.kind != Kind.LOAD]
    (one,) = findings(batch_of(waits))
    assert one.evidence == ("ranks waited 36.0 s for data, and the trace tells nothing of loading",)


def test_no_part_is_to_blame_that_takes_far_less_time_than_was_waited() -> None:
    events = with_parts(steps(load_s=0.1), transformation=0.9, retrieval=0.1)
    (one,) = findings(batch_of(events))
    assert one.cause == Cause.UNEXPLAINED


def test_a_start_in_which_hardly_anything_was_loaded_is_no_cold_start() -> None:
    calm = with_parts(steps(wait_s=0.0, load_s=0.02), retrieval=1.0)
    workers_begin = [event(Kind.WAIT, -10, 10, rank=rank, host=f"host-{rank}") for rank in (0, 1)]
    (one,) = findings(batch_of([*workers_begin, *calm]))
    assert one.cause == Cause.UNEXPLAINED


def test_reads_whose_bytes_are_not_known_are_not_called_small() -> None:
    (one,) = findings(batch_of(with_parts(steps(), retrieval=0.9, transformation=0.1)))
    assert one.cause == Cause.STORAGE_BANDWIDTH_BOUND
    assert one.evidence[1:] == ("reading took 90 % of loading",)


def test_waits_in_which_accelerators_computed_cost_nothing() -> None:
    loop = with_parts(steps(), transformation=1.0)
    computed = [event(Kind.COMPUTE, step + 0.2, 0.8, rank=r) for step in range(60) for r in (0, 1)]
    (one,) = findings(batch_of([*loop, *computed]))
    assert one.cause == Cause.TRANSFORM_BOUND
    assert one.lost_s == pytest.approx(2 * 60 * 0.2)
    assert "accelerators computed in 12.0 s of all that was waited" in one.evidence


def test_shares_are_of_the_time_in_which_the_loop_ran() -> None:
    before = event(Kind.METADATA, -100, 1, rank=0, host="host-0", name="open")
    (one,) = findings(batch_of([before, *steps(wait_s=0.01)]))
    assert one.lost_share == pytest.approx(0.01, rel=0.05)
    assert one.evidence == ("1.0 % of the ranks' time was lost to data and checkpoints",)


def test_one_slow_host_is_named_and_all_ranks_lose_what_its_own_wait() -> None:
    events = with_parts(steps(ranks=4, slow_rank=3), transformation=0.9, retrieval=0.1)
    (one,) = findings(batch_of(events))
    assert one.cause == Cause.STRAGGLER
    assert one.hosts == ("host-3",)
    assert one.lost_s == pytest.approx(4 * 60 * 0.3)


def test_a_straggler_among_so_many_that_hardly_any_rank_waits_is_named() -> None:
    events = with_parts(steps(ranks=24, slow_rank=3), transformation=0.9, retrieval=0.1)
    (one,) = findings(batch_of(events))
    assert (one.cause, one.hosts) == (Cause.STRAGGLER, ("host-3",))
    assert one.lost_s == pytest.approx(24 * 60 * 0.3)
    assert "the trace does not tell" in one.evidence[-1]


def test_ranks_lose_to_a_straggler_no_more_than_they_waited_for_each_other() -> None:
    barriers = [
        event(Kind.BARRIER, step + 0.9, 0.1, rank=rank) for step in range(60) for rank in range(3)
    ]
    events = with_parts(steps(ranks=4, slow_rank=3), transformation=0.9, retrieval=0.1)
    (one,) = findings(batch_of([*events, *barriers]))
    assert one.lost_s == pytest.approx(60 * (0.3 + 3 * 0.1))


def test_a_slow_rank_beside_fast_ones_of_the_same_host_is_named() -> None:
    events = with_parts(steps(ranks=4, slow_rank=3), transformation=0.9, retrieval=0.1)
    (one,) = findings(batch_of([replace(event, host="host") for event in events]))
    assert (one.cause, one.hosts, one.ranks) == (Cause.STRAGGLER, ("host",), (3,))
    assert one.evidence[0].startswith("a load takes 900 ms on rank 3 on host, ")


def test_samples_of_batches_are_no_loads_beside_these() -> None:
    """The slowest sample of each batch waits in vain for the same server on all hosts."""
    batches = list(with_parts(steps(ranks=3, slow_rank=2), transformation=0.9, retrieval=0.1))
    samples = [
        event(Kind.LOAD, step, 2.0, rank=rank, host=f"host-{rank}", sample="s")
        for step in range(60)
        for rank in range(3)
    ]
    (one,) = findings(batch_of([*batches, *samples]))
    assert (one.cause, one.hosts) == (Cause.STRAGGLER, ("host-2",))


def test_samples_are_the_loads_of_a_trace_that_tells_no_batches() -> None:
    events = with_parts(steps(ranks=3, slow_rank=2), transformation=0.9, retrieval=0.1)
    of_samples = [replace(one, sample="s") if one.kind == Kind.LOAD else one for one in events]
    assert findings(batch_of(of_samples))[0].hosts == ("host-2",)


def test_hosts_that_are_all_slow_are_no_stragglers() -> None:
    events = with_parts(steps(ranks=4), transformation=0.9, retrieval=0.1)
    assert [one.cause for one in findings(batch_of(events))] == [Cause.TRANSFORM_BOUND]


CACHED_WELL = Stretch(40, 0.0, 0.2, hit=0.8)


@pytest.mark.parametrize(
    ("hit", "read_s", "cause"),
    [
        (0.7, 0.3, Cause.THRASH),  # 1.5 times the misses, 1.5 times the time
        (0.5, 0.6, Cause.THRASH),  # 2.5 times the misses, 3 times the time
        (0.5, 2.0, Cause.CONGESTION),  # 2.5 times the misses, 10 times the time
        (0.79, 0.6, Cause.CONGESTION),
    ],
)
def test_what_made_reading_slower_by_the_larger_factor_is_to_blame(
    hit: float, read_s: float, cause: Cause
) -> None:
    slow = Stretch(20, read_s, read_s, hit)
    (one,) = findings(batch_of(loop(CACHED_WELL, slow, CACHED_WELL)))
    assert one.cause == cause
    assert any("out of a cache, usually 80 %" in line for line in one.evidence)


def test_a_cache_that_loses_what_it_held_in_a_cold_start_thrashes() -> None:
    cold, lost = Stretch(30, 0.5, 1.5, hit=0.8), Stretch(30, 0.5, 1.5, hit=0.0)
    assert set(causes(loop(cold, lost, CACHED_WELL))) == {Cause.COLD_START, Cause.THRASH}


def test_hits_that_vary_while_waits_hardly_do_are_no_thrash() -> None:
    """What a cache holds of an epoch varies; the job is bound by storage in all of it."""
    more, fewer = Stretch(10, 0.5, 1.5, hit=0.6), Stretch(10, 0.6, 1.6, hit=0.4)
    assert causes(loop(*(more, fewer) * 4)) == [Cause.STORAGE_BANDWIDTH_BOUND]


def test_what_is_usual_is_judged_by_loads_and_not_by_how_long_waits_last() -> None:
    quick, slow = Stretch(40, 0.0, 0.2), Stretch(30, 6.0, 7.0)
    assert causes(loop(quick, slow)) == [Cause.CONGESTION]


def test_a_queue_that_fills_while_the_loop_saves_does_not_tell_what_is_usual() -> None:
    bound = Stretch(20, 0.3, 1.3)
    saved = Stretch(10, 0.0, 0.3, stands_s=40.0)
    assert causes(loop(bound, saved, bound, saved, bound)) == [Cause.STORAGE_BANDWIDTH_BOUND]


def test_how_fast_a_checkpoint_was_read_does_not_tell_what_is_usual() -> None:
    reads = [
        event(Kind.REQUEST, at, 0.1, bytes=10**8, is_write=False, rank=0, file="weights", offset=at)
        for at in range(-60, 0)
    ]
    loads = loop(Stretch(40, 0.6, 1.3), Stretch(10, 0.3, 0.12), Stretch(60, 0.3, 1.3))
    asked = [
        replace(one, kind=Kind.REQUEST, is_write=False)
        for one in loads
        if one.kind == Kind.RETRIEVAL
    ]
    read = event(Kind.CHECKPOINT_READ, -60, 60, rank=0, host="host-0")
    assert Cause.COLD_START not in causes([read, *reads, *asked, *loads])


def test_a_job_that_always_waits_has_a_cold_start_only_if_it_outlasts_the_filling_of_queues() -> (
    None
):
    bound = Stretch(60, 0.3, 1.3)
    assert causes(loop(Stretch(3, 2.0, 3.0), bound)) == [Cause.STORAGE_BANDWIDTH_BOUND]
    assert Cause.COLD_START in causes(loop(Stretch(15, 2.0, 3.0), bound))


def checkpoint(ranks: int, *, apart_s: float = 0.0, request_bytes: int = 0) -> Iterator[Event]:
    for rank in range(ranks):
        more: dict[str, Any] = {"rank": rank, "phase": Phase.INITIALISATION}
        begin_s = -100 + rank * apart_s
        yield event(Kind.CHECKPOINT_READ, begin_s, 10, bytes=10**9, **more)
        for request in range(100 if request_bytes else 0):
            at_s = begin_s + request * 0.1
            yield event(Kind.REQUEST, at_s, 0.1, bytes=request_bytes, is_write=False, **more)


def test_many_ranks_at_one_checkpoint_are_a_storm_and_few_or_one_after_the_other_are_not() -> None:
    quiet = list(steps(ranks=8, wait_s=0.0))
    (one,) = findings(batch_of([*checkpoint(8), *quiet]))
    assert one.cause == Cause.CHECKPOINT_STORM
    assert one.lost_s == pytest.approx(80)
    (other,) = findings(batch_of([*checkpoint(8, apart_s=10), *quiet]))
    assert other.cause != Cause.CHECKPOINT_STORM


def test_a_checkpoint_that_is_saved_in_the_background_costs_nothing() -> None:
    quiet = list(steps(ranks=8, wait_s=0.001))
    saves = [
        event(Kind.CHECKPOINT_SAVE, 20.5, 10, bytes=10**9, rank=rank, host=f"host-{rank}")
        for rank in range(8)
    ]
    (one,) = findings(batch_of([*saves, *quiet]))
    assert one.cause == Cause.NONE


def test_a_checkpoint_that_is_read_in_small_requests_is_bound_by_round_trips() -> None:
    quiet = list(steps(ranks=2, wait_s=0.0))
    (one,) = findings(batch_of([*checkpoint(2, request_bytes=15_000), *quiet]))
    assert one.cause == Cause.RTT_BOUND
    assert one.command.startswith("headrace replicate")


def test_an_absurd_duration_is_left_out() -> None:
    broken = Event(kind=Kind.WAIT, begin_ns=2**62, duration_ns=2**62, rank=0)
    assert findings(batch_of([*steps(wait_s=0.0), broken]))[0].cause == Cause.NONE


def test_causes_that_live_reports_know_have_the_same_names() -> None:
    assert set(get_args(Mode)) <= {cause.value for cause in Cause}


def test_a_gain_is_at_most_what_the_rest_of_loading_leaves() -> None:
    """Ranks wait 0.6 of 1 s; without transforms loading would take 0.4 of what it takes."""
    events = with_parts(steps(wait_s=0.6, load_s=1.0), transformation=0.6, retrieval=0.4)
    (all_of_it,) = findings(batch_of(events))
    assert all_of_it.gain_at_most_s == pytest.approx(all_of_it.lost_s, rel=0.05)
    events = with_parts(steps(wait_s=0.9, load_s=1.0), transformation=0.6, retrieval=0.4)
    (part,) = findings(batch_of(events))
    assert part.lost_s == pytest.approx(2 * 60 * 0.9, rel=0.05)
    assert part.gain_at_most_s == pytest.approx(2 * 60 * 0.6, rel=0.05)
    gains = [told for name, told in finding_facts(1, part, names_job=False).items if name == "gain"]
    assert gains[0].startswith("at most 7") and "ranks would wait 3" in gains[0]
    assert gains[1].startswith("takes away 96 %")


def read_files(*files: tuple[str, float], kind: Kind = Kind.REQUEST) -> Iterator[Event]:
    """Files that are read again and again while ranks wait, each for a share of a second."""
    for step in range(60):
        for file, took_s in files:
            name = "open" if kind == Kind.METADATA else None
            yield event(kind, step, took_s, rank=0, file=file, name=name, offset=0, bytes=10**8)


def test_files_whose_reads_take_a_fifth_of_the_time_are_named_busiest_first() -> None:
    bound = list(with_parts(steps(load_s=0.9), retrieval=0.9, transformation=0.1))
    reads = read_files(("hot", 0.5), ("warm", 0.25), *((f"cold-{n}", 0.05) for n in range(5)))
    (one,) = findings(batch_of([*bound, *reads]))
    assert (one.cause, one.files) == (Cause.STORAGE_BANDWIDTH_BOUND, ("hot", "warm"))
    assert ("files", "hot, warm") in finding_facts(1, one, names_job=False).items


def test_files_are_of_the_time_in_which_they_held_up_the_job() -> None:
    calm, slow = Stretch(40, 0.0, 0.2), Stretch(20, 2.0, 3.0)
    loads = loop(calm, slow, calm)
    reads = [
        replace(one, kind=Kind.REQUEST, is_write=False, file="late" if took == 3.0 else "early")
        for one in loads
        if one.kind == Kind.RETRIEVAL and (took := (one.duration_ns or 0) / S)
    ]
    (one,) = findings(batch_of([*loads, *reads]))
    assert (one.cause, one.files) == (Cause.CONGESTION, ("late",))


def test_files_that_take_long_to_find_and_those_of_a_checkpoint_are_named() -> None:
    lost = list(with_parts(steps(), metadata=0.9, retrieval=0.1))
    (one,) = findings(batch_of([*lost, *read_files(("folder", 0.5), kind=Kind.METADATA)]))
    assert (one.cause, one.files) == (Cause.METADATA_BOUND, ("folder",))
    read = [replace(one, file="weights") for one in checkpoint(8)]
    (one,) = findings(batch_of([*read, *steps(ranks=8, wait_s=0.0)]))
    assert (one.cause, one.files) == (Cause.CHECKPOINT_STORM, ("weights",))


def test_files_that_the_slowest_loads_of_a_straggler_have_in_common_are_named() -> None:
    events = list(with_parts(steps(ranks=4, slow_rank=3), transformation=0.9, retrieval=0.1))
    heavy = [
        replace(one, file="heavy" if one.rank == 3 else f"light-{one.step}", sample="s")
        for one in events
        if one.kind == Kind.LOAD
    ]
    (one,) = findings(batch_of([*events, *heavy]))
    assert (one.cause, one.files) == (Cause.STRAGGLER, ("heavy",))


ALL_ANSWERS = [*ANSWERS.values(), CHECKPOINT_PLAN, CHECKPOINT_UNTOLD, REMOTE_CHECKPOINT, SAVING]


@pytest.mark.parametrize("answer", [one for one in ALL_ANSWERS if one.command])
def test_commands_that_are_proposed_exist(answer: Answer) -> None:
    program, *words = shlex.split(answer.command)
    assert program == "headrace"
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None, answer.command
        command = found
    options = {option for one in command.params for option in one.opts}
    assert {word for word in words if word.startswith("--") and word != "--"} <= options


@pytest.mark.parametrize(
    ("answer", "report", "keys"),
    [
        (ANSWERS[Cause.TRANSFORM_BOUND], "offload", ("ratio", "stall")),
        (ANSWERS[Cause.STRAGGLER], "offload", ("ratio", "p99")),
        (ANSWERS[Cause.COLD_START], "reservation", ("ratio", "cold_start")),
        (ANSWERS[Cause.THRASH], "reservation", ("ratio", "thrash")),
        (ANSWERS[Cause.CONGESTION], "reservation", ("ratio", "congestion")),
        (ANSWERS[Cause.CHECKPOINT_STORM], "startup", ("ratio", "load_time")),
        (REMOTE_CHECKPOINT, "evaluation", ("ratio", "with_copy")),
    ],
)
def test_expected_gains_are_those_of_the_reports(
    answer: Answer, report: str, keys: tuple[str, ...]
) -> None:
    found = json.loads((REPORTS / f"{report}.json").read_text())
    for key in keys:
        found = found[key]
    assert answer.gain is not None
    assert answer.gain == pytest.approx(1 - found, abs=0.0006)
    assert f"{found:.3f}" in answer.basis


def test_a_threshold_that_is_no_share_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"lost_share=1\.5"):
        Thresholds(lost_share=1.5)
