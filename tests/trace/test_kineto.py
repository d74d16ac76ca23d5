"""Traces of PyTorch's profiler become events, piece by piece, of old and new versions."""

from __future__ import annotations

import gzip
import json
import os
import random
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from importers_for_tests import read_by

from headrace.core.errors import CorruptDataError, HeadraceError
from headrace.trace.importer import Notes
from headrace.trace.importers import kineto
from headrace.trace.importers.kineto import Kineto

TS = 1_623_142_623_460_000
NEXT = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def event(name: str, cat: str, ts: float, dur: float, **more: object) -> dict[str, Any]:
    return {
        "ph": "X", "cat": cat, "name": name, "pid": 25, "tid": "27", "ts": TS + ts, "dur": dur,
        **more,
    }  # fmt: skip


EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 25, "tid": 0, "ts": 0, "args": {"name": "python"}},
    event("aten::empty", "Operator", 0, 25, args={"External id": 2, "Call stack": "a;b"}),
    event(NEXT, "Operator", 30, 500),
    event("gemm", "Kernel", 600, 10, pid=1, tid="stream 7", args={"device": 1, "stream": 7}),
    event("Memcpy HtoD", "gpu_memcpy", 610, 5, pid=1, tid=7, args={"device": 1, "bytes": 256}),
    event("ncclDevKernel_AllReduce", "kernel", 620, 50, pid=1, tid=20, args={"device": 1}),
    event("record_param_comms", "cpu_op", 615, 2),
    event("Stream Sync", "cuda_sync", 670, 2, pid=1, tid=20, args={"device": 1}),
    {"ph": "s", "id": 3, "pid": 25, "tid": 27, "ts": TS, "cat": "async", "name": "launch"},
    event("ProfilerStep#5", "user_annotation", 0, 900),
    event("ProfilerStep#5", "gpu_user_annotation", 600, 300, pid=1, tid=7),
    event("torch/serialization.py(1310): load", "python_function", 901, 40),
    event("torch/serialization.py(925): save", "python_function", 950, 30),
    event("PyTorch Profiler (0)", "Trace", 0, 1000, pid="Spans", tid="PyTorch Profiler"),
]
HEAD: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "V100"}]}


def text_of(events: list[dict[str, Any]] = EVENTS, **head: object) -> bytes:
    document = {**HEAD, **head, "traceEvents": events, "traceName": "x.json"}
    return json.dumps(document, indent=2).encode()


def written(folder: Path, data: bytes, name: str = "a.pt.trace.json") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def read(path: Path, notes: Notes | None = None) -> pa.Table:
    return read_by(Kineto(), path, notes)


def row(table: pa.Table, name: str) -> dict[str, Any]:
    (found,) = table.filter(pc.equal(table["name"], name)).to_pylist()
    return {key: value for key, value in found.items() if value is not None}


