"""Exports: what Perfetto and OpenTelemetry's receivers demand, and that nothing is lost."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.core.errors import StorageError
from headrace.trace.events import COLUMNS, Event, Kind, batch_of
from headrace.trace.exportotel import export_otel
from headrace.trace.exportperfetto import export_perfetto
from headrace.trace.spanparents import Parents

BEGIN = 1_700_000_000_123_456_789

EVENTS = [
    Event(kind=Kind.STEP, begin_ns=BEGIN, duration_ns=5_000_001, job="j", host="h", rank=1,
          pid=7, step=3),
    Event(kind=Kind.CALL, name="fit", begin_ns=BEGIN + 1, duration_ns=999, job="j", host="h",
          rank=1, pid=7, tid=12),
    Event(kind=Kind.REQUEST, name="read", begin_ns=BEGIN + 1001, duration_ns=10, job="j", host="g",
          rank=0, file="/d/é.tar", offset=4, bytes=9, is_write=False, counts={"tries": 2}),
    Event(kind=Kind.METADATA, begin_ns=BEGIN + 5, tid=2**40),
]  # fmt: skip


def otel(batches: Iterable[pa.RecordBatch], path: Path) -> int:
    found, parents = list(batches), Parents()
    for batch in found:
        parents.add(batch)
    return export_otel(found, path, parents=parents)


def perfetto(path: Path, events: Iterable[Event] = EVENTS) -> dict[str, Any]:
    export_perfetto([batch_of(events)], path)
    parsed: dict[str, Any] = json.loads(path.read_bytes())
    return parsed


def shown(parsed: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    return [one for one in parsed["traceEvents"] if one["ph"] == phase]


def test_ranks_are_named_processes_in_the_order_of_ranks(tmp_path: Path) -> None:
    parsed = perfetto(tmp_path / "t.json")
    names = {one["pid"]: one["args"] for one in shown(parsed, "M") if one["name"] == "process_name"}
    assert [one["name"] for one in names.values()] == [
        "j · rank 1 · h · pid 7", "j · rank 0 · g", "events"
    ]  # fmt: skip
    order = [one["args"]["sort_index"] for one in shown(parsed, "M") if "sort" in one["name"]]
    assert order[:2] == [1, 0]
    assert {one["pid"] for one in parsed["traceEvents"]} == set(names)


def test_times_keep_their_nanoseconds(tmp_path: Path) -> None:
    parsed = perfetto(tmp_path / "t.json")
    zero = int(parsed["otherData"]["time_zero_ns"])
    [call] = shown(parsed, "X")
    assert round(call["ts"] * 1000) + zero == BEGIN + 1
    assert (call["dur"], call["tid"], call["name"], call["cat"]) == (0.999, 12, "fit", "call")


def test_events_without_a_thread_may_overlap_and_those_without_a_duration_are_instants(
    tmp_path: Path,
) -> None:
    parsed = perfetto(tmp_path / "t.json")
    begins, ends = shown(parsed, "b"), shown(parsed, "e")
    assert [one["id"] for one in begins] == [one["id"] for one in ends]
    assert len({one["id"] for one in begins}) == 2
    assert ends[0]["ts"] - begins[0]["ts"] == pytest.approx(5000.001)
    [instant] = shown(parsed, "i")
    assert instant["s"] == "t"
    assert 0 <= instant["tid"] < 2**31


def test_what_an_event_says_besides_is_in_its_arguments(tmp_path: Path) -> None:
    read = shown(perfetto(tmp_path / "t.json"), "b")[1]
    expected = {"job": "j", "host": "g", "rank": 0, "file": "/d/é.tar", "offset": 4, "bytes": 9}
    assert read["args"] == expected | {"is_write": False, "tries": 2}


def test_a_trace_without_events_is_valid_too(tmp_path: Path) -> None:
    assert perfetto(tmp_path / "t.json", [])["traceEvents"] == []
    assert otel([], tmp_path / "t.jsonl") == 0


def spans(path: Path) -> list[dict[str, Any]]:
    return [
        span
        for line in path.read_text().splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def test_spans_conform_to_otlp(tmp_path: Path) -> None:
    assert otel([batch_of(EVENTS)] * 3, tmp_path / "t.jsonl") == 12
    found = spans(tmp_path / "t.jsonl")
    assert len({span["spanId"] for span in found}) == len(found) == 12
    for span in found:
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"])
        assert re.fullmatch("[0-9a-f]{16}", span["spanId"])
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        assert span["kind"] in (1, 3)
        for attribute in span["attributes"]:
            assert set(attribute) == {"key", "value"}
            [(kind, value)] = attribute["value"].items()
            assert isinstance(value, bool if kind == "boolValue" else str)


def test_ids_are_those_of_the_trace_and_events_of_a_job_share_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        otel([batch_of(EVENTS)], tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    ids = {span["name"]: span["traceId"] for span in spans(tmp_path / "a")}
    assert ids["step"] == ids["fit"] == ids["read"] != ids["metadata"]


def family(path: Path, events: Iterable[Event]) -> list[tuple[str, str | None]]:
    """Export events; return their names, each with that of its parent."""
    otel([batch_of([one]) for one in events], path)
    found = spans(path)
    names = {span["spanId"]: span["name"] for span in found}
    assert len(names) == len(found)
    return [
        (span["name"], names[span["parentSpanId"]] if "parentSpanId" in span else None)
        for span in found
    ]


def at(step: int | None, kind: str, name: str, **more: Any) -> Event:
    common = {"job": "j", "rank": 0, "epoch": 1, "begin_ns": BEGIN, "duration_ns": 1}
    return Event(**(common | {"kind": kind, "name": name, "step": step} | more))


def test_steps_have_loads_below_them_and_loads_their_parts(tmp_path: Path) -> None:
    events = [
        at(3, Kind.RETRIEVAL, "retrieval"),
        at(3, Kind.LOAD, "slowest", sample="7"),
        at(3, Kind.LOAD, "load"),
        at(3, Kind.WAIT, "wait"),
        at(3, Kind.STEP, "step"),
        at(3, Kind.CALL, "serve", host="agent", epoch=None),
        at(4, Kind.REQUEST, "ahead"),
        at(None, Kind.CHECKPOINT_READ, "checkpoint"),
        at(3, Kind.STEP, "step of another", rank=1),
    ]
    assert family(tmp_path / "t", events) == [
        ("retrieval", "load"),
        ("slowest", "load"),
        ("load", "step"),
        ("wait", "step"),
        ("step", None),
        ("serve", "step"),
        ("ahead", None),
        ("checkpoint", None),
        ("step of another", None),
    ]


def test_what_comes_twice_under_one_name_is_nobodys_parent(tmp_path: Path) -> None:
    steps = [at(3, Kind.STEP, "first"), at(3, Kind.STEP, "again"), at(4, Kind.STEP, "other")]
    events = [*steps, at(3, Kind.WAIT, "wait"), at(4, Kind.WAIT, "other wait", epoch=None)]
    told = dict(family(tmp_path / "t", events))
    assert told["wait"] is None
    assert told["other wait"] == "other"
    assert dict(family(tmp_path / "u", [*events, at(4, Kind.STEP, "later", epoch=2)])) == told | {
        "later": None,
        "other wait": None,
    }


def test_no_line_is_longer_than_receivers_take(tmp_path: Path) -> None:
    events = [
        Event(kind=Kind.REQUEST, begin_ns=BEGIN + n, file=f"/{n}" + "x" * 5000) for n in range(900)
    ]
    otel([batch_of(events)], tmp_path / "t.jsonl")
    lines = (tmp_path / "t.jsonl").read_bytes().splitlines()
    assert len(lines) > 4
    assert max(map(len, lines)) < 2**20
    found = spans(tmp_path / "t.jsonl")
    assert [int(span["startTimeUnixNano"]) - BEGIN for span in found] == list(range(900))
    assert len({span["spanId"] for span in found}) == 900


def test_resources_say_whose_spans_they_are(tmp_path: Path) -> None:
    otel([batch_of(EVENTS)], tmp_path / "t.jsonl")
    [line] = (tmp_path / "t.jsonl").read_text().splitlines()
    first = json.loads(line)["resourceSpans"][0]["resource"]["attributes"]
    assert first[0] == {"key": "service.name", "value": {"stringValue": "headrace"}}
    assert {"key": "headrace.rank", "value": {"intValue": "1"}} in first


def test_a_span_without_a_duration_says_so(tmp_path: Path) -> None:
    otel([batch_of(EVENTS)], tmp_path / "t.jsonl")
    unknown = {"key": "headrace.duration_unknown", "value": {"boolValue": True}}
    assert [unknown in span["attributes"] for span in spans(tmp_path / "t.jsonl")].count(True) == 1


@pytest.mark.parametrize("export", [export_perfetto, otel])
def test_every_column_is_exported(tmp_path: Path, export: Callable[..., int]) -> None:
    numbers = dict.fromkeys(COLUMNS, 77_001) | {"is_write": True, "counts": {"other": 77_001}}
    texts = ("kind", "name", "job", "host", "phase", "sample", "file", "replica")
    event = Event(**(numbers | {name: f"the-{name}" for name in texts}))
    export([batch_of([event])], tmp_path / "t")
    text = (tmp_path / "t").read_text()
    for name in texts:
        assert f"the-{name}" in text
    for name in ("step", "epoch", "offset", "bytes", "round_trips", "queue_ns", "cpu_ns", "other"):
        assert re.search(rf'{name}"[^}}]{{0,30}}77001', text), name


@pytest.mark.parametrize("export", [export_perfetto, otel])
def test_a_name_that_ends_in_gz_is_compressed(tmp_path: Path, export: Callable[..., int]) -> None:
    export([batch_of(EVENTS)], tmp_path / "plain")
    export([batch_of(EVENTS)], tmp_path / "t.json.gz")
    plain = gzip.decompress((tmp_path / "t.json.gz").read_bytes())
    assert plain == (tmp_path / "plain").read_bytes()


@pytest.mark.parametrize("export", [export_perfetto, otel])
def test_an_export_that_fails_leaves_nothing(tmp_path: Path, export: Callable[..., int]) -> None:
    def broken() -> Iterable[pa.RecordBatch]:
        yield batch_of(EVENTS)
        raise StorageError("the disk is gone")

    with pytest.raises(StorageError, match="disk is gone"):
        export(broken(), tmp_path / "t.json")
    with pytest.raises(StorageError, match="another place"):
        export([], tmp_path / "none" / "t.json")
    assert list(tmp_path.iterdir()) == []
