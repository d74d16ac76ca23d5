"""Diagnoses of real traces: of other tools, where no cause may lack evidence, and of a real loop.

``HEADRACE_REAL_TRACES`` names the folder of other tools' traces, else ``shared`` beside the
checkout is looked into; where there is none, these tests say so and are skipped.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is no package of the wheel

from bench.diagnosis import real
from headrace.analysis.analyser import Analyser
from headrace.analysis.causes import Cause
from headrace.analysis.figures import Finding
from headrace.analysis.thresholds import Thresholds
from headrace.storage.shaped import Shape
from headrace.trace.opening import open_trace

BESIDE = Path(__file__).parents[3] / "shared" / "data" / "traces"
FOLDER = Path(os.environ.get("HEADRACE_REAL_TRACES", BESIDE))


def findings(path: Path) -> tuple[Finding, ...]:
    trace, analyser = open_trace([path]), Analyser()
    for batch in trace.batches(lambda _: None):
        analyser.add(batch)
    return analyser.result(format_name=trace.format, notes=trace.notes).findings


@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no real traces in {FOLDER}")
@pytest.mark.parametrize(
    ("name", "causes"),
    [
        # 126 of 150 s in which samples were loaded are those of pread; the first files took four
        # times as long per byte as the later ones
        ("dftracer-dlio.tar.gz", {Cause.STORAGE_BANDWIDTH_BOUND, Cause.COLD_START}),
        # calls to the file system without a loop around them
        ("dftracer-old-dialect.pfw.gz", set()),
        # the loop's waits are told, and nothing that happened in them
        ("kineto-resnet50-workers0.pt.trace.json.gz", {Cause.UNEXPLAINED}),
        ("dlio-unet3d-h100", {Cause.UNEXPLAINED}),
        ("hdfs-audit.log", set()),
    ],
)
def test_no_cause_is_named_of_a_real_trace_without_numbers_of_it(
    name: str, causes: set[Cause]
) -> None:
    found = findings(FOLDER / name)
    assert {one.cause for one in found} == causes
    for one in found:
        assert one.lost_share >= Thresholds().lost_share
        assert any(letter.isdigit() for line in one.evidence for letter in line)


def test_a_real_loop_over_far_storage_is_bound_by_round_trips(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(real, "STEPS", 16)
    monkeypatch.setattr(real, "TEXTS", 100)
    loop = real.Loop(cause=Cause.RTT_BOUND, usual=Shape(latency_s=0.06, jitter=0.1))
    assert real._verdict(0, loop).named == (Cause.RTT_BOUND,)
