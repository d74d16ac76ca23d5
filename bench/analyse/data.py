"""Makes long traces out of short real ones: one after the other, with their times moved on."""

from __future__ import annotations

import gzip
import json
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.core.errors import NotFoundError

VARIABLE = "HEADRACE_REAL_TRACES"
_BESIDE = Path(__file__).parents[3] / "shared" / "data" / "traces"
_DFTRACER = "dftracer-dlio.tar.gz"
_KINETO = "kineto-resnet50-workers0.pt.trace.json.gz"
_HASH = re.compile(rb'"(hhash|fhash|value|cmd_hash|exec_hash)":(\d+)')
_TIME = re.compile(rb'"ts":(\d+)')
_IDS = 1_000_000
"""More than a copy has."""

_RUN_US = 60_000_000
"""Longer than the real run [µs]."""


def real_traces() -> Path:
    """Return the folder of the real traces.

    Raises:
        NotFoundError: it is not there.
    """
    folder = Path(os.environ.get(VARIABLE, _BESIDE))
    missing = [name for name in (_DFTRACER, _KINETO) if not (folder / name).is_file()]
    if missing:
        raise NotFoundError(f"no {' and '.join(missing)} in {folder}; name a folder in {VARIABLE}")
    return folder


def write_dftracer(real: Path, folder: Path, copies: int) -> int:
    """Write the traces of 8 ranks, gzip; return how many events they hold.

    Hashes become texts, as DFTracer writes them today and DFAnalyzer expects them.
    """
    folder.mkdir(parents=True)
    events = 0
    with tarfile.open(real / _DFTRACER) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is None:
                continue
            lines = _HASH.sub(rb'"\1":"\2"', file.read().strip(b"[]\n")) + b"\n"
            events += lines.count(b'"ph":"X"') * copies
            with gzip.open(folder / f"{Path(member.name).name}.gz", "wb", compresslevel=1) as to:
                to.writelines((b"[\n", *_moved(lines, copies), b"]\n"))
    return events


def _moved(lines: bytes, copies: int) -> Iterator[bytes]:
    for copy in range(copies):
        by = copy * _RUN_US
        yield _TIME.sub(lambda found, by=by: b'"ts":%d' % (int(found[1]) + by), lines)


def write_kineto(real: Path, file: Path, copies: int) -> int:
    """Write a profile of one rank; return how many events it holds that took time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    told = json.loads(gzip.decompress((real / _KINETO).read_bytes()))["traceEvents"]
    timed = [one for one in told if one["ph"] == "X" and one["cat"] != "Trace"]
    begin = min(one["ts"] for one in timed)
    span = max(one["ts"] + one["dur"] for one in timed) - begin
    with file.open("w") as to:
        to.write('{"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": [\n')
        for copy in range(copies):
            to.write(",\n" if copy else "")
            to.write(",\n".join(json.dumps(_later(one, copy, span)) for one in told))
        to.write("\n]}\n")
    return len(timed) * copies


def _later(event: dict[str, Any], copy: int, span: int) -> dict[str, Any]:
    """Return an event of a later copy; ids that bind launches to kernels stay apart."""
    moved = dict(event)
    if "ts" in event:
        moved["ts"] = event["ts"] + copy * span
    if "id" in event:
        moved["id"] = event["id"] + copy * _IDS
    if "correlation" in event.get("args", {}):
        moved["args"] = dict(event["args"])
        moved["args"]["correlation"] += copy * _IDS
    return moved
