"""Diagnosis: causes are told apart on noisy labelled traces, and nothing is said without need."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from labelled_traces import CAUSES, labelled_trace
from queue_model import indicators

from headrace.core.errors import ConfigError
from headrace.policy.reservation.diagnosis import (
    NOTHING,
    Diagnosis,
    DiagnosisLimits,
    Diagnostician,
    Ramp,
)
from headrace.policy.reservation.events import Indicators, Mode
from headrace.policy.reservation.health import Health, HealthTracker

MODES: tuple[Mode, ...] = ("cold-start", "thrash", "congestion", "transform-bound")
TRACES = 30


class Watcher:
    """A host's tracker and diagnostician together."""

    def __init__(self) -> None:
        self.tracker, self.diagnostician = HealthTracker(), Diagnostician()
        self.health: Health | None = None

    def watch(self, found: Indicators) -> Diagnosis:
        self.health = self.tracker.observe(found)
        return self.diagnostician.observe(found, self.health)


def after(well: int = 40, **usual: float) -> Watcher:
    """Return a watcher of a host that did well for some iterations."""
    watcher = Watcher()
    for number in range(well):
        watcher.watch(indicators(iteration=number, **usual))
    return watcher


def named(trace: list[Indicators], watcher: Watcher) -> Diagnosis:
    return [watcher.watch(found) for found in trace][-1]


def confusion() -> Counter[tuple[Mode, Mode]]:
    """Return how often each mode was said of each, in iterations in which a host was in need."""
    counts: Counter[tuple[Mode, Mode]] = Counter()
    for cause in CAUSES:
        for seed in range(TRACES):
            watcher = Watcher()
            for found, truth in labelled_trace(cause, seed):
                said = watcher.watch(found).mode
                assert watcher.health is not None
                if truth and watcher.health.score < 60:
                    counts[truth, said] += 1
    return counts


def test_on_labelled_traces_precision_and_recall_are_95_percent_for_each_mode() -> None:
    counts = confusion()
    for mode in MODES:
        right = counts[mode, mode]
        said = sum(count for (_, other), count in counts.items() if other == mode)
        true = sum(count for (truth, _), count in counts.items() if truth == mode)
        assert right >= 0.95 * said, f"precision of {mode}: {right} of {said}; {counts}"
        assert right >= 0.95 * true, f"recall of {mode}: {right} of {true}; {counts}"


def test_golden_trace_from_a_cold_start_over_congestion_to_a_busy_cpu() -> None:
    watcher, said = Watcher(), []
    for number in range(90):
        diagnosis = watcher.watch(golden(number))
        if not said or said[-1][1] != diagnosis.mode:
            said.append((number, diagnosis.mode))
    assert said == [
        (0, "cold-start"), (7, "none"), (32, "congestion"), (42, "none"),
        (60, "transform-bound"), (70, "none"),
    ]  # fmt: skip


def golden(number: int) -> Indicators:
    if number < 6:
        return indicators(iteration=number, queue_depth=0, io_latency_s=0.04, hit_rate=0.1)
    if 30 <= number < 42:
        return indicators(
            iteration=number, queue_depth=0, wait_s=0.5, io_latency_s=0.03, queue_share=0.8
        )
    if 60 <= number < 70:
        return indicators(iteration=number, queue_depth=0, wait_s=0.5, transform_share=0.9)
    return indicators(iteration=number)


def test_a_host_that_does_well_is_not_diagnosed_whatever_its_figures_are() -> None:
    watcher = after(0)
    for number in range(40):
        found = indicators(iteration=number, queue_share=0.9, hit_rate=number % 2)
        assert watcher.watch(found) is NOTHING


def test_what_is_unmistakable_is_said_while_health_is_not_yet_tight() -> None:
    for cpu, mode in ((0.95, "transform-bound"), (0.55, "none")):
        watcher = after()
        trace = [
            indicators(iteration=40 + n, queue_depth=3.6, transform_share=cpu) for n in range(12)
        ]
        assert named(trace, watcher).mode == mode
        assert watcher.health is not None
        assert watcher.health.level == "healthy"


def test_waiting_for_its_own_quota_is_not_congestion() -> None:
    trace = [
        indicators(
            iteration=40 + n, queue_depth=0, io_latency_s=0.1, throttled_share=0.9, queue_share=0.08
        )
        for n in range(12)
    ]
    assert named(trace, after()).mode == "none"


def test_waiting_behind_others_is_congestion_even_beside_some_throttling() -> None:
    trace = [
        indicators(
            iteration=40 + n, queue_depth=0, io_latency_s=0.05, throttled_share=0.4, queue_share=0.5
        )
        for n in range(12)
    ]
    diagnosis = named(trace, after())
    assert diagnosis.mode == "congestion"
    assert "waiting behind others takes 50% of preparing" in diagnosis.reason


def test_a_host_whose_data_are_near_is_never_said_to_wait_for_a_link() -> None:
    trace = [
        indicators(iteration=40 + n, queue_depth=0, queue_share=0.9, nic_bytes_per_s=0)
        for n in range(12)
    ]
    assert named(trace, after(nic_bytes_per_s=0)).mode == "none"


def test_a_first_step_that_waits_is_a_cold_start_also_where_preparing_is_work_of_the_cpu() -> None:
    busy = {"transform_share": 0.8, "queue_share": 0.7}
    watcher = after(40, **busy)
    assert named([indicators(iteration=0, queue_depth=0, **busy)], watcher).mode == "cold-start"
    later = [indicators(iteration=n, queue_depth=0, transform_share=0.9) for n in range(1, 12)]
    assert named(later, watcher).mode == "transform-bound"


