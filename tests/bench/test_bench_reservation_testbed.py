"""Scenarios of the emulated cluster: what is true when, and what several repeats come to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is no package of the wheel

from bench.measuring import options
from bench.reservation import diagnosis, testbed
from bench.reservation.twin import Busy, Job, JobRestart, Taken, Twin, load_twin, shortened
from headrace.sim.confusion import confusion
from headrace.sim.contenders import BASELINE, OURS
from headrace.sim.episode import MODES
from headrace.sim.measures import figures_of
from headrace.sim.recording import Recording, Tape

JOB = Job(batch_size=2, step_time_s=1.0, sample_bytes=1e3, samples=10)
TWIN = Twin(
    title="one job",
    duration_s=100.0,
    warm_s=0.0,
    disk_bytes_per_s=1e6,
    link_bytes_per_s=1e6,
    jobs={"a": JOB},
    restarts=[JobRestart(job="a", at_s=10.0, label_iterations=2)],
    congestion=[Taken(at_s=40.0, until_s=50.0, bytes_per_s=1e5, label_after_s=2.0)],
    busy=[Busy(at_s=60.0, until_s=70.0, percent_of_core=100.0, label_after_s=3.0)],
)


def recording(steps: Sequence[tuple[float, int, float]]) -> Recording:
    """Return a run of one job: when each step began, its iteration, its wait."""
    tape = Tape()
    for begun_s, iteration, wait_s in steps:
        tape.add((0, begun_s, wait_s, wait_s > 0, 1.0, iteration, 0, 100.0, 0.0))
    return Recording(
        jobs=("a",), batch_samples=(2,), duration_s=100.0, actions=(), quota_changes=0,
        read_bytes={}, lost_bytes=0.0, queued_bytes=0.0, **tape.columns(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("begun_s", "iteration", "mode"),
    [
        (5.0, 0, "none"),
        (12.0, 1, "cold-start"),
        (12.0, 2, "none"),
        (45.0, 30, "congestion"),
        (51.9, 30, "congestion"),
        (52.1, 30, "none"),
        (72.9, 50, "transform-bound"),
        (73.1, 50, "none"),
    ],
)
def test_iterations_are_labelled_by_what_the_scenario_does(
    begun_s: float, iteration: int, mode: str
) -> None:
    found = TWIN.counted(recording([(begun_s, iteration, 0.0)]))
    assert [MODES[code] for code in found.mode] == [mode]


def test_each_scenario_of_diagnosis_hurts_every_cause_often_enough() -> None:
    twins = [load_twin(path) for path in diagnosis.SCENARIOS]
    jobs = [len(twin.jobs) for twin in twins]
    assert sum(len(twin.restarts) for twin in twins) >= 10
    assert (
        sum(n * (len(t.scans) + len(t.congestion)) for n, t in zip(jobs, twins, strict=True)) >= 10
    )
    assert sum(n * len(twin.busy) for n, twin in zip(jobs, twins, strict=True)) >= 10
    for twin in twins:
        spells = sorted((s.at_s, s.until_s) for s in (*twin.scans, *twin.congestion, *twin.busy))
        spells += [(one.at_s, one.at_s) for one in twin.restarts]
        ends = [0.0, *(until_s for _, until_s in spells)]
        apart = [at_s - end_s for (at_s, _), end_s in zip(spells, ends, strict=False)]
        assert min(apart) > diagnosis.AFTERMATH_S
        assert shortened(twin).busy == []


def test_of_several_repeats_medians_and_ranges_are_told() -> None:
    def run(wait_s: float) -> dict[str, object]:
        return {
            BASELINE: figures_of(recording([(10.0, 9, 2.0)])),
            OURS: figures_of(recording([(10.0, 9, wait_s)])),
        }

    report = testbed.report_of(TWIN, [run(w) for w in (1.0, 4.0, 0.5)], run(2.0))
    assert report.repeats == 3
    found = report.ratios["idle_wait"]
    assert (found.median, found.min, found.max) == (0.5, 0.25, 2.0)
    assert report.further["ratio_error"]["idle_wait"] == pytest.approx(1.0)
    cells = [str(cell) for row in report.table.rows for cell in row]
    assert "1000.0 ms (500.0 ms to 4000.0 ms)" in cells
    written = msgspec.json.decode(msgspec.json.encode(report.as_json()))
    assert written["ratio_spread"]["idle_wait"]["max"] == 2.0


def test_repeats_of_a_diagnosis_are_counted_together() -> None:
    nothing = confusion([], [], until_s=1.0)
    report = diagnosis.report_of([TWIN], [[nothing], [nothing]])
    assert report.repeats == 2
    assert report.as_json()["diagnosis"]["scores"].keys() == set(MODES) - {"none"}


def test_how_often_is_only_asked_for_where_a_benchmark_lets_it_be_said() -> None:
    assert options(["--repeats", "3"], repeats="runs").repeats == 3
    assert options([]).repeats == 1
    for words, repeats in ((["--repeats", "3"], ""), (["--repeats", "0"], "runs")):
        with pytest.raises(SystemExit):
            options(words, repeats=repeats)
