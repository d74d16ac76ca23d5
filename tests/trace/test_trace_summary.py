"""A trace's summary: stall, percentiles, rates, the slowest rank."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from headrace.core.errors import CallerError
from headrace.trace.steps import StepRecord, arrow_schema
from headrace.trace.summary import summarise


def trace(*steps: dict[str, Any]) -> pa.Table:
    filled = {"job": "j", "rank": 0, "epoch": 0, "begin_s": 0.0, "step_s": 1.0, "wait_s": 0.0}
    rows = [
        msgspec.structs.asdict(StepRecord(**{**filled, "step": number, **step}))
        for number, step in enumerate(steps)
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema())


def test_stall_is_the_share_of_time_spent_waiting() -> None:
    summary = summarise(trace({"wait_s": 0.5, "step_s": 1.5}, {"wait_s": 0.0, "step_s": 0.5}))
    assert summary.stall_share == pytest.approx(0.25)


def test_ranks_work_side_by_side_so_their_rates_add_up() -> None:
    table = trace(
        {"samples": 10, "step_s": 1.0, "rank": 0}, {"samples": 10, "step_s": 2.0, "rank": 1}
    )
    summary = summarise(table)
    assert (summary.ranks, summary.steps, summary.samples) == (2, 2, 20)
    assert summary.samples_per_s == pytest.approx(15.0)


def test_the_straggler_gap_is_the_slowest_rank_against_the_mean() -> None:
    table = trace(*({"rank": rank, "wait_s": wait} for rank, wait in enumerate([0.1, 0.1, 0.7])))
    assert summarise(table).straggler_gap_s == pytest.approx(0.4)


def test_percentiles_are_of_all_steps() -> None:
    wait = summarise(trace(*({"wait_s": number / 100} for number in range(101)))).wait
    assert (wait.p50_s, wait.p90_s, wait.p99_s, wait.max_s) == pytest.approx((0.5, 0.9, 0.99, 1.0))
    assert wait.mean_s == pytest.approx(0.5)


def test_sums_and_the_trainers_cpu_per_sample() -> None:
    one = {"samples": 4, "trainer_cpu_s": 0.2, "bytes_wire": 7, "samples_raw": 1, "read_s": 0.5}
    summary = summarise(trace(one, one))
    assert summary.trainer_cpu_s_per_sample == pytest.approx(0.05)
    assert (summary.bytes_wire, summary.samples_raw, summary.read_s) == (14, 2, 1.0)


def test_warm_up_steps_of_each_rank_are_left_out_whatever_their_order_in_the_file() -> None:
    table = trace(
        {"rank": 0, "step": 1, "wait_s": 1.0},
        {"rank": 1, "step": 0, "wait_s": 9.0},
        {"rank": 0, "step": 0, "wait_s": 9.0},
        {"rank": 1, "step": 1, "wait_s": 1.0},
    )
    summary = summarise(table, skip=1)
    assert summary.steps == 2
    assert summary.wait.max_s == 1.0


@pytest.mark.parametrize("skip", [0, 5])
def test_nothing_left_to_summarise_is_an_error(skip: int) -> None:
    table = trace() if skip == 0 else trace({}, {})
    with pytest.raises(CallerError, match=f"after the first {skip}"):
        summarise(table, skip=skip)
