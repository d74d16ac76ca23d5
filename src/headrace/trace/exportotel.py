"""Writes events as OpenTelemetry spans: OTLP in JSON, one request for each line.

That is what the Collector's file exporter writes and its ``otlp_json_file`` receiver reads. A
span's trace is its job; loads lie below their steps, and parts below their loads. Ids are hashes,
so that the same trace gives the same ids. An event without a duration is a span of length zero with
the attribute ``headrace.duration_unknown``.

Source: OTLP 1.x, "JSON Protobuf Encoding": ids as hexadecimal digits, 64-bit numbers as text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from headrace.trace.events import Event, Kind
from headrace.trace.exportrows import details, events_of
from headrace.trace.outputfile import output_file
from headrace.trace.spanparents import Parents, hex_id

HEAD = (
    b'{"resourceSpans":[{"resource":{"attributes":['
    b'{"key":"service.name","value":{"stringValue":"headrace"}}'
)
"""With which such a file begins."""

_INTERNAL, _CLIENT = 1, 3
_ELSEWHERE = frozenset({"name", "begin_ns", "duration_ns", "job", "host", "pid", "rank", "tid"})
_SCOPE = {"name": "headrace.trace"}
_LINE_EVENTS = 1024
_LINE_BYTES = 1 << 20
"""What is longer is cut by the receiver, unless its ``max_log_size`` says otherwise [bytes]."""

_Json = dict[str, Any]
_Owned = tuple[tuple[object, ...], _Json]
"""Job, host, rank and process, and a span of theirs."""


def export_otel(batches: Iterable[pa.RecordBatch], path: Path, *, parents: Parents) -> int:
    """Write all events, in the order in which they come, and return how many there were.

    Args:
        batches: The events.
        path: Of the file.
        parents: Which has taken in all of them.

    Raises:
        StorageError: the file cannot be written.
    """
    written = 0
    with output_file(path) as file:
        for batch in batches:
            for begin in range(0, batch.num_rows, _LINE_EVENTS):
                events = events_of(batch.slice(begin, _LINE_EVENTS))
                spans = [_owned(event, n, parents) for n, event in enumerate(events, written)]
                file.writelines(_lines(spans))
                written += len(spans)
    return written


def _lines(spans: list[_Owned]) -> Iterator[bytes]:
    """Yield requests as lines that are short enough, where one span is."""
    line = msgspec.json.encode(_request(spans)) + b"\n"
    if len(line) <= _LINE_BYTES or len(spans) == 1:
        yield line
        return
    middle = len(spans) // 2
    yield from _lines(spans[:middle])
    yield from _lines(spans[middle:])


def _request(spans: list[_Owned]) -> _Json:
    resources: defaultdict[tuple[object, ...], list[_Json]] = defaultdict(list)
    for resource, span in spans:
        resources[resource].append(span)
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _resource(*resource)},
                "scopeSpans": [{"scope": _SCOPE, "spans": found}],
            }
            for resource, found in resources.items()
        ]
    }


def _resource(job: object, host: object, rank: object, pid: object) -> list[_Json]:
    said = {
        "service.name": "headrace",
        "headrace.job": job,
        "host.name": host,
        "headrace.rank": rank,
        "process.pid": pid,
    }
    return [_attribute(name, value) for name, value in said.items() if value is not None]


def _owned(event: Event, number: int, parents: Parents) -> _Owned:
    return (event.job, event.host, event.rank, event.pid), _span(event, number, parents)


def _span(event: Event, number: int, parents: Parents) -> _Json:
    attributes = {
        f"headrace.{name}": value for name, value in details(event, but=_ELSEWHERE).items()
    }
    if event.tid is not None:
        attributes["thread.id"] = event.tid
    if event.duration_ns is None:
        attributes["headrace.duration_unknown"] = True
    own, parent = parents.own(event), parents.of(event)
    if own is None:
        own = hex_id(8, event.job, event.host, event.rank, event.kind, event.begin_ns, number)
    return {
        "traceId": hex_id(16, event.job),
        "spanId": own,
        **({} if parent is None else {"parentSpanId": parent}),
        "name": event.name or event.kind,
        "kind": _CLIENT if event.kind == Kind.REQUEST else _INTERNAL,
        "startTimeUnixNano": str(event.begin_ns),
        "endTimeUnixNano": str(event.begin_ns + (event.duration_ns or 0)),
        "attributes": [_attribute(name, value) for name, value in attributes.items()],
    }


def _attribute(name: str, value: object) -> _Json:
    if isinstance(value, bool):
        return {"key": name, "value": {"boolValue": value}}
    if isinstance(value, int):
        return {"key": name, "value": {"intValue": str(value)}}
    return {"key": name, "value": {"stringValue": str(value)}}
