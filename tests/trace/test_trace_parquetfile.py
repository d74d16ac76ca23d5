"""A Parquet file of events appears whole or not at all."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.core.errors import StorageError
from headrace.trace.events import SCHEMA_KEY, Event, Kind, batch_of
from headrace.trace.parquetfile import EventParquetWriter

BATCH = batch_of([Event(kind=Kind.STEP, begin_ns=1)])


def test_a_file_has_its_name_when_it_is_committed_and_says_what_was_told(tmp_path: Path) -> None:
    path = tmp_path / "new" / "events.parquet"
    with EventParquetWriter(path) as writer:
        writer.write(BATCH)
        writer.describe({b"told": b"x"})
        assert not path.exists() and pq.read_table(writer.finish()).num_rows == 1
        writer.commit()
    metadata = pq.read_metadata(path).metadata
    assert metadata[b"told"] == b"x" and SCHEMA_KEY in metadata
    assert [one.name for one in path.parent.iterdir()] == ["events.parquet"]


def test_without_a_commit_nothing_is_left_and_an_older_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    path.write_bytes(b"older")
    with pytest.raises(ZeroDivisionError), EventParquetWriter(path) as writer:
        writer.write(BATCH)
        raise ZeroDivisionError
    assert path.read_bytes() == b"older"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"cannot write .*/events\.parquet: .*another place"):
        EventParquetWriter(tmp_path / "file" / "events.parquet")


def test_a_file_that_cannot_be_begun_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; "
        "from headrace.trace.parquetfile import EventParquetWriter; "
        "EventParquetWriter(Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "events.parquet")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )
    assert "StorageError: cannot write" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_that_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; from headrace.cli.main import main; "
        "main(['workload', 'synthesize', 'T-S', '--ranks', '4096', '-o', sys.argv[1]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )
    assert done.returncode == 3
    assert "File too large; name another place" in done.stderr
    assert not list(tmp_path.iterdir())
