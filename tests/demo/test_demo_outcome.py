"""From steps to figures, ratios and the proof."""

from __future__ import annotations

import math

import msgspec
import pytest
from demo_made_up import comparison, demo_result, segment

from headrace.demo.outcome import (
    compared_steps,
    figures,
    missed_goals,
    ratio,
    unequal_steps,
)
from headrace.demo.result import result_document, tables


def test_warm_up_steps_count_for_nothing() -> None:
    one = segment("local", first_step=0, begin_s=0.0, wait_s=0.5, cpu_s=0.02)
    slow_start = msgspec.structs.replace(one.steps[0], wait_s=100.0)
    other = segment("local", first_step=0, begin_s=0.0, wait_s=0.5, cpu_s=0.02)
    object.__setattr__(other, "steps", (slow_start, *other.steps[1:]))
    assert figures([other]) == figures([one])


def test_cpu_per_sample_is_what_was_spent_between_the_last_warm_up_step_and_the_last() -> None:
    one = segment("local", first_step=0, begin_s=0.0, wait_s=0.5, cpu_s=0.02)
    assert figures([one]).trainer_cpu_s_per_sample == pytest.approx(0.02)


def test_stall_is_the_share_of_time_spent_waiting() -> None:
    one = segment("local", first_step=0, begin_s=0.0, wait_s=0.2, cpu_s=0.02, step_s=0.2)
    waited = sum(step.wait_s for step in one.counted)
    assert figures([one]).stall_share == pytest.approx(waited / (waited + 0.2 * 10))


def test_a_ratio_to_nothing_is_not_a_number_and_misses_its_goal() -> None:
    idle = segment("local", first_step=0, begin_s=0.0, wait_s=0.0, cpu_s=0.02)
    measured = ratio(figures([idle]), figures([idle]))
    assert math.isnan(measured.stall)
    assert "stall" in missed_goals(measured)


def test_equal_digests_of_the_same_step_are_equal_batches() -> None:
    assert unequal_steps(comparison(begin_s=0.0).segments) == []


def test_one_other_byte_is_noticed_by_step() -> None:
    ours = comparison(begin_s=0.0, ours="other")
    assert unequal_steps(ours.segments) == list(range(24))
    assert compared_steps(ours.segments) == 24


def test_steps_that_ran_only_once_were_not_compared() -> None:
    alone = segment("local", first_step=0, begin_s=0.0, wait_s=0.1, cpu_s=0.01)
    assert compared_steps([alone]) == 0


def test_the_json_object_has_the_names_that_all_benchmarks_have() -> None:
    value = msgspec.json.decode(msgspec.json.encode(result_document(demo_result())))
    assert value["name"] == "demo"
    assert {"date", "machine", "commit", "settings", "baseline", "headrace"} <= value.keys()
    assert set(value["ratio"]) == {"stall", "p99", "trainer_cpu", "throughput"}
    assert len(value["repeats"]) == 2
    assert value["digests"] == {"compared": 24, "unequal": []}
    assert value["settings"]["pipeline"] == []


def test_the_table_says_so_when_batches_differ() -> None:
    main, _ = tables(demo_result(ours="other"))
    assert "DIFFER" in main.note


def test_the_table_says_what_was_left_out() -> None:
    main, _ = tables(demo_result())
    assert "first 2 steps of every segment" in main.note
    assert "bit-identical" in main.note


def test_the_table_says_when_the_machine_was_busy_with_something_else() -> None:
    main, _ = tables(demo_result())
    assert "sent 6 samples raw because other work" in main.note
