"""headrace trace anonymize: what it writes, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.cli.main import run
from headrace.trace.anonymise import new_key
from headrace.trace.events import Event, Kind, batch_of
from headrace.trace.parquetfile import EventParquetWriter


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace" / "job.parquet"
    with EventParquetWriter(path) as writer:
        event = Event(kind=Kind.REQUEST, begin_ns=10**18, file="/acme/1.jpg", bytes=1000)
        writer.write(batch_of([event]))
        writer.commit()
    return path


def files(path: Path) -> list[str]:
    found: list[str] = pq.read_table(path)["file"].to_pylist()
    return found


def test_a_trace_is_written_without_names(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "shared.parquet"
    call = ["trace", "anonymize", str(trace.parent), "-o", str(out), "--bucket-sizes"]
    assert run(call) == 0
    assert "1 events, none with a word of a name" in capsys.readouterr().err
    assert files(out) != files(trace) and "acme" not in files(out)[0]
    assert pq.read_table(out)["bytes"].to_pylist() == [1024]


def test_traces_under_one_key_fit_together(trace: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(new_key())
    for name, more in (("a", ["--key-file", str(key)]), ("b", ["--key-file", str(key)]), ("c", [])):
        out = str(tmp_path / f"{name}.parquet")
        assert run(["trace", "anonymize", str(trace), "-o", out, *more]) == 0
    one, same, other = (files(tmp_path / f"{name}.parquet") for name in "abc")
    assert one == same != other


def test_of_a_damaged_trace_the_rest_is_written(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (trace.parent / "broken.parquet").write_bytes(trace.read_bytes()[:-20])
    out = tmp_path / "shared.parquet"
    assert run(["trace", "anonymize", str(trace.parent), "-o", str(out)]) == 1
    assert "broken.parquet" in capsys.readouterr().err
    assert pq.read_table(out).num_rows == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["-o", "trace/job.parquet"], "would become part of the trace"),
        (["-o", "trace/other.parquet"], "would become part of the trace"),
        (["-o", "no/where.parquet"], "there is no directory no"),
        (["-o", "out.parquet", "--key-file", "none"], "there is no key file none; make one"),
        (["-o", "out.parquet", "--key-file", "short"], "has 3 bytes, 16 are the least"),
    ],
)
def test_a_call_that_is_wrong_is_refused_with_the_reason(
    more: list[str],
    said: str,
    trace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(trace.parent.parent)
    Path("short").write_bytes(b"key")
    assert run(["trace", "anonymize", "trace", *more]) == 2
    assert said in capsys.readouterr().err
    assert not Path("out.parquet").exists()
