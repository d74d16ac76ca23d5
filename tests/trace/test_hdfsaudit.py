"""A NameNode's audit log becomes questions for metadata, which take a time that nobody told."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pyarrow as pa
import pytest
from importers_for_tests import read_by

from headrace.core.errors import CorruptDataError, HeadraceError
from headrace.trace.importer import Notes
from headrace.trace.importers.hdfsaudit import HDFSAudit

LOG = (
    "2024-06-01 10:00:01,010 INFO FSNamesystem.audit: allowed=true\tugi=hdfs (auth:SIMPLE)"
    "\tip=/10.0.0.7\tcmd=open\tsrc=/data/a b.bin\tdst=null\tperm=null\tproto=rpc\n"
    "2024-06-01T10:00:02.020123 INFO FSNamesystem.audit: allowed=false\tugi=u/h@REALM"
    "\tip=/10.0.0.8\tcmd=rename\tsrc=/a\tdst=/b\tperm=hdfs:g:rw-r--r--\tproto=rpc"
    "\tcallerContext=job7\n"
    "2024-06-01 10:00:02,030 INFO FSNamesystem.audit: allowed=true\tugi=hdfs"
    "\tip=/10.0.0.7\tcmd=safemode_get\tsrc=null\tdst=null\tperm=null\tproto=rpc\n"
)


def written(folder: Path, data: bytes, name: str = "hdfs-audit.log") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def read(path: Path, notes: Notes | None = None) -> pa.Table:
    return read_by(HDFSAudit(), path, notes)


def test_each_entry_is_what_a_client_asked_for_and_when(tmp_path: Path) -> None:
    table = read(written(tmp_path, LOG.encode()))
    assert table["name"].to_pylist() == ["open", "rename", "safemode_get"]
    assert table["file"].to_pylist() == ["/data/a b.bin", "/a", None]
    assert table["host"].to_pylist() == ["10.0.0.7", "10.0.0.8", "10.0.0.7"]
    first = 1_717_236_001_010_000_000
    assert [at - first for at in table["begin_ns"].to_pylist()] == [0, 1_010_000_000, 1_020_000_000]
    assert set(table["kind"].to_pylist()) == {"metadata"}
    assert table["duration_ns"].null_count == 3


def test_gzip_and_lines_that_end_with_a_return_are_read(tmp_path: Path) -> None:
    packed = gzip.compress(LOG.replace("\n", "\r\n").encode())
    assert read(written(tmp_path, packed, "a.gz")).equals(read(written(tmp_path, LOG.encode())))


def test_other_lines_are_named_and_a_day_that_is_none_is_no_event(tmp_path: Path) -> None:
    text = LOG.replace("2024-06-01 10:00:02", "2024-13-01 10:00:02") + "\nWARN else\n" * 22
    notes = Notes()
    assert read(written(tmp_path, text.encode()), notes).num_rows == 2
    assert "line 5: not an entry" in notes.problems[0]
    assert notes.further_problems == 2


def test_a_log_is_told_by_its_entries(tmp_path: Path) -> None:
    assert HDFSAudit().recognises(Path("a.log"), b"# started\n" + LOG.encode())
    assert not HDFSAudit().recognises(Path("hdfs-audit.log"), b"2024-06-01 10:00:01,010 INFO x")


def test_a_log_without_an_entry_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorruptDataError, match="line 1: not an entry"):
        read(written(tmp_path, b"\x00\xff\x89\n" * 30))


def test_mutations_end_in_events_or_in_an_error_of_ours(tmp_path: Path) -> None:
    """Seed 20261130."""
    rng = random.Random(20261130)
    odd = [b"9999", b"-", b"\t", b"\n", b"\0", b"\xff", b"", b"T", b"null"]
    for _ in range(700):
        data = bytearray(LOG.encode())
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(0, 20)] = rng.choice(odd)
        path = written(tmp_path, bytes(data))
        try:
            for batch in HDFSAudit().read(path, Notes(), lambda _: None):
                batch.validate(full=True)
        except HeadraceError as error:
            assert str(path) in str(error)


@pytest.mark.parametrize("year", ["0001", "1500", "1677", "2262", "9999"])
def test_a_year_in_which_there_was_no_log_is_no_time(tmp_path: Path, year: str) -> None:
    notes = Notes()
    path = written(tmp_path, (LOG + LOG.replace("2024-", f"{year}-")).encode())
    assert read(path, notes).num_rows == 3
    assert "3 events do not tell when they began" in notes.problems[0]