def test_waiting_for_cores_is_told_from_waiting_for_storage_however_short_the_reads() -> None:
    usual = {"transform_share": 0.7, "queue_share": 0.3}
    for cpu, mode in ((0.85, "transform-bound"), (0.2, "congestion")):
        trace = [
            indicators(
                iteration=40 + n,
                queue_depth=0,
                transform_share=cpu,
                queue_share=0.95,
                io_latency_s=0.1,
            )
            for n in range(12)
        ]
        assert named(trace, after(**usual)).mode == mode


def test_a_host_that_is_sent_much_less_than_is_read_for_it_may_wait_for_a_link() -> None:
    shrunk = {"read_bytes_per_s": 5e6, "nic_bytes_per_s": 0.2e6}
    trace = [
        indicators(iteration=40 + n, queue_depth=0, queue_share=0.9, **shrunk) for n in range(12)
    ]
    assert named(trace, after(**shrunk)).mode == "congestion"


def test_a_queueing_that_is_usual_for_the_host_explains_nothing() -> None:
    trace = [indicators(iteration=60 + n, queue_depth=0, queue_share=0.72) for n in range(12)]
    assert named(trace, after(60, queue_share=0.7)).mode == "none"


def test_congestion_takes_a_queue_that_is_low_for_long() -> None:
    watcher = after()
    found = indicators(queue_depth=0, io_latency_s=0.05, queue_share=0.9)
    assert watcher.watch(found).mode == "none"
    assert named([found] * 3, watcher).mode == "congestion"


def test_a_hit_rate_that_fell_without_a_swing_is_thrash() -> None:
    trace = [
        indicators(iteration=60 + n, queue_depth=0, io_latency_s=0.05, hit_rate=0.3)
        for n in range(30)
    ]
    diagnosis = named(trace, after(60, hit_rate=0.95))
    assert diagnosis.mode == "thrash"
    assert "hit rate 30%" in diagnosis.reason


def test_hits_that_swing_are_thrash_and_remain_so_until_they_are_as_before() -> None:
    watcher = after(60, hit_rate=0.9)
    swinging = [
        indicators(iteration=60 + n, queue_depth=0, hit_rate=0.7 + 0.2 * (-1) ** n)
        for n in range(12)
    ]
    assert named(swinging, watcher).mode == "thrash"
    low = [indicators(iteration=72 + n, queue_depth=0, hit_rate=0.72) for n in range(30)]
    assert named(low, watcher).mode == "thrash"
    warm = [indicators(iteration=102 + n, queue_depth=0, hit_rate=0.9) for n in range(20)]
    assert named(warm, watcher).mode == "none"


def test_hits_that_fall_once_as_at_an_epochs_end_are_no_thrash() -> None:
    watcher = after(60, hit_rate=0.9)
    low = [indicators(iteration=60 + n, queue_depth=0, hit_rate=0.72) for n in range(40)]
    assert {watcher.watch(found).mode for found in low} == {"none"}


def test_congestion_that_comes_in_pulses_is_said_through_the_gaps() -> None:
    watcher = after(60)
    pulses = [
        indicators(
            iteration=60 + n,
            queue_depth=0,
            io_latency_s=0.05,
            queue_share=0.9 * (n % 5 < 3),
            throttled_share=0.95 * (n % 5 >= 3),
        )
        for n in range(40)
    ]
    said = [watcher.watch(found).mode for found in pulses]
    assert set(said[8:]) == {"congestion"}


def test_a_cache_that_is_always_too_small_is_no_thrash() -> None:
    trace = [indicators(iteration=60 + n, queue_depth=0, hit_rate=0.1) for n in range(30)]
    assert named(trace, after(60, hit_rate=0.1)).mode == "none"


def test_a_run_that_begins_again_is_a_cold_start() -> None:
    watcher = after(200)
    trace = [indicators(iteration=n, queue_depth=0, io_latency_s=0.04) for n in range(4)]
    diagnosis = named(trace, watcher)
    assert diagnosis.mode == "cold-start"
    assert "4.0 times the usual" in diagnosis.reason


def test_a_cold_start_lasts_while_the_cache_fills() -> None:
    watcher = Watcher()
    trace = [
        indicators(iteration=n, queue_depth=0, hit_rate=0.01 * n, io_latency_s=0.05)
        for n in range(60)
    ]
    assert {watcher.watch(found).mode for found in trace} == {"cold-start"}


def test_a_need_without_symptoms_is_not_explained() -> None:
    diagnosis = named([indicators(iteration=40 + n, queue_depth=0) for n in range(12)], after())
    assert diagnosis.mode == "none"
    assert diagnosis.reason == ""


shares = st.floats(0, 1)
anything = st.builds(
    indicators,
    iteration=st.integers(0, 1000),
    queue_depth=st.floats(0, 8),
    io_latency_s=st.floats(0, 1e18),
    queue_share=shares,
    throttled_share=shares,
    hit_rate=shares,
    transform_share=shares,
    nic_bytes_per_s=st.floats(0, 1e18),
    read_bytes_per_s=st.floats(0, 1e18),
)


@settings(deadline=None)
@given(st.lists(anything, min_size=1, max_size=40))
def test_whatever_is_reported_the_answer_is_a_mode_with_a_confidence(
    trace: list[Indicators],
) -> None:
    watcher = Watcher()
    for found in trace:
        diagnosis = watcher.watch(found)
        assert 0 <= diagnosis.confidence <= 1
        assert bool(diagnosis.reason) == (diagnosis.mode != "none")


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="window"):
        DiagnosisLimits(window=2)
    with pytest.raises(ConfigError, match="say_from"):
        DiagnosisLimits(say_from=0)
    with pytest.raises(ConfigError, match="slope"):
        Ramp(none=1, sure=1)
