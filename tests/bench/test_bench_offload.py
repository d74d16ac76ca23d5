"""The offload benchmark's pure parts: counters, premise, ratios, and what it reports."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is no package of the wheel

from bench.measuring import publish
from bench.offload.counters import GROUPS, Counters, Use, added, use_between
from bench.offload.data import Stored
from bench.offload.experiments import DataNodeCost, Measured, Tuning
from bench.offload.ownership import Ownership
from bench.offload.page import report_page
from bench.offload.premise import Premise, Quotas, even_quotas, just_in_time_step, premise_line
from bench.offload.reading import Reading, rate_between
from bench.offload.result import Result, main_table, missed, others_tables, report_of
from bench.offload.scale import QUICK
from bench.offload.trial import Trial, side
from headrace.demo.comparison import Comparison
from headrace.demo.meter import CpuSample
from headrace.demo.outcome import Segment
from headrace.demo.protocol import Mode, SegmentEnd, SegmentPlan, Stepped
from headrace.report.html import render_page
from headrace.report.provenance import program

KEYS = {"name", "date", "machine", "commit", "settings", "baseline", "headrace", "ratio", "repeats"}
QUOTAS = Quotas(trainer=0.25, storage=0.5, storage_hosts=3)
PREMISE = Premise(quotas=QUOTAS, background=0.25, step_s=0.2, rate_mbit_per_s=1000)
STEPS = 10


def segment(mode: Mode, *, first_step: int, begin_s: float, wait_s: float, digest: str) -> Segment:
    """A segment whose counted steps all wait equally long."""
    plan = SegmentPlan(
        mode=mode, root="hdfs://h/d", pipeline="[]", batch_size=8, seed=7, first_step=first_step,
        warmup_steps=1, steps=STEPS, step_s=0.2, first_step_s=0.2, workers=1, cpus=(),
    )  # fmt: skip
    length_s = wait_s + plan.step_s
    steps = tuple(
        Stepped(
            step=first_step + number, counted=number > 0, samples=8, wait_s=wait_s,
            begin_s=begin_s + number * length_s, end_s=begin_s + (number + 1) * length_s,
            loading_cpu_s=number * (0.16 if mode == "torch" else 0.008), ready_batches=1,
            digest=f"{digest}{first_step + number}",
        )
        for number in range(1 + STEPS)
    )  # fmt: skip
    end = SegmentEnd(
        wire_bytes=0, samples_prepared=0, samples_raw={"late": 2} if mode == "headrace" else {},
        samples_hedged=0, samples_local=0, read_s=0.0, transform_s=0.0, substituted={},
    )  # fmt: skip
    return Segment(plan=plan, steps=steps, end=end)


def trial(*, wait_s: tuple[float, float] = (0.6, 0.006), ours: str = "d") -> Trial:
    """Two pairs of segments in which the loaders wait for so long."""
    segments = []
    for pair in range(2):
        first, begin_s = 100 * pair, 20.0 * pair
        segments += [
            segment("torch", first_step=first, begin_s=begin_s, wait_s=wait_s[0], digest="d"),
            segment(
                "headrace", first_step=first, begin_s=begin_s + 10, wait_s=wait_s[1], digest=ours
            ),
        ]
    use = Use(seconds=5.0, cpu_s=dict.fromkeys(GROUPS, 1.0), trainer_bytes=8e6)
    return Trial(premise=PREMISE, comparison=Comparison(segments=tuple(segments)), use=(use,) * 4)


def result(*, ours: str = "d") -> Result:
    """A finished benchmark with made-up numbers."""
    measured = Measured(
        idle_agent_cores=0.002,
        batch_cpu_s=0.15,
        tuning=Tuning(tried={(1, 4): 0.9, (2, 4): 0.8}),
        main=trial(ours=ours),
        busy=trial(wait_s=(0.6, 0.6), ours=ours),
        even=trial(ours=ours),
        sweep=(trial(wait_s=(0.001, 0.001), ours=ours),),
        reading=DataNodeCost(idle=(1e8, 1.1e8), beside=(0.98e8, 1.08e8), prepared=70, raw=10),
    )
    stored = Stored(url="hdfs://h/d", samples=2000, size_bytes=10**9, origin="Of moons.")
    return Result(scale=QUICK, stored=stored, measured=measured)


def test_the_report_has_the_keys_and_ratios_that_stay(tmp_path: Path) -> None:
    publish(report_of(result()), tmp_path)
    written: dict[str, Any] = msgspec.json.decode((tmp_path / "offload.json").read_bytes())
    assert written.keys() >= KEYS
    assert set(written["ratio"]) == {"stall", "p99", "trainer_cpu", "throughput"}
    assert written["digests"] == {"compared": 22, "unequal": []}
    assert written["busy"]["ratio"]["throughput"] == pytest.approx(1.0)
    assert written["settings"]["pipeline"]


def test_ratios_are_medians_over_the_pairs() -> None:
    ratios = trial().ratios()
    assert ratios["p99"].median == pytest.approx(0.01)
    assert ratios["trainer_cpu"].median == pytest.approx(0.05)


def test_missed_goals_are_named_with_what_was_measured() -> None:
    assert missed(trial()) == {"trainer_cpu": pytest.approx(0.05)}
    assert "Missed: trainer_cpu 0.050 > 0.04" in main_table(result()).note


def test_batches_that_differ_are_what_the_report_leads_with() -> None:
    differing = result(ours="other")
    assert len(differing.unequal) == 22
    assert "DIFFER" in main_table(differing).note
    assert "DIFFER" in report_page(differing, samples()).lead


def test_a_premise_under_which_headrace_is_worse_is_named() -> None:
    assert "everywhere: met" in others_tables(result())[0].note
    worse = result()
    object.__setattr__(worse.measured, "busy", trial(wait_s=(0.1, 0.3)))
    assert "missed for storage hosts overloaded" in others_tables(worse)[0].note


def test_a_short_run_reports_the_main_comparison_alone() -> None:
    short = result()
    short = replace(
        short, measured=replace(short.measured, busy=None, even=None, sweep=(), reading=None)
    )
    written = report_of(short).as_json()
    assert written["busy"] is None
    assert others_tables(short) == ()
    assert "Where offloading stops" not in render_page(report_page(short, samples()))


def test_the_page_needs_nothing_but_itself() -> None:
    html = render_page(report_page(result(), samples()))
    assert html.count("<svg") == 7
    for foreign in ("<script", "<link", "src=", "@import", "url(http"):
        assert foreign not in html


def samples() -> list[CpuSample]:
    """A trace of CPU use over the made-up run."""
    return [CpuSample(at_s=at_s / 2, busy={}, of=dict.fromkeys(GROUPS, 0.1)) for at_s in range(100)]


def test_what_a_side_received_is_counted_per_sample() -> None:
    assert side(trial().of("torch")).trainer_bytes_per_sample.median == pytest.approx(1e5)


def reading(at_s: float, cpu_s: float) -> Counters:
    """Counters that all stand at the same value."""
    return Counters(at_s=at_s, cpu_s=dict.fromkeys(GROUPS, cpu_s), trainer_bytes=int(1000 * cpu_s))


def test_what_is_used_between_readings_is_interpolated() -> None:
    use = use_between([reading(0, 0), reading(10, 5), reading(20, 5)], 5, 15)
    assert use.cpu_s["agents"] == pytest.approx(2.5)
    assert use.cores("agents") == pytest.approx(0.25)
    assert use.trainer_bytes == pytest.approx(2500)


@given(middle=st.floats(0.1, 19.9))
def test_two_adjoining_spans_add_up_to_the_whole(middle: float) -> None:
    readings = [reading(0, 0), reading(10, 5), reading(20, 6)]
    parts = [use_between(readings, 0, middle), use_between(readings, middle, 20)]
    assert added(parts).cpu_s["storage"] == pytest.approx(6)
    assert added(parts).seconds == pytest.approx(20)


def test_the_step_is_as_long_as_agents_need_below_their_guard_with_room_to_spare() -> None:
    step_s = just_in_time_step(0.33, QUOTAS, 0.25)
    assert step_s == pytest.approx(0.33 / (1.5 * (0.67 - 0.25)))


@given(background=st.floats(0, 0.9), trainer=st.floats(0.1, 2), storage=st.floats(0.1, 2))
def test_even_quotas_keep_the_sum_and_leave_both_sides_the_same(
    background: float, trainer: float, storage: float
) -> None:
    before = Quotas(trainer=trainer, storage=storage, storage_hosts=3)
    even = even_quotas(before, background)
    assert even.trainer + even.all_storage == pytest.approx(trainer + 3 * storage)
    assert even.trainer == pytest.approx(even.all_storage * (1 - background))


def test_the_premise_is_one_line_with_every_assumption() -> None:
    told = premise_line(PREMISE)
    for part in ("0.250 core", "3 storage hosts at 0.500 core", "25 %", "200 ms", "1000 Mbit/s"):
        assert part in told
    assert "\n" not in told


def test_processes_belong_to_the_nearest_known_forebear() -> None:
    parents = {30: 20, 20: 10, 10: 1, 40: 1, 50: 99}
    ownership = Ownership({10: "agents", 40: "datanodes"}, parent=lambda pid: parents.get(pid, 0))
    assert ownership.sort([10, 20, 30, 40, 50]) == {"agents": [10, 20, 30], "datanodes": [40]}


def test_a_benchmark_is_named_as_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    run = ModuleType("__main__")
    run.__spec__ = ModuleSpec("bench.offload.__main__", None)
    monkeypatch.setitem(sys.modules, "__main__", run)
    assert program() == ["python", "-m", "bench.offload"]


def test_a_readers_rate_is_of_the_stretch_asked_for() -> None:
    readings = [Reading(0, 0), Reading(10, 1000), Reading(20, 1000)]
    assert rate_between(readings, 5, 15) == pytest.approx(50)
