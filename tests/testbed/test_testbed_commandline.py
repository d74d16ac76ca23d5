"""The verbs do what they say and end with the right codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.errors import ConfigError
from testbed import Scenario, Testbed
from testbed.__main__ import run

SMALL = """
name = "small-for-tests"
[[hosts]]
role = "storage"
disk = { profile = "ssd", size_gb = 0.1 }
[[hosts]]
role = "trainer"
cpus = 0.5
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    return str(file)


@pytest.fixture
def number(machine: None, scenario: str, capfd: pytest.CaptureFixture[str]) -> Iterator[str]:
    assert run(["up", scenario, "--json", "-"]) == 0
    number = str(json.loads(capfd.readouterr().out)["bed"])
    yield number
    run(["down", number])


def test_up_leaves_a_bed_that_can_be_entered_looked_at_and_taken_down(
    number: str, scenario: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", number, "--on", "storage-1", "--", "sh", "-c", "pwd; exit 3"]) == 3
    assert capfd.readouterr().out.strip().endswith(f"{number}/hosts/storage-1")
    assert run(["status", number]) == 0
    assert "storage-1" in capfd.readouterr().out
    assert run(["status", number, "--json", "-"]) == 0
    (bed,) = json.loads(capfd.readouterr().out)["beds"]
    assert (bed["state"], [host["cpus"] for host in bed["hosts"]]) == ("up", [None, 0.5])
    assert run(["clean"]) == 0
    assert run(["down", scenario]) == 0
    assert run(["status", number]) == 2
    assert "is up" in capfd.readouterr().err


class _Services:
    """Stands in for HDFS and agents, which take a while to start."""

    def __init__(self, bed: Testbed, told: list[str]) -> None:
        self.told = told

    def start(self) -> None:
        self.told.append("started")

    def leave(self) -> None:
        self.told.append("left running")

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.told.append("closed")


@pytest.fixture
def serving(machine: None, scenario: str) -> str:
    Path(scenario).write_text(SMALL + "[services.hdfs]\n")
    return scenario


def test_services_outlive_up_and_end_with_run(
    serving: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("testbed.commandline.Services", lambda bed: _Services(bed, told))
    assert run(["up", serving]) == 0
    assert told == ["started", "left running"]
    assert run(["down", serving]) == 0
    told.clear()
    assert run(["run", serving, "--", "true"]) == 0
    assert told == ["started", "closed"]


def test_a_bed_whose_services_do_not_start_is_removed(
    serving: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(bed: Testbed) -> None:
        raise ConfigError("there is no java")

    monkeypatch.setattr("testbed.commandline.Services", refuse)
    assert run(["up", serving]) == 2
    assert "there is no java" in capfd.readouterr().err
    assert run(["down", serving]) == 2


@pytest.mark.usefixtures("machine")
def test_run_makes_a_bed_for_the_length_of_a_command(
    scenario: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", scenario, "--", "ip", "-br", "-4", "addr", "show", "eth0"]) == 0
    told = capfd.readouterr()
    assert "198.18." in told.out
    assert "ip on trainer-1" in told.err
    assert run(["down", scenario]) == 2


@pytest.mark.usefixtures("machine")
def test_a_bed_that_a_process_owns_is_neither_entered_nor_taken_down(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Testbed(Scenario.parse(SMALL)) as bed:
        number = str(bed.number)
        assert run(["down", number]) == 2
        assert run(["run", number, "--", "true"]) == 2
        assert run(["status", number]) == 0
    told = capfd.readouterr()
    assert "belongs to process" in told.err
    assert "belongs to process" in told.out


def test_a_host_that_is_not_there_is_told_with_those_that_are(
    number: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", number, "--on", "trainer", "--", "true"]) == 2
    assert "no host 'trainer'; name one with --on: storage-1, trainer-1" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["up", "none.toml"], "no scenario 'none.toml'"),
        (["down", "99999"], "no bed 99999 is up"),
        (["run", "99999", "--", "true"], "no bed 99999 was left running"),
        (["upp"], "Did you mean 'up'"),
        (["run", "none.toml"], "Missing argument"),
    ],
)
def test_a_wrong_call_ends_with_2_and_says_what_is_wrong(
    arguments: list[str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert told in capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["up", "x"], ["run", "1", "x"], ["down", "1"], ["status"], ["clean"]]
)
def test_users_who_are_not_root_are_told_so(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("testbed.probe.os.geteuid", lambda: 1000)
    assert run(arguments) == 2
    assert capfd.readouterr().err == "testbed: beds belong to root: run this with sudo\n"


@pytest.mark.parametrize("verb", [[], ["up"], ["run"], ["down"], ["status"], ["clean"]])
def test_help_has_two_examples(verb: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*verb, "--help"]) == 0
    assert capfd.readouterr().out.split("Examples:")[1].count("python -m testbed") >= 2
