"""The journal: what it keeps, and what happens when it cannot."""

from __future__ import annotations

import http.client
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from reporters_for_tests import announced, starving

from headrace.cli.main import run
from headrace.controller.journal import RETRY_S, HostRow, Journal, QuotaRow
from headrace.controller.local import LocalController
from headrace.core.errors import CallerError, ConfigError
from headrace.wire.connection import Connection
from headrace.wire.control import HealthAnswer
from headrace.wire.endpoint import Endpoint
from headrace.wire.estate import Estate
from waiting import eventually


def quota(rate: float) -> QuotaRow:
    return QuotaRow(job="a", tier="hdd", bytes_per_s=rate, asked=rate, reason="why")


def test_only_the_newest_of_each_key_is_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    for rate in range(100):
        journal.put("quota", "a/hdd", quota(float(rate)))
    journal.put("host", "a/h0", HostRow(job="a", announced=announced()))
    journal.put("host", "a/h1", HostRow(job="a", announced=announced("h1")))
    journal.drop("host", "a/h1")
    journal.close()
    again = Journal(tmp_path / "j.db")
    assert again.kept.quotas == (quota(99.0),)
    assert again.kept.hosts == (HostRow(job="a", announced=announced()),)
    again.close()


def test_a_report_writes_nothing_by_itself(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    began = time.thread_time()
    for rate in range(10_000):
        journal.put("quota", "a/hdd", quota(float(rate)))
    assert time.thread_time() - began < 1.0
    assert journal.view().unwritten <= 1
    journal.close()


def test_a_second_controller_cannot_take_the_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    with pytest.raises(CallerError, match="in use by another controller"):
        Journal(tmp_path / "j.db")
    journal.close()


def test_people_can_read_it_with_sqlite(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.db")
    journal.put("quota", "a/hdd", quota(5e6))
    journal.close()
    with sqlite3.connect(tmp_path / "j.db") as plain:
        query = "SELECT json_extract(body, '$.bytes_per_s') FROM quota WHERE key='a/hdd'"
        assert plain.execute(query).fetchone() == (5e6,)
    plain.close()


def test_a_journal_of_a_later_version_is_refused_and_not_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_TOKEN", "t" * 20)
    path = tmp_path / "j.db"
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("PRAGMA user_version=99")
        plain.execute("CREATE TABLE host (name TEXT)")
    before = path.read_bytes()
    assert run(["controller", "--listen", "127.0.0.1:0", "--journal", str(path)]) == 2
    said = capsys.readouterr().err
    assert "has format 99, and this controller knows format 1" in said
    assert "--journal" in said
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["j.db"]


def test_a_database_of_another_program_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("CREATE TABLE experiments (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="table 'experiments'; give another file"):
        Journal(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["j.db"]


def test_a_directory_is_refused_with_what_to_give_instead(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name a file in it"):
        Journal(tmp_path)


def busy(path: Path) -> Journal:
    """Return a journal that holds a row."""
    journal = Journal(path)
    journal.put("quota", "a/hdd", quota(1e6))
    eventually(lambda: journal.view().unwritten == 0 and journal.view().nbytes > 0)
    return journal


@pytest.mark.parametrize("endings", [("",), ("-wal",), ("", "-wal", "-shm"), ("folder",)])
def test_a_journal_whose_files_are_deleted_is_written_anew_with_all_that_it_held(
    tmp_path: Path, endings: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "inside" / "j.db"
    journal = busy(path)
    if endings == ("folder",):
        shutil.rmtree(path.parent)
    else:
        for ending in endings:
            path.with_name(path.name + ending).unlink(missing_ok=True)
    eventually(lambda: "it is written anew" in caplog.text)
    journal.put("host", "a/h0", HostRow(job="a", announced=announced()))
    journal.close()
    again = Journal(path)
    assert again.kept.quotas == (quota(1e6),)
    assert [row.job for row in again.kept.hosts] == ["a"]
    again.close()
    assert "cannot be written" not in caplog.text


def test_another_file_in_its_place_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    journal = busy(path)
    path.unlink()
    path.write_text("somebody's")
    eventually(lambda: "another file lies in its place" in journal.view().degraded)
    journal.drop("quota", "a/hdd")
    journal.put("quota", "b/hdd", quota(2e6))
    assert path.read_text() == "somebody's"
    path.unlink()
    journal.close()
    again = Journal(path)
    assert again.kept.quotas == (quota(2e6),)
    again.close()


def test_a_controller_that_ends_says_what_it_could_not_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "j.db"
    journal = busy(path)
    path.unlink()
    path.write_text("somebody's")
    journal.put("quota", "b/hdd", quota(2e6))
    journal.close()
    assert "1 changes could not be written" in caplog.text


def test_a_controller_that_ends_without_its_file_says_that_all_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "j.db"
    busy(path).close()
    assert "lost" not in caplog.text
    journal = busy(path)
    path.unlink()
    path.mkdir()
    journal.close()
    assert "all that it held is lost" in caplog.text


def healthz(controller: LocalController) -> str:
    client = http.client.HTTPConnection(controller.address.removeprefix("http://"), timeout=10)
    client.request("GET", "/healthz")
    text = client.getresponse().read().decode()
    client.close()
    return text


def test_a_full_disk_keeps_nobody_from_being_served_and_all_is_written_later(
    tmp_path: Path,
) -> None:
    path = tmp_path / "j.db"
    with LocalController(path, options=("--tier", "hdd=600MB")) as controller:
        link = Connection(Endpoint(address=controller.address, token=controller.token))
        process = psutil.Process(controller.pid)
        # No file of that process may grow: what a write meets on a full disk.
        unlimited = process.rlimit(psutil.RLIMIT_FSIZE)
        process.rlimit(psutil.RLIMIT_FSIZE, (1, unlimited[1]))
        link.call("PUT", "/v1/jobs/a", HealthAnswer, announced())
        eventually(lambda: healthz(controller).startswith("degraded"))
        for iteration in range(5):
            link.call("POST", "/v1/jobs/a/health", HealthAnswer, starving(iteration))
        estate = link.call("GET", "/v1/estate", Estate)
        assert estate.controller.journal.unwritten > 0
        assert estate.jobs[0].iteration == 4
        process.rlimit(psutil.RLIMIT_FSIZE, unlimited)
        eventually(lambda: healthz(controller) == "ok\n")
        controller.kill()
        link.close()
    kept = Journal(path)
    assert [row.job for row in kept.kept.hosts] == ["a"]
    assert kept.kept.quotas
    kept.close()


def test_whoever_waits_learns_that_a_row_is_written_or_cannot_be(tmp_path: Path) -> None:
    assert not Journal(None).sync()
    path = tmp_path / "d" / "j.db"
    journal = Journal(path)
    began = time.perf_counter()
    journal.put("quota", "a/hdd", quota(1.0))
    assert journal.sync(5.0)
    journal.put("quota", "b/hdd", quota(1.0))
    journal.drop("quota", "b/hdd")
    assert journal.sync(5.0)
    assert time.perf_counter() - began < RETRY_S - 1
    shutil.rmtree(path.parent)
    path.parent.write_text("in the way")
    journal.put("quota", "a/hdd", quota(2.0))
    assert not journal.sync(0.2)
    path.parent.unlink()
    assert journal.sync(10.0)
    journal.close()
    again = Journal(path)
    assert again.kept.quotas == (quota(2.0),)
    again.close()


def test_a_journal_that_cannot_be_opened_says_what_to_look_at(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    path.symlink_to(tmp_path / "nowhere" / "j.db")
    with pytest.raises(ConfigError, match=r"cannot be opened: .* room on its disk"):
        Journal(path)
