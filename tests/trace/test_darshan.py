"""Darshan's logs become events; a log that ends Darshan's library ends nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from importers_for_tests import read_by

from headrace.core.errors import CallerError, CorruptDataError, HeadraceError
from headrace.trace.importer import Notes
from headrace.trace.importers import darshan as importer
from headrace.trace.importers.darshan import Darshan

SPEC = importlib.util.find_spec("darshan")
needs_darshan = pytest.mark.skipif(SPEC is None, reason="Darshan's package is not installed")


def example(name: str) -> Path:
    """Return a log that Darshan's package ships."""
    assert SPEC is not None
    assert SPEC.origin is not None
    return Path(SPEC.origin).parent / "examples" / "example_logs" / name


def read(path: Path, notes: Notes | None = None) -> pa.Table:
    return read_by(Darshan(), path, notes)


def told_by_darshan(path: Path, module: str) -> list[dict[str, Any]]:
    """Return the records of a log, by Darshan's own library."""
    from darshan.backend import cffi_backend

    log = cffi_backend.log_open(str(path))
    records = []
    while (record := cffi_backend.log_get_record(log, module, dtype="dict")) is not None:
        records.append(record)
    cffi_backend.log_close(log)
    return records


@needs_darshan
def test_single_reads_and_writes_are_told_where_the_log_has_them() -> None:
    path = example("ior_hdf5_example.darshan")
    notes = Notes()
    table = read(path, notes)
    assert "offset" not in notes.unknown
    segments = [
        segment
        for record in told_by_darshan(path, "DXT_POSIX")
        for segment in record["read_segments"]
    ]
    single = pc.and_(pc.is_null(table["count"]), pc.equal(table["name"], "read"))
    reads = table.filter(single)
    assert reads.num_rows == len(segments) > 0
    assert pc.sum(reads["bytes"]).as_py() == sum(segment["length"] for segment in segments)
    assert set(reads["host"].to_pylist()) == {"nid00097"}
    assert set(reads["rank"].to_pylist()) == {0, 1, 2, 3}
    assert pc.min(reads["begin_ns"]).as_py() // 10**9 == 1_594_155_460
    assert table.filter(pc.equal(table["kind"], "metadata"))["count"].null_count == 0


@needs_darshan
def test_counters_stand_for_all_operations_on_a_file() -> None:
    path = example("noposix.darshan")
    notes = Notes()
    table = read(path, notes)
    assert "offset" in notes.unknown
    told = [record["counters"] for record in told_by_darshan(path, "STDIO")]
    for name, count, moved in (("read", "READS", "READ"), ("write", "WRITES", "WRITTEN")):
        events = table.filter(pc.equal(table["name"], name))
        assert pc.sum(events["count"]).as_py() == sum(one[f"STDIO_{count}"] for one in told)
        assert pc.sum(events["bytes"]).as_py() == sum(one[f"STDIO_BYTES_{moved}"] for one in told)
    assert set(table["job"].to_pylist()) == {"83017637"}


@needs_darshan
def test_a_damaged_log_is_an_error_or_a_part_however_the_library_ends(tmp_path: Path) -> None:
    whole = example("ior_hdf5_example.darshan").read_bytes()
    ends = set()
    for damaged in (whole[: len(whole) * 2 // 3], whole[:900] + bytes(9) + whole[909:]):
        path = tmp_path / "a.darshan"
        path.write_bytes(damaged)
        notes = Notes()
        try:
            read(path, notes)
            ends.add(notes.is_partial)
        except HeadraceError as error:
            assert str(path) in str(error)
            ends.add(type(error))
    assert CorruptDataError in ends
    assert False not in ends


@needs_darshan
def test_what_is_no_log_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.darshan"
    path.write_bytes(b"no log at all")
    with pytest.raises(CorruptDataError, match="Darshan's library cannot read it"):
        read(path)


def test_a_log_is_told_by_its_magic_number() -> None:
    assert Darshan().recognises(Path("log"), b"3.21\0\0\0\x0075d\0\0\0\0\0")
    assert Darshan().recognises(Path("a.darshan"), b"")
    assert not Darshan().recognises(Path("log"), b"3.21 is no log")


def test_without_the_package_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "find_spec", lambda _: None)
    with pytest.raises(CallerError, match=r"headrace\[darshan\]"):
        read(tmp_path / "a.darshan")
