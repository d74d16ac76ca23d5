from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import hdfs_native
import pytest

from headrace.cli.main import run
from headrace.devhdfs import processes
from headrace.devhdfs.config import ClusterConfig
from headrace.devhdfs.state import DaemonRecord, Record, Register


@pytest.fixture(autouse=True)
def register(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Register:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Register.of_user()


@pytest.fixture
def down(hadoop: None) -> Iterator[None]:
    """Whatever a test leaves up is stopped."""
    yield
    run(["devhdfs", "down"])


def record(directory: Path, *, temporary: bool = True) -> Record:
    return Record(
        name="default",
        directory=str(directory),
        is_temporary=temporary,
        url="hdfs://127.0.0.1:1",
        config_dir=str(directory / "client" / "conf"),
        namenodes=(DaemonRecord(name="namenode-1", address="127.0.0.1:1", http="127.0.0.1:2"),),
        datanodes=(DaemonRecord(name="datanode-1", address="127.0.0.1:3"),),
        config=ClusterConfig(datanodes=1),
        started="2026-01-01T00:00:00+00:00",
    )


def carrying(mark: str) -> subprocess.Popen[bytes]:
    script = "print(flush=True); import time; time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", script, mark], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_cluster_is_up_from_one_command_to_another(
    down: None, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--datanodes", "1", "--replication", "1", "--bandwidth", "4MiB"]
    assert run(["devhdfs", "up", *options]) == 0
    told = capsys.readouterr().out
    assert run(["devhdfs", "status", "--json", "-"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["cluster"]["url"] in told
    assert status["cluster"]["config_dir"] in told
    assert [one["says"] for one in status["health"]["daemons"]] == ["active", "running"]
    assert_serves_at(status["cluster"]["url"], 4 << 20)
    assert run(["devhdfs", "up"]) == 2
    assert "is up already" in capsys.readouterr().err
    assert run(["devhdfs", "down"]) == 0
    assert processes.marked(Path(status["cluster"]["directory"])) == []
    assert not Path(status["cluster"]["directory"]).exists()
    assert run(["devhdfs", "status"]) == 1


def assert_serves_at(url: str, bytes_per_s: int) -> None:
    client = hdfs_native.Client(url)
    with client.create("/file") as file:
        file.write(bytes(2 * bytes_per_s))
    begin = time.monotonic()
    with client.read("/file") as file:
        assert len(file.read(2 * bytes_per_s)) == 2 * bytes_per_s
    assert time.monotonic() - begin > 1.2


def test_what_a_crash_left_is_removed_by_the_next_start(
    register: Register,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory = tmp_path / "left"
    directory.mkdir()
    register.save(record(directory))
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")  # the start itself goes no further
    with carrying(processes.mark(directory, "datanode-1")) as orphan:
        assert run(["devhdfs", "up"]) == 2
        assert "removed what an earlier 'default' left (1 processes)" in capsys.readouterr().err
        assert orphan.wait(10) != 0
    assert not directory.exists()
    assert register.load("default") is None


def test_a_cluster_that_is_still_starting_is_not_taken_for_a_leftover(
    register: Register, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register.save(record(tmp_path / "alive"))
    with carrying(processes.mark(tmp_path / "alive", "namenode-1")) as namenode:
        assert run(["devhdfs", "up"]) == 2
        assert namenode.poll() is None
        assert run(["devhdfs", "status"]) == 1
        assert run(["devhdfs", "down"]) == 0
    assert "devhdfs down" in capsys.readouterr().err


def test_down_keeps_the_files_of_a_directory_that_was_asked_for(
    register: Register, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    register.save(record(kept, temporary=False))
    assert run(["devhdfs", "down"]) == 0
    assert kept.exists()
    assert f"its files stay in {kept}" in capsys.readouterr().out


def test_nothing_to_stop_is_fine_and_names_what_there_is(
    register: Register, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register.save(record(tmp_path))
    assert run(["devhdfs", "down", "--name", "other"]) == 0
    assert "there is default (--name)" in capsys.readouterr().err


def test_two_commands_do_not_start_one_cluster_twice(
    register: Register, capsys: pytest.CaptureFixture[str]
) -> None:
    with register.locked("default"):
        assert run(["devhdfs", "up"]) == 2
    assert "another command is starting or stopping" in capsys.readouterr().err


def test_a_name_cannot_leave_the_register(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["devhdfs", "up", "--name", "../x"]) == 2
    assert "no name for a cluster" in capsys.readouterr().err
