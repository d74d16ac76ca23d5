"""``headrace simulate`` compares policies on a scenario, and says what is wrong with a call."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from headrace.analysis.figures import Analysis
from headrace.cli.main import run
from headrace.cli.simulate import LINE_S, Lines
from headrace.sim.world import World

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
    shown = capsys.readouterr().out
    assert "tiny: 0.01 days, seed 0" in shown
    assert "static quotas" in shown
    assert f"drawings: {plots}" in shown.replace("\n", "")
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


def test_traces_of_all_policies_can_be_analysed_and_change_no_figure(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["simulate", scenario, "--policy", "static", "--policy", "oracle"]
    call += ["--processes", "1", "--json"]
    traces = ["--trace", str(tmp_path / "traces")]
    assert run([*call, str(tmp_path / "plain")]) == 0
    assert run([*call, str(tmp_path / "traced"), *traces]) == 0
    assert f"traces: {tmp_path / 'traces'}" in capsys.readouterr().out
    plain, traced = (
        msgspec.json.decode((tmp_path / name).read_bytes())["policies"]
        for name in ("plain", "traced")
    )
    assert all(plain[name]["figures"] == traced[name]["figures"] for name in plain)
    assert run(["analyze", str(tmp_path / "traces"), "--json", str(tmp_path / "analysis")]) == 0
    jobs = msgspec.json.decode((tmp_path / "analysis").read_bytes(), type=Analysis).jobs
    assert [job.job for job in jobs] == [
        f"{policy}/vision-{number}" for policy in ("oracle", "static") for number in (0, 1)
    ]
    for policy in ("static", "oracle"):
        steps = sum(job.steps or 0 for job in jobs if job.job.startswith(policy))
        assert steps == pytest.approx(traced[policy]["figures"]["iterations"], rel=0.1)
    assert run([*call, "-", *traces]) == 2
    assert "static.parquet is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--policy", "predictiv"], "did you mean 'predictive'?"),
        (["--days", "0"], "--days"),
        (["--days", "-1"], "--days"),
        (["--days", "nan"], "'nan' is not finite"),
        (["--days", "inf"], "'inf' is not finite"),
        (["--days", "1e-9"], "less than one quantum_s"),
        (["--seed", "-1"], "--seed"),
        (["--processes", "0"], "--processes"),
        (["--json", "/nowhere/found.json"], "there is no directory /nowhere; make it"),
        (["--json", "/"], "it is a directory; name a file in it"),
        (["--plots", "/dev/null/plots"], "/dev/null is a file; name another directory"),
        (["--trace", "/dev/null/traces"], "/dev/null is a file; name another directory"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_is_simulated(
    scenario: str,
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(World, "run", lambda *_, **__: pytest.fail("a world ran"))
    assert run(["simulate", scenario, *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--json", "--plots"])
def test_a_place_that_may_not_be_written_to_is_refused_at_once(
    scenario: str,
    tmp_path: Path,
    option: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(World, "run", lambda *_, **__: pytest.fail("a world ran"))
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)
    assert run(["simulate", scenario, option, str(tmp_path / "new")]) == 2
    assert f"{tmp_path} is not yours to write to" in capsys.readouterr().err


def test_drawings_without_matplotlib_are_refused_at_once(
    scenario: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(World, "run", lambda *_, **__: pytest.fail("a world ran"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(["simulate", scenario, "--plots", str(tmp_path / "new")]) == 2
    assert "pip install 'headrace[demo]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "[limits]\npredictiv = false",
            "limits: unknown key 'predictiv'; did you mean 'predictive'?",
        ),
        ("[troubles.checkpoints]\ntier = 'sdd'", "is neither ssd nor hdd"),
    ],
)
def test_a_wrong_scenario_is_refused_before_anything_is_simulated(
    scenario: str,
    more: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(World, "run", lambda *_, **__: pytest.fail("a world ran"))
    with Path(scenario).open("a") as file:
        file.write(more)
    assert run(["simulate", scenario]) == 2
    assert said in capsys.readouterr().err


def test_an_interrupt_ends_the_command_and_all_its_processes_without_a_traceback(
    scenario: str,
) -> None:
    call = [sys.executable, "-m", "headrace", "simulate", scenario, "--days", "1000"]
    options = ["--policy", "static", "--policy", "aimd", "--processes", "2"]
    command = subprocess.Popen(
        [*call, *options], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    try:
        end = time.monotonic() + 30
        while len(children := psutil.Process(command.pid).children()) < 3:
            assert time.monotonic() < end, "no children"
            time.sleep(0.02)
        os.killpg(command.pid, signal.SIGINT)
        said = command.communicate(timeout=30)[1]
    finally:
        command.kill()
    assert command.returncode == 130
    assert said.splitlines()[-1] == "headrace: interrupted"
    assert "Traceback" not in said
    assert not any(child.is_running() for child in psutil.wait_procs(children, timeout=10)[1])


def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    lines: list[str] = []
    now = [0.0]
    tell = Lines(200.0, lines.append, clock=lambda: now[0])
    for name, now[0], far_s in (
        ("a", 1, 10),
        ("b", LINE_S, 50),
        ("a", LINE_S + 1, 200),
        ("b", 2 * LINE_S, 100),
    ):
        tell(name, far_s)
    assert lines == ["a 5%, b 25%", "b 50%"]


def test_a_scenario_that_is_not_there_is_the_callers_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", str(tmp_path / "none.toml")]) == 2
    assert "none.toml" in capsys.readouterr().err


def test_help_shows_two_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--help"]) == 0
    assert capsys.readouterr().out.count("headrace simulate ") >= 2
