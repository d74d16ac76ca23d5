"""``headrace simulate`` compares policies on a scenario, and says what is wrong with a call."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headrace.cli.main import run

TINY = """
title = "tiny"
days = 0.01

[hardware]
cache_bytes = 1e9

[hardware.ssd]
devices = 1

[hardware.hdd]
devices = 1

[groups.vision]
count = 2
batch_size = 16
step_time_s = 2.0
sample_bytes = 1e6
dataset_samples = 2000
initialise_s = [1, 2]
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return str(path)


def test_policies_are_compared_in_tables_json_and_drawings(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    json, plots = tmp_path / "found.json", tmp_path / "plots"
    call = ["simulate", scenario, "--policy", "static", "--policy", "predictive"]
    assert run([*call, "--processes", "1", "--json", str(json), "--plots", str(plots)]) == 0
    assert "static quotas" in capsys.readouterr().out
    found = msgspec.json.decode(json.read_bytes())
    assert found["policies"].keys() == {"static", "predictive"}
    assert found["policies"]["static"]["figures"]["iterations"] > 0
    assert found["policies"]["predictive"]["abilities"]["clairvoyant_cache"] is True
    assert {path.name for path in plots.iterdir()} == {"failures.svg", "idle.svg"}


def test_processes_of_their_own_find_the_same(scenario: str, tmp_path: Path) -> None:
    figures = []
    for processes in ("1", "2"):
        json = tmp_path / f"{processes}.json"
        call = ["simulate", scenario, "--policy", "static", "--policy", "oracle"]
        assert run([*call, "--processes", processes, "--json", str(json)]) == 0
        document = msgspec.json.decode(json.read_bytes())
        figures.append({n: p["figures"] for n, p in document["policies"].items()})
    assert figures[0] == figures[1]


def test_json_on_standard_output_leaves_tables_to_standard_error(
    scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", scenario, "--policy", "static", "--json", "-"]) == 0
    said = capsys.readouterr()
    assert msgspec.json.decode(said.out)["policies"]["static"]
    assert "static quotas" in said.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--policy", "predictiv"], "did you mean 'predictive'?"),
        (["--days", "0"], "--days"),
        (["--processes", "0"], "--processes"),
    ],
)
def test_a_wrong_call_is_refused_with_exit_code_2(
    scenario: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", scenario, *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_scenario_that_is_not_there_is_the_callers_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", str(tmp_path / "none.toml")]) == 2
    assert "none.toml" in capsys.readouterr().err


def test_help_shows_two_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--help"]) == 0
    assert capsys.readouterr().out.count("headrace simulate ") >= 2
