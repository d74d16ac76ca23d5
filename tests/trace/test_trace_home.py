"""Where traces lie, how the folder of a run is called, and which runs go to make room."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.trace.events import Event, Kind
from headrace.trace.home import plain_name, run_folder, tidy, trace_home
from headrace.trace.segments import Origin
from headrace.trace.store import EventRecorder

ORIGIN = Origin(role="trainer")


@pytest.mark.parametrize(
    ("environment", "home"),
    [
        ({"HOME": "/home/me"}, Path("/home/me/.cache/headrace/traces")),
        ({"HOME": "/home/me", "XDG_CACHE_HOME": "/scratch"}, Path("/scratch/headrace/traces")),
        ({"HOME": "/home/me", "HEADRACE_TRACE": "/traces"}, Path("/traces")),
        ({"HOME": "/home/me", "HEADRACE_TRACE": "Off"}, None),
    ],
)
def test_traces_lie_where_the_environment_says_or_in_the_cache(
    environment: dict[str, str], home: Path | None
) -> None:
    assert trace_home(environment) == home


def test_a_run_s_folder_bears_the_name_that_its_launcher_gives() -> None:
    assert run_folder({"TORCHELASTIC_RUN_ID": "none", "SLURM_JOB_ID": "77"}) == "77"
    assert run_folder({"HEADRACE_RUN": "../nightly run"}) == "nightly-run"
    assert plain_name("...") == "unnamed"


def test_ranks_without_a_run_s_name_share_the_folder_of_who_started_them() -> None:
    alone, rank = run_folder({}), run_folder({"LOCAL_RANK": "1"})
    assert alone.endswith(f"-{os.getpid()}")
    assert rank.endswith(f"-{os.getppid()}")
    assert run_folder({"LOCAL_RANK": "0"}) == rank


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["/jobs/train.py", "--lr", "1"], "train"),
        (["/site/pretrain/__main__.py"], "pretrain"),
        (["-c"], "python"),
        ([""], "python"),
    ],
)
def test_else_it_bears_that_of_its_program(
    argv: list[str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", argv)
    assert run_folder({}).startswith(f"{name}-2")


def recorded(folder: Path, *, at_s: int) -> Path:
    with EventRecorder(folder, ORIGIN) as recorder:
        recorder.record(Event(kind=Kind.STEP, begin_ns=0))
    for segment in folder.iterdir():
        os.utime(segment, (at_s, at_s))
    return folder


def test_the_runs_that_ended_longest_ago_make_room(tmp_path: Path) -> None:
    for number in (3, 1, 2):
        recorded(tmp_path / str(number), at_s=number)
    one = sum(file.stat().st_size for file in (tmp_path / "1").iterdir())
    tidy(tmp_path, most_bytes=2 * one)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["2", "3"]


def test_more_runs_than_are_looked_at_quickly_are_not_kept(tmp_path: Path) -> None:
    for number in (3, 1, 2):
        recorded(tmp_path / str(number), at_s=number)
    tidy(tmp_path, most_runs=1)
    assert [folder.name for folder in tmp_path.iterdir()] == ["3"]


def test_a_run_that_goes_on_and_whatever_else_lies_there_stay(tmp_path: Path) -> None:
    recorded(tmp_path / "old", at_s=1)
    (tmp_path / "old" / "notes.txt").write_text("mine")
    (tmp_path / "file").touch()
    with EventRecorder(tmp_path / "new", ORIGIN) as recorder:
        recorder.record(Event(kind=Kind.STEP, begin_ns=0))
        recorder.flush()
        tidy(tmp_path, most_bytes=0)
        assert len(list((tmp_path / "new").iterdir())) == 1
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["notes.txt"]
    tidy(tmp_path / "missing")


def test_a_run_beside_whose_segments_something_else_lies_costs_no_other_run(
    tmp_path: Path,
) -> None:
    for number in (1, 2):
        recorded(tmp_path / str(number), at_s=number)
    (tmp_path / "1" / "notes.txt").write_text("mine")
    tidy(tmp_path, most_runs=1)
    assert [path.name for path in (tmp_path / "1").iterdir()] == ["notes.txt"]
    assert len(list((tmp_path / "2").iterdir())) == 1
