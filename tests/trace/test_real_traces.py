"""Real traces of other tools: what is imported agrees with a count by a few lines of Python.

They are not part of the project. ``HEADRACE_REAL_TRACES`` names their folder, else ``shared``
beside the checkout is looked into; where there is none, these tests say so and are skipped.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.trace.events import arrow_schema
from headrace.trace.opening import Trace, open_trace

BESIDE = Path(__file__).parents[3] / "shared" / "data" / "traces"
FOLDER = Path(os.environ.get("HEADRACE_REAL_TRACES", BESIDE))
DFTRACER = FOLDER / "dftracer-dlio.tar.gz"
OLD = FOLDER / "dftracer-old-dialect.pfw.gz"
KINETO = FOLDER / "kineto-resnet50-workers0.pt.trace.json.gz"
DLIO = FOLDER / "dlio-unet3d-h100"
AUDIT = FOLDER / "hdfs-audit.log"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no real traces in {FOLDER}")


def read(path: Path) -> tuple[Trace, pa.Table]:
    trace = open_trace([path])
    seen: list[int] = []
    table = pa.Table.from_batches(trace.batches(seen.append), arrow_schema())
    assert sum(seen) == trace.nbytes
    return trace, table


def of(table: pa.Table, kind: str, name: str | None = None) -> pa.Table:
    found = table.filter(pc.equal(table["kind"], kind))
    return found if name is None else found.filter(pc.equal(found["name"], name))


def unnamed(table: pa.Table, kind: str) -> pa.Table:
    found = of(table, kind)
    return found.filter(pc.is_null(found["name"]))


def lines(text: io.TextIOBase) -> Iterator[dict[str, Any]]:
    for line in text:
        if line.strip() not in ("[", "]", ""):
            yield json.loads(line.strip().rstrip(","))


@pytest.fixture(scope="module")
def told_by_dftracer() -> list[dict[str, Any]]:
    with tarfile.open(DFTRACER) as archive:
        files = [io.TextIOWrapper(archive.extractfile(one)) for one in archive if one.isfile()]
        return [line for file in files for line in lines(file)]


def test_a_dlio_run_of_8_ranks(told_by_dftracer: list[dict[str, Any]]) -> None:
    trace, table = read(DFTRACER)
    told = [one for one in told_by_dftracer if one["ph"] == "X"]
    made = of(table, "step").num_rows + unnamed(table, "wait").num_rows
    assert table.num_rows - made == len(told) == 18_039
    assert not trace.notes.problems
    span = min(one["ts"] for one in told), max(one["ts"] + one["dur"] for one in told)
    ends = pc.max(pc.add(table["begin_ns"], table["duration_ns"])).as_py()
    assert (pc.min(table["begin_ns"]).as_py(), ends) == (span[0] * 1000, span[1] * 1000)
    assert set(table["rank"].to_pylist()) == set(range(8))
    assert set(table["host"].to_pylist()) == {"corona171"}


def test_reads_of_a_dlio_run(told_by_dftracer: list[dict[str, Any]]) -> None:
    reads = [one for one in told_by_dftracer if one["name"] == "pread"]
    found = of(read(DFTRACER)[1], "request", "pread")
    assert pc.sum(found["bytes"]).as_py() == sum(one["args"]["ret"] for one in reads)
    assert pc.sum(found["duration_ns"]).as_py() == 1000 * sum(one["dur"] for one in reads)
    names = {
        one["args"]["value"]: one["args"]["name"] for one in told_by_dftracer if one["name"] == "FH"
    }
    files = Counter(names[one["args"]["fhash"]] for one in reads)
    assert Counter(found["file"].to_pylist()) == files


def test_loops_of_a_dlio_run(told_by_dftracer: list[dict[str, Any]]) -> None:
    _, table = read(DFTRACER)
    count = Counter(one["name"] for one in told_by_dftracer)
    assert of(table, "wait", "loop.iter").num_rows == count["loop.iter"] == 160
    assert of(table, "load").num_rows == count["TorchDataset.__getitem__"] == 800
    assert of(table, "compute").num_rows == count["TorchFramework.compute"] == 200
    last = pc.equal(of(table, "step")["step"], 5)  # of an epoch; of these only the work is told
    steps, lasts = of(table, "step").filter(pc.invert(last)), of(table, "step").filter(last)
    both = sum(one["dur"] for one in told_by_dftracer if one["name"].startswith("loop."))
    assert steps.num_rows == 160 and lasts.num_rows == unnamed(table, "wait").num_rows == 40
    assert pc.sum(steps["duration_ns"]).as_py() == pytest.approx(1000 * both, rel=1e-4)
    assert pc.mean(lasts["duration_ns"]).as_py() == pytest.approx(
        pc.mean(steps.filter(pc.greater(steps["step"], 2))["duration_ns"]).as_py(), rel=0.05
    )


def test_the_older_dialect() -> None:
    with gzip.open(OLD, "rt") as text:
        told = list(lines(text))
    _, table = read(OLD)
    assert table.num_rows == len(told) == 1012
    moved = Counter[str]()
    for one in told:
        if one["name"] in ("read", "write"):
            moved[one["name"]] += int(one["args"]["ret"])
    for name, total in moved.items():
        assert pc.sum(of(table, "request", name)["bytes"]).as_py() == total
    assert pc.sum(table["duration_ns"]).as_py() == 1000 * sum(int(one["dur"]) for one in told)


def test_a_profile_of_pytorch() -> None:
    told = json.loads(gzip.decompress(KINETO.read_bytes()))["traceEvents"]
    whole = [one for one in told if one["ph"] == "X" and one["cat"] != "Trace"]
    _, table = read(KINETO)
    assert table.num_rows == len(whole) == 44_665
    assert pc.sum(table["duration_ns"]).as_py() == 1000 * sum(one["dur"] for one in whole)
    waits = [one["dur"] for one in whole if one["name"].startswith("enumerate(DataLoader)#")]
    assert [one // 1000 for one in of(table, "wait")["duration_ns"].to_pylist()] == waits
    assert of(table, "step")["step"].to_pylist() == [5, 6, 7, 8, 9, 10]
    device = [one for one in whole if one["cat"] in ("Kernel", "Memcpy", "Memset")]
    computing = of(table, "compute")
    assert computing.num_rows == len(device)
    moved = sum(one["args"].get("bytes", 0) for one in device)
    assert pc.sum(computing["bytes"]).as_py() == moved
    assert set(computing["pid"].to_pylist()) == {25738}


def test_a_result_of_mlperf_storage() -> None:
    trace, table = read(DLIO)
    for rank in (0, 1, 10):
        told = json.loads(gzip.decompress((DLIO / f"{rank}_output.json.gz").read_bytes()))
        own = table.filter(pc.equal(table["rank"], rank))
        for kind, list_of in (("step", "proc"), ("wait", "load"), ("compute", "compute")):
            seconds = [one for epoch in "12345" for one in told[epoch][list_of]["block1"]]
            durations = of(own, kind)["duration_ns"]
            assert len(durations) == len(seconds) == 2855
            assert pc.sum(durations).as_py() / 1e9 == pytest.approx(sum(seconds), abs=1e-5)
        assert set(own["host"].to_pylist()) == {told["hostname"]}
    assert trace.notes.problems == [f"{DLIO}/summary.json is of 15 ranks, steps are told of 3"]


def test_an_audit_log() -> None:
    told = [line.split("\t") for line in AUDIT.read_text().splitlines()]
    _, table = read(AUDIT)
    assert table["name"].to_pylist() == [one[3].removeprefix("cmd=") for one in told]
    assert table["file"].to_pylist() == [one[4].removeprefix("src=") for one in told]
    assert [at // 10**6 for at in table["begin_ns"].to_pylist()] == list(range(1010, 1070, 10))
