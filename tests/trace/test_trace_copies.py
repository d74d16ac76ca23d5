"""Copies of a trace, exported or anonymised, claim no more than the trace itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.trace.anonymise import Anonymiser, anonymise
from headrace.trace.exportparquet import export_parquet
from headrace.trace.importer import Notes
from headrace.trace.opening import Trace, open_trace


def exported(trace: Trace, path: Path) -> None:
    export_parquet(trace.batches(), path, trace.about)


def anonymised(trace: Trace, path: Path) -> None:
    anonymise(trace, path, Anonymiser(bytes(16)))


def read(path: Path) -> Notes:
    trace = open_trace([path])
    for _ in trace.batches():
        pass
    return trace.notes


@pytest.mark.parametrize("copy", [exported, anonymised])
def test_a_copy_says_what_its_original_cannot_tell_and_that_it_is_of_a_part(
    tmp_path: Path, copy: Callable[[Trace, Path], None]
) -> None:
    call = {"ph": "X", "name": "read", "cat": "POSIX", "ts": 5, "dur": 2, "pid": 1, "tid": 1}
    original, path = tmp_path / "secret.pfw", tmp_path / "copy.parquet"
    original.write_text(json.dumps(call) + "\n{damaged\nand more\n")
    copy(open_trace([original]), path)
    said, meant = read(path), read(original)
    assert said.is_relative and meant.is_relative
    assert said.unknown.keys() == meant.unknown.keys()
    assert said.problems == [f"{path}: 2 problems of its original were passed over"]
    assert b"secret" not in path.read_bytes()


def test_a_copy_of_a_whole_trace_is_whole(tmp_path: Path) -> None:
    call = {"ph": "X", "name": "read", "cat": "POSIX", "ts": 17e14, "dur": 2, "pid": 1, "tid": 1}
    original, path = tmp_path / "a-0-of-1.pfw", tmp_path / "copy.parquet"
    original.write_text(json.dumps(call))
    exported(open_trace([original]), path)
    assert not read(path).is_partial
    assert not read(path).is_relative