@pytest.fixture(params=[900, 2000, kineto.PIECE_BYTES])
def piece_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Ends of pieces at other places of the document."""
    monkeypatch.setattr(kineto, "PIECE_BYTES", request.param)
    monkeypatch.setattr("headrace.trace.importers.text._CHUNK", 61)
    return request.param


@pytest.mark.usefixtures("piece_bytes")
def test_what_took_time_becomes_events_of_the_kinds_that_they_are(tmp_path: Path) -> None:
    table = read(written(tmp_path, text_of()))
    assert list(zip(table["name"].to_pylist(), table["kind"].to_pylist(), strict=True)) == [
        ("aten::empty", "call"),
        (NEXT, "wait"),
        ("gemm", "compute"),
        ("Memcpy HtoD", "compute"),
        ("ncclDevKernel_AllReduce", "barrier"),
        ("record_param_comms", "barrier"),
        ("Stream Sync", "call"),
        ("ProfilerStep#5", "step"),
        ("torch/serialization.py(1310): load", "checkpoint_read"),
        ("torch/serialization.py(925): save", "checkpoint_save"),
    ]


def test_what_a_device_did_is_of_the_process_by_device(tmp_path: Path) -> None:
    table = read(written(tmp_path, text_of()))
    assert row(table, "Memcpy HtoD") == {
        "kind": "compute",
        "begin_ns": (TS + 610) * 1000,
        "duration_ns": 5000,
        "name": "Memcpy HtoD",
        "pid": 25,
        "tid": 1,
        "bytes": 256,
    }
    assert row(table, "ProfilerStep#5")["step"] == 5
    assert set(table["pid"].to_pylist()) == {25}


def test_newer_documents_tell_host_rank_and_the_moment_that_times_count_from(
    tmp_path: Path,
) -> None:
    head = {
        "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
        "host_name": "node7",
        "baseTimeNanoseconds": 1_790_857_026_000_000_000,
    }
    one = {**event("aten::add", "cpu_op", 0, 0), "ts": 5195485990682.989, "dur": 330.773}
    notes = Notes()
    found = row(read(written(tmp_path, text_of([one], **head)), notes), "aten::add")
    assert (found["host"], found["rank"]) == ("node7", 3)
    assert found["begin_ns"] == 1_796_052_511_990_682_989
    assert found["duration_ns"] == 330_773
    assert "rank" not in notes.unknown
    assert not notes.is_relative


def test_host_and_rank_may_be_told_by_the_name_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, text_of(), "node_9_4711.1623.pt.trace.json")
    assert row(read(path), "gemm")["host"] == "node_9"
    for name in ("rank12_trace.json", "rank-12.json", "step.rank_12.json"):
        assert row(read(written(tmp_path, text_of(), name)), "gemm")["rank"] == 12


def test_without_steps_of_the_profiler_a_step_is_from_one_wait_to_the_next(tmp_path: Path) -> None:
    waits = [event(NEXT, "user_annotation", ts, 5) for ts in (100, 0, 250)]
    table = read(written(tmp_path, text_of(waits)))
    steps = table.filter(pc.equal(table["kind"], "step"))
    assert [begin // 1000 - TS for begin in steps["begin_ns"].to_pylist()] == [0, 100]
    assert steps["duration_ns"].to_pylist() == [100_000, 150_000]


@pytest.mark.usefixtures("piece_bytes")
def test_lists_of_objects_in_arguments_and_braces_in_names_do_not_end_a_piece(
    tmp_path: Path,
) -> None:
    nested = {"shapes": [{"a": [{"b": 1}, {"c": 2}]}, {"d": {}}, {"e": 3}], "text": "}, {"}
    events = [event(f"f<{{}}, {{}}>#{n}", "cpu_op", n, 1, args=nested) for n in range(30)]
    notes = Notes()
    assert read(written(tmp_path, text_of(events)), notes).num_rows == 30
    assert not notes.problems


@pytest.mark.usefixtures("piece_bytes")
def test_a_bare_list_and_an_empty_one_and_more_after_the_list_are_read(tmp_path: Path) -> None:
    bare = json.dumps(EVENTS).encode()
    assert Kineto().recognises(Path("a.json"), bare)
    assert read(written(tmp_path, bare, "a.json")).num_rows == 10
    assert read(written(tmp_path, text_of([]))).num_rows == 0
    frames = [{"name": "f", "parent": number} for number in range(99)]
    longer = text_of()[:-1] + b', "stackFrames": ' + json.dumps(frames).encode() + b"}"
    notes = Notes()
    assert read(written(tmp_path, longer), notes).num_rows == 10
    assert not notes.problems


def test_gzip_is_read_like_plain_text(tmp_path: Path) -> None:
    packed = written(tmp_path, gzip.compress(text_of()), "a.pt.trace.json.gz")
    assert read(packed).equals(read(written(tmp_path, text_of())))


def test_what_is_no_number_in_json_is_nothing(tmp_path: Path) -> None:
    text = text_of().replace(b'"bytes": 256', b'"bytes": nan, "GB/s": inf')
    notes = Notes()
    table = read(written(tmp_path, text), notes)
    assert (table.num_rows, notes.problems) == (10, [])
    assert "bytes" not in row(table, "Memcpy HtoD")


@pytest.mark.usefixtures("piece_bytes")
def test_a_damaged_event_is_named_by_its_byte_and_the_others_are_read(tmp_path: Path) -> None:
    text = text_of().replace(b'"Call stack": "a;b"', b'"Call stack": "C:\\a"')
    notes = Notes()
    assert read(written(tmp_path, text), notes).num_rows == 9
    at = text.index(b'{\n      "ph": "X"')
    assert len(notes.problems) == 1
    assert f"byte {at}: not an event" in notes.problems[0]


def test_a_document_that_is_cut_gives_the_events_before(tmp_path: Path) -> None:
    text = text_of()
    notes = Notes()
    table = read(written(tmp_path, text[: text.index(b"gpu_memcpy")]), notes)
    assert table["name"].to_pylist() == ["aten::empty", NEXT, "gemm"]
    assert notes.is_partial


def test_memory_does_not_grow_with_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kineto, "PIECE_BYTES", 1 << 16)

    def peak_of(copies: int) -> int:
        path = written(
            tmp_path, text_of([event("aten::add", "cpu_op", n, 1) for n in range(copies)])
        )
        tracemalloc.start()
        events = sum(batch.num_rows for batch in Kineto().read(path, Notes(), lambda _: None))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert events == copies
        return peak

    assert peak_of(16_000) < 1.2 * peak_of(2_000)


def test_what_torch_exports_today_is_read(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "a.pt.trace.json"
    loader = torch.utils.data.DataLoader(torch.ones(12, 4), batch_size=4)
    before = time.time_ns()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        batches = [torch.relu(batch) for batch in loader]
    after = time.time_ns()
    profiler.export_chrome_trace(str(path))
    table = read(path)
    waits = table.filter(pc.equal(table["kind"], "wait"))
    assert waits.num_rows == len(batches) + 1
    assert table.filter(pc.equal(table["kind"], "step")).num_rows == len(batches)
    assert table.filter(pc.equal(table["name"], "aten::relu")).num_rows == len(batches)
    assert before <= pc.min(table["begin_ns"]).as_py() <= pc.max(table["begin_ns"]).as_py() <= after
    assert set(waits["pid"].to_pylist()) == {os.getpid()}


def test_a_trace_is_told_by_its_keys() -> None:
    tell = Kineto().recognises
    assert tell(Path("a.json"), text_of())
    assert tell(Path("x.pt.trace.json.gz"), b"")
    assert not tell(Path("a.json"), b'{"traceEvents": [{"name": "blink", "ph": "X"}]}')
    assert not tell(Path("a.json"), b'[{"name": "blink", "ph": "X"}]')


def test_a_document_without_a_list_is_an_error(tmp_path: Path) -> None:
    for data in (b"", b'{"schemaVersion": 1}', b"\x89PNG"):
        with pytest.raises(CorruptDataError, match='no list "traceEvents"'):
            read(written(tmp_path, data))


def test_mutations_end_in_events_or_in_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 20261130."""
    monkeypatch.setattr(kineto, "PIECE_BYTES", 1500)
    rng = random.Random(20261130)
    odd = [b"9223372036854775808", b"-1", b"NaN", b"1e400", b"null", b'"', b"}", b"]", b"},{",
           b"[" * 3000, b"\0", b"\xff", b"true", b"{}", b"\\"]  # fmt: skip
    text = text_of()
    for _ in range(400):
        data = bytearray(text)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(0, 20)] = rng.choice(odd)
        path = written(tmp_path, bytes(data))
        try:
            for batch in Kineto().read(path, Notes(), lambda _: None):
                batch.validate(full=True)
        except HeadraceError as error:
            assert str(path) in str(error)


@pytest.mark.parametrize("base", [2**63 - 1, 10**19 - 1])
def test_a_base_time_that_is_none_is_not_added(tmp_path: Path, base: int) -> None:
    table = read(written(tmp_path, text_of(baseTimeNanoseconds=base)))
    assert pc.min(table["begin_ns"]).as_py() == TS * 1000


def test_steps_are_not_longer_than_any_time(tmp_path: Path) -> None:
    waits = [event(NEXT, "Operator", far - TS, 5) for far in (-9 * 10**15, 9 * 10**15)]
    with pytest.raises(CorruptDataError, match="do not tell when they began"):
        read(written(tmp_path, text_of(waits)))
