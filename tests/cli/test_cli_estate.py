"""``headrace jobs``, ``agents``, ``ledger`` and ``top`` over a controller's answers."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import msgspec
import pytest
from estate_samples import agent, estate, job, loan
from fake_estate import TOKEN, FakeEstate, telling
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from headrace.cli.gauges import gauge
from headrace.cli.main import run
from headrace.cli.topview import Screen, picture
from headrace.wire.estate import Agents, Estate, TierView


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEstate]:
    with telling() as fake:
        monkeypatch.setenv("HEADRACE_CONTROLLER", fake.address)
        monkeypatch.setenv("HEADRACE_TOKEN", TOKEN)
        monkeypatch.setenv("COLUMNS", "80")
        yield fake


def drawn(jobs: int, agents: int, screen: Screen) -> list[str]:
    return lines_of(estate(jobs, agents), screen)


def lines_of(whole: Estate, screen: Screen) -> list[str]:
    console = Console(width=screen.width, height=screen.height, file=io.StringIO())
    console.print(picture(whole, screen, controller="http://c:1", footer="q quits"))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_jobs_are_listed_with_the_worst_first(
    fake: FakeEstate, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["jobs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("vision-")
    assert "11 critical" in lines[1]
    assert "300 MB" in lines[1]
    assert lines[2].strip().startswith("↳ 48 % of an I/O's time")
    assert max(len(line) for line in lines if "↳" not in line) <= 80


def test_a_level_is_asked_of_the_controller(
    fake: FakeEstate, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["jobs", "--level", "danger", "--json", "-"]) == 0
    assert fake.asked == ["/v1/jobs?level=danger"]
    first = json.loads(capsys.readouterr().out)["jobs"][0]
    assert first["tiers"]["hdd"]["granted_bytes_per_s"] == 300e6


def test_agents_are_listed_with_all_their_tiers(
    fake: FakeEstate, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["agents"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "decoding" in lines[1]
    assert lines[1].split()[-7:] == ["87", "%", "hdd", "600", "MB", "412", "MB"]
    assert lines[2].split() == ["ssd", "3.00", "GB", "1.20", "GB"]
    assert max(map(len, lines)) <= 80


def test_a_silent_agent_is_a_bad_answer(
    fake: FakeEstate, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.agents = Agents(agents=(agent("storage-0", silent=True, age_s=31.0),))
    assert run(["agents"]) == 1
    assert "silent 31 s" in capsys.readouterr().out


def test_the_ledger_tells_who_why_and_for_how_long(
    fake: FakeEstate, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.entries = [
        loan(entry=3, title="photos-small-of-many"),
        loan(entry=2, ended_at=loan().began_at + 5.5, end_reason="its 3 iterations are over"),
        loan(entry=1, kind="refusal", loan=None, bytes_per_s=0.0, times=4),
    ]
    assert run(["ledger"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[1].startswith("photos-small-of-many ")
    assert "12 s left" in lines[1]
    assert lines[3].startswith("3f2a ")
    assert "5.50 s" in lines[3]
    assert "its queue holds 1 of 8 batches; its 3 iterations are over" in lines[4]
    assert "4 times" in lines[5]
    assert max(len(line) for line in lines if "↳" not in line) <= 80


def test_the_ledger_is_filtered_and_paged_by_the_controller(
    fake: FakeEstate, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.page = 2
    assert (
        run(["ledger", "--job", "a b", "--open", "--since", "2h", "--limit", "5", "--json", "-"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert [entry["entry"] for entry in found["entries"]] == [9, 8, 7, 6, 5]
    assert found["before"] == 5
    assert len(fake.asked) == 3
    assert "job=a+b" in fake.asked[0]
    assert "open=true" in fake.asked[0]
    assert "before=8" in fake.asked[1]
    since = float(fake.asked[0].partition("since=")[2].partition("&")[0])
    assert time.time() - since == pytest.approx(7200, abs=60)


def test_a_wrong_duration_is_refused(fake: FakeEstate, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ledger", "--since", "yesterday"]) == 2
    assert "15m" in capsys.readouterr().err


def test_jobs_show_no_health_of_one_that_has_not_reported(
    fake: FakeEstate, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.estate = msgspec.structs.replace(fake.estate, jobs=(job("new", 100, hosts_reporting=0),))
    assert run(["jobs"]) == 0
    shown = capsys.readouterr().out
    assert "new" in shown
    assert "100" not in shown
    assert "healthy" not in shown


@pytest.mark.parametrize("verb", ["jobs", "agents", "ledger", "top"])
def test_a_call_without_a_controller_says_how_to_name_one(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HEADRACE_CONTROLLER", raising=False)
    assert run([verb]) == 2
    assert "--controller http://HOST:PORT" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["jobs", "agents", "ledger", "top"])
def test_a_controller_that_is_away_refuses_or_is_another_service_is_a_remote_failure(
    verb: str,
    fake: FakeEstate,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([verb, "--controller", "http://127.0.0.1:9"]) == 3
    monkeypatch.setattr(FakeEstate, "answer", lambda *_: None)
    assert run([verb]) == 3
    monkeypatch.setenv("HEADRACE_TOKEN", "w" * 32)
    assert run([verb]) == 3
    errors = capsys.readouterr().err
    assert "Connection refused" in errors
    assert "not a controller's answer" in errors
    assert "the token is wrong" in errors


def test_top_shows_everything_once_where_there_is_no_terminal(
    fake: FakeEstate, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.estate = estate(jobs=40, agents=12)
    assert run(["top"]) == 0
    out = capsys.readouterr().out
    assert "text-35" in out
    assert "storage-11" in out
    assert "more" not in out


def test_top_writes_the_estate_as_json_once(
    fake: FakeEstate, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "estate.json"
    assert run(["top", "--once", "--json", str(target)]) == 0
    assert json.loads(target.read_text())["jobs"][0]["score"] == 11
    assert run(["top", "--json", "/no/such/folder/x"]) == 2
    assert "there is no directory /no/such/folder; make it" in capsys.readouterr().err


def test_top_streams_a_line_of_json_per_look(fake: FakeEstate) -> None:
    command = [sys.executable, "-m", "headrace", "top", "--json", "-", "--every", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout is not None
        looks = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.terminate()
    assert [len(look["jobs"]) for look in looks] == [6, 6, 6]


@pytest.mark.parametrize("width", [60, 80, 100, 132, 200])
@pytest.mark.parametrize("height", [12, 24, 50])
@pytest.mark.parametrize(("jobs", "agents"), [(0, 0), (1, 1), (6, 3), (60, 30), (3, 90)])
def test_a_picture_fits_its_screen(width: int, height: int, jobs: int, agents: int) -> None:
    lines = drawn(jobs, agents, Screen(width=width, height=height))
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert lines[-1] == "q quits"


def test_a_screen_of_80_by_24_shows_level_diagnosis_quotas_loans_and_agents() -> None:
    lines = drawn(6, 3, Screen(width=80, height=24))
    (worst,) = [line for line in lines if line.startswith("vision-")]
    for word in ("11", "congestion", "0/8", "2.31 s", "320 MB", "300 MB", "120 MB 12s"):
        assert word in worst
    assert sum("storage-" in line for line in lines) == 3
    assert any("42%" in line and "hdd 412 MB 69%" in line for line in lines)


def test_a_tier_of_long_figures_is_shown_whole_on_80_letters() -> None:
    tier = TierView(
        tier="nvme-2",
        media="ssd",
        bytes_per_s=11.1e6,
        effective_bytes_per_s=11.1e6,
        granted_bytes_per_s=10.1e6,
        lent_bytes_per_s=1.11e6,
        pool_bytes_per_s=1.66e6,
        used_bytes_per_s=8.88e6,
    )
    whole = msgspec.structs.replace(estate(0, 0), tiers=(tier,))
    (shown,) = [row for row in lines_of(whole, Screen(width=80, height=24)) if "nvme-2" in row]
    assert shown.endswith("given 10.1 MB of 11.1 MB/s  lent 1.11 MB of 1.66 MB  used 8.88 MB")


def test_a_job_that_is_not_heard_of_any_more_is_called_silent(
    fake: FakeEstate, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = (job("gone", 35, mode="thrash", reason="hit rate", age_s=45.0), job("idle", 90, age_s=9))
    fake.estate = msgspec.structs.replace(fake.estate, jobs=jobs)
    assert run(["jobs"]) == 0
    assert run(["top"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all("silent 45 s" in row for row in lines if row.startswith("gone"))
    assert not any("silent" in row for row in lines if row.startswith("idle"))
    assert not any("hit rate" in row for row in lines)


@pytest.mark.parametrize("width", [20, 30, 40])
def test_a_picture_of_nothing_takes_no_more_lines_than_it_has(width: int) -> None:
    assert len(drawn(0, 0, Screen(width=width, height=12))) == 7


def test_one_job_is_not_called_jobs() -> None:
    assert "  1 job  1 agent" in drawn(1, 1, Screen(width=80, height=24))[0]
    assert "  6 jobs  0 agents" in drawn(6, 0, Screen(width=80, height=24))[0]


def test_what_is_left_out_is_counted() -> None:
    lines = drawn(60, 30, Screen(width=80, height=24))
    shown = sum(line.startswith(("vision-", "omni-", "text-", "video-")) for line in lines)
    (more,) = [line for line in lines if "in better health" in line]
    assert f"… {60 - shown} more" in more


def test_what_a_job_does_not_have_is_a_dash() -> None:
    new = job("new", 100, hosts_reporting=0, tiers={})
    whole = msgspec.structs.replace(estate(0, 0), jobs=(new,))
    (shown,) = [row for row in lines_of(whole, Screen(width=120, height=24)) if "new" in row]
    assert "B" not in shown


def test_of_a_healthy_job_no_more_is_said() -> None:
    whole = msgspec.structs.replace(estate(0, 0), jobs=(job("calm", 90, reason="all is well"),))
    text = "".join(lines_of(whole, Screen(width=80, height=24)))
    assert "calm" in text
    assert "all is well" not in text


def test_of_a_job_that_has_not_reported_no_health_is_shown() -> None:
    new = job("new", 100, hosts_reporting=0)
    whole = msgspec.structs.replace(estate(0, 0), jobs=(new,))
    (shown,) = [row for row in lines_of(whole, Screen(width=80, height=24)) if "new" in row]
    assert "100" not in shown
    assert "█" not in shown


@given(st.floats(-1, 2), st.integers(1, 20))
def test_a_gauge_has_its_width_and_shows_what_is_not_nothing(share: float, width: int) -> None:
    bar = gauge(share, width=width, style="").plain
    assert len(bar) == width
    assert (bar == "·" * width) == (share <= 0)
    assert (bar == "█" * width) == (share > 1 - 1 / (8 * width))


class Terminal:
    """A program in a terminal of 80 x 24."""

    def __init__(self, command: list[str], **environment: str) -> None:
        self._ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", **environment},
        )
        os.close(theirs)
        self.text = ""

    def read_until(self, word: str, timeout_s: float = 20.0) -> None:
        deadline = time.monotonic() + timeout_s
        while word not in self.text:
            assert time.monotonic() < deadline, f"{word!r} did not come: {self.text[-2000:]!r}"
            if select.select([self._ours], [], [], 0.1)[0]:
                self.text += os.read(self._ours, 65536).decode(errors="replace")

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        status = self.process.wait(20)
        os.close(self._ours)
        return status


def test_top_lives_in_a_terminal_survives_an_absent_controller_and_quits_with_q(
    fake: FakeEstate,
) -> None:
    fake.estate = estate(2, 1)
    command = [sys.executable, "-m", "headrace", "top", "--every", "0.1"]
    terminal = Terminal(command, COLUMNS="", LINES="")
    try:
        terminal.read_until("omni-large")
        terminal.read_until("q quits")
        fake.is_broken = True
        terminal.read_until("the picture is old")
        fake.is_broken = False
        fake.estate = estate(6, 1)
        terminal.read_until("video-7b")
        terminal.type("q")
        assert terminal.end() == 0
    finally:
        terminal.process.kill()


@pytest.mark.parametrize("call", ["top --json - --every 0.1", "jobs", "jobs --json -"])
def test_a_reader_that_has_seen_enough_is_no_error(fake: FakeEstate, call: str) -> None:
    fake.estate = estate(jobs=2000)
    line = f'"$0" -m headrace {call} | head -c 1 >/dev/null; echo "${{PIPESTATUS[@]}}"'
    command = ["bash", "-c", line, sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("0 0\n", "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_standard_stream_is_no_error(fake: FakeEstate, closed: str) -> None:
    command = ["sh", "-c", f'"$0" -m headrace top {closed}', sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_colours_are_used_where_they_are_not_wanted(fake: FakeEstate) -> None:
    command = [sys.executable, "-m", "headrace", "top", "--once"]
    for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        terminal = Terminal(command, **environment)
        terminal.read_until("storage-0")
        assert terminal.process.wait(20) == 0
        assert ("\x1b[31m" in terminal.text) is coloured


def test_certificates_for_a_controller_that_is_talked_to_in_clear_are_refused(
    fake: FakeEstate, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["jobs", "--ca-file", "ca.pem"]) == 2
    assert "--ca-file=ca.pem is for a controller at an https:// address" in capsys.readouterr().err
    assert not fake.asked
