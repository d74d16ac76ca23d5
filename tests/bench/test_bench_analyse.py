"""The benchmark of analyses: its traces, its runs and its report, with stand-ins for baselines."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is no package of the wheel

from bench.analyse import __main__ as analyse
from bench.analyse import tools
from bench.analyse.data import real_traces, write_dftracer, write_kineto
from bench.analyse.tools import Tool
from headrace.core.errors import NotFoundError, RemoteError
from headrace.trace.opening import open_trace

READ = {
    "id": 1, "name": "pread", "cat": "POSIX", "pid": 7, "tid": 7, "ts": 1_744_611_914_000_000,
    "dur": 90, "ph": "X", "args": {"hhash": 5, "fhash": 17868160079272185648, "ret": 4096},
}  # fmt: skip
NAME = {"name": "FH", "cat": "dftracer", "ph": "M", "args": {"name": "/a", "value": 5}}
OPS = [
    {"ph": "X", "cat": "Operator", "name": "aten::add", "pid": 1, "tid": 1, "ts": 100, "dur": 50},
    {"ph": "X", "cat": "Kernel", "name": "add", "pid": 0, "tid": 7, "ts": 120, "dur": 9,
     "args": {"correlation": 3}},
    {"ph": "s", "id": 3, "pid": 1, "tid": 1, "ts": 100, "cat": "async", "name": "launch"},
]  # fmt: skip


@pytest.fixture
def real(tmp_path: Path) -> Path:
    folder = tmp_path / "real"
    folder.mkdir()
    lines = "[\n" + "\n".join(json.dumps(one, separators=(",", ":")) for one in (NAME, READ, READ))
    text = f"{lines}\n]\n".encode()
    with tarfile.open(folder / "dftracer-dlio.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("trace-0-of-8.pfw")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    profile = json.dumps({"traceEvents": OPS}).encode()
    name = "kineto-resnet50-workers0.pt.trace.json.gz"
    (folder / name).write_bytes(gzip.compress(profile))
    return folder


def test_copies_of_a_trace_follow_one_another(real: Path, tmp_path: Path) -> None:
    assert write_dftracer(real, tmp_path / "pfw", 3) == 6
    (batch,) = open_trace([tmp_path / "pfw"]).batches()
    begins = [begin // 1000 - READ["ts"] for begin in batch["begin_ns"].to_pylist()]  # type: ignore[operator]
    assert begins == [0, 0, 60_000_000, 60_000_000, 120_000_000, 120_000_000]
    assert set(batch["file"].to_pylist()) == {"#17868160079272185648"}


def test_copies_of_a_profile_keep_launches_and_kernels_apart(real: Path, tmp_path: Path) -> None:
    assert write_kineto(real, tmp_path / "long.json", 2) == 4
    told: list[dict[str, Any]] = json.loads((tmp_path / "long.json").read_text())["traceEvents"]
    assert [one["ts"] for one in told] == [100, 120, 100, 150, 170, 150]
    assert told[4]["args"]["correlation"] == told[5]["id"] == 1_000_003


def test_both_sides_are_reported_under_fixed_names(real: Path, tmp_path: Path) -> None:
    stand_in = Tool(lambda trace, folder: ("ls", trace, folder), lambda said, _: len(said.split()))
    write_kineto(real, tmp_path / "p" / "short.json", 1)
    events = write_kineto(real, tmp_path / "p" / "long.json", 2)
    matter = analyse.Matter(
        tmp_path / "p" / "short.json", tmp_path / "p" / "long.json", events, stand_in
    )
    told = analyse.measure({"hta": matter}, analyse.Scale(repeats=1)).as_json()
    assert told["name"] == "analyse"
    assert set(told["ratio"]) == {"vs_hta", "vs_hta_cpu"}
    assert told["headrace"]["hta"]["told_events"] == 4
    assert told["headrace"]["hta"]["peak_bytes"] > 10e6


def test_a_tool_that_fails_is_an_error_with_what_it_said(tmp_path: Path) -> None:
    broken = Tool(lambda *_: ("sh", "-c", "echo no such trace; exit 3"), lambda *_: 0)
    with pytest.raises(RemoteError, match="sh ended with 3: no such trace"):
        tools.run(broken, tmp_path, tmp_path)


def test_without_real_traces_the_error_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_REAL_TRACES", str(tmp_path))
    with pytest.raises(NotFoundError, match="HEADRACE_REAL_TRACES"):
        real_traces()
