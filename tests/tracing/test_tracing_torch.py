"""What the trace of an unchanged torch program of two ranks tells."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from traced_programs import Outcome, traced

SCRIPT = Path(__file__).parent / "training_script.py"
STEPS = 8
"""Of a rank in each of its two trainings: two epochs of four."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training")
    for number in range(8):
        (folder / f"{number}.bin").write_bytes(bytes(1000))
    (folder / "lines.txt").write_text("line\n" * 100)
    return folder


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Outcome:
    return traced([sys.executable, str(SCRIPT), str(folder)], folder)


def of(outcome: Outcome, *kinds: str, **columns: Any) -> list[dict[str, Any]]:
    """Return events of some kinds with these values."""
    return [
        event
        for event in outcome.of(*kinds)
        if all(event.get(name) == value for name, value in columns.items())
    ]


@pytest.fixture(params=[0, 1])
def rank(request: pytest.FixtureRequest) -> Iterator[int]:
    yield request.param


def main_pid(outcome: Outcome, rank: int) -> int:
    (event,) = of(outcome, "barrier", rank=rank, name="barrier")
    pid: int = event["pid"]
    return pid


def test_the_program_ends_as_it_would(outcome: Outcome) -> None:
    assert outcome.exit_code == 0


def test_every_step_and_every_wait_for_a_batch_is_told(outcome: Outcome, rank: int) -> None:
    for kind in ("step", "wait"):
        events = of(outcome, kind, rank=rank, name="Files", pid=main_pid(outcome, rank))
        numbers = [(event["epoch"], event["step"]) for event in events]
        trained = [(step // 4, step) for step in range(2 * STEPS)]
        assert numbers[: 2 * STEPS] == trained


def test_a_wait_lies_at_the_beginning_of_its_step(outcome: Outcome, rank: int) -> None:
    waits = of(outcome, "wait", rank=rank, name="Files")
    steps = of(outcome, "step", rank=rank, name="Files")
    for wait, step in zip(waits, steps, strict=True):
        assert abs(wait["begin_ns"] - step["begin_ns"]) < 1e6
        assert wait["duration_ns"] <= step["duration_ns"]


def batches(outcome: Outcome, rank: int) -> list[dict[str, Any]]:
    """Return the loads of batches that a rank trained with."""
    loads = of(outcome, "load", rank=rank, name="Files")
    return [load for load in loads if dict(load.get("counts", ())).get("samples") == 2]


def test_each_batch_is_a_load_of_known_size_and_step(outcome: Outcome, rank: int) -> None:
    loads = batches(outcome, rank)
    assert len(loads) == 2 * STEPS
    assert {load["bytes"] for load in loads} == {2000}
    assert sorted(load["step"] for load in loads if load["epoch"] < 3) == list(range(12))


def test_a_worker_that_goes_on_in_the_next_epoch_does_not_guess_its_steps(
    outcome: Outcome, rank: int
) -> None:
    last = [load for load in batches(outcome, rank) if load["epoch"] == 3]
    assert len(last) == 4
    assert not any("step" in load for load in last)


def test_the_slowest_sample_of_a_batch_is_named_with_its_file(
    outcome: Outcome, rank: int, folder: Path
) -> None:
    slow = of(outcome, "load", rank=rank, sample="5")
    assert len(slow) >= 4
    assert {load["file"] for load in slow} == {str(folder / "5.bin")}
    assert min(load["duration_ns"] for load in slow) >= 50e6


def test_parts_are_the_whole_of_their_loads(outcome: Outcome, rank: int) -> None:
    loads = [load for load in of(outcome, "load", rank=rank) if "sample" not in load]
    parts = of(outcome, "metadata", "retrieval", "transformation", "overhead", rank=rank)
    for load in loads:
        whole = [
            part["duration_ns"]
            for part in parts
            if (part["begin_ns"], part["pid"]) == (load["begin_ns"], load["pid"])
        ]
        assert sum(whole) == load["duration_ns"]


def test_a_sleeping_sample_is_no_transformation_and_a_computing_one_is(outcome: Outcome) -> None:
    computed = of(outcome, "transformation", name="Computed")
    assert sum(part["duration_ns"] for part in computed) >= 80e6
    slept = of(outcome, "overhead", name="Files", rank=1)
    assert max(part["duration_ns"] for part in slept) >= 50e6


def test_lines_are_loads_of_their_file(outcome: Outcome, folder: Path) -> None:
    loads = of(outcome, "load", name="Lines", rank=0)
    batches = [dict(load["counts"])["samples"] for load in loads if "sample" not in load]
    assert batches == [50, 50]
    assert {load["file"] for load in loads if "sample" in load} == {str(folder / "lines.txt")}


def test_samples_that_are_made_together_are_counted(outcome: Outcome) -> None:
    loads = of(outcome, "load", name="Together")
    assert [load["counts"] for load in loads] == [[("samples", 3)]] * 2


def test_spawned_workers_are_of_their_rank_and_know_their_step(outcome: Outcome) -> None:
    loads = [load for load in of(outcome, "load", rank=0, name="Files") if "counts" in load]
    spawned = [load for load in loads if dict(load["counts"])["samples"] == 4]
    assert [load["step"] for load in spawned] == [2 * STEPS, 2 * STEPS + 1]
    assert {load["phase"] for load in spawned} == {"iteration"}


def test_the_start_of_workers_is_told(outcome: Outcome) -> None:
    starts = of(outcome, "call", name="start of a worker")
    times = sorted(start["duration_ns"] for start in starts)
    assert len(times) == 5
    assert times[-1] > 0.3e9  # spawned: it imported torch
    began = min(event["begin_ns"] for event in outcome.of("wait"))
    assert all(began - 1e9 < start["begin_ns"] for start in starts)


def test_the_first_step_ends_the_initialisation(outcome: Outcome, rank: int) -> None:
    mine = [event for event in outcome.events if event.get("rank") == rank and "phase" in event]
    (first, *_) = of(outcome, "wait", rank=rank)
    after = [
        event for event in mine if event["begin_ns"] > first["begin_ns"] + first["duration_ns"]
    ]
    assert {event["phase"] for event in after} == {"iteration"}


@pytest.mark.parametrize(
    ("kind", "name", "file"),
    [
        ("checkpoint_save", "torch.save", "model.pt"),
        ("checkpoint_read", "torch.load", "model.pt"),
        ("checkpoint_save", "safetensors.torch.save_file", "model.safetensors"),
        ("checkpoint_read", "safetensors.torch.load_file", "model.safetensors"),
    ],
)
def test_files_of_checkpoints_are_told_once_with_their_size(
    outcome: Outcome, folder: Path, kind: str, name: str, file: str
) -> None:
    (event,) = of(outcome, kind, name=name)
    path = folder / file
    assert (event["file"], event["bytes"], event["rank"]) == (str(path), path.stat().st_size, 0)


def test_tensors_read_one_by_one_are_one_read(outcome: Outcome, folder: Path) -> None:
    (read,) = of(outcome, "checkpoint_read", name="safetensors.safe_open")
    assert (read["counts"], read["bytes"]) == ([("tensors", 2)], 4004)
    assert read["file"] == str(folder / "model.safetensors")


def test_distributed_checkpoints_are_told_of_each_rank(
    outcome: Outcome, rank: int, folder: Path
) -> None:
    events = of(outcome, "checkpoint_save", "checkpoint_read", rank=rank)
    told = [
        (event["name"].rpartition(".")[2], event["file"])
        for event in events
        if event["name"].startswith("torch.distributed")
    ]
    together, behind = str(folder / "together"), str(folder / "behind")
    assert sorted(told) == [
        ("async_save", behind),
        ("load", together),
        ("save", behind),
        ("save", together),
    ]
    threads = {event["name"].rpartition(".")[2]: event["tid"] for event in events
               if event.get("file") == behind}  # fmt: skip
    assert threads["save"] != threads["async_save"]


def test_what_a_distributed_checkpoint_read_is_known(outcome: Outcome, folder: Path) -> None:
    requests = [event for event in outcome.of("request") if not event["is_write"]]
    for read in of(outcome, "checkpoint_read", name="torch.distributed.checkpoint.load"):
        mine = [
            request["bytes"]
            for request in requests
            if request["rank"] == read["rank"] and "/together/" in request.get("file", "")
        ]
        assert read["bytes"] == sum(mine) > 0


def test_a_rank_that_waits_for_another_is_seen_waiting(outcome: Outcome) -> None:
    (late,) = of(outcome, "barrier", name="barrier", rank=0)
    (early,) = of(outcome, "barrier", name="barrier", rank=1)
    assert early["duration_ns"] >= 200e6 > late["duration_ns"]
    assert len(of(outcome, "barrier", name="all_reduce")) == 2


def test_requests_of_fsspec_are_told(outcome: Outcome, folder: Path) -> None:
    requests = [
        (event["name"], event["bytes"], event["is_write"], event.get("count"))
        for event in outcome.of("request")
        if event.get("file") == "memory:///file" or event["name"] == "cat_ranges"
    ]
    assert requests == [
        ("pipe_file", 1000, True, None),
        ("cat_file", 1000, False, None),
        ("cat_ranges", 100, False, 2),
        ("read", 10, False, None),
    ]


def test_nothing_was_switched_off(outcome: Outcome, capfd: pytest.CaptureFixture[str]) -> None:
    assert "not recorded" not in capfd.readouterr().err


def test_ranks_of_torchrun_are_told_apart(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("open(__file__ + '.out', 'w').close()")
    torchrun = [str(Path(sys.executable).with_name("torchrun")), "--nproc-per-node", "2"]
    outcome = traced([*torchrun, "--no-python", sys.executable, str(script)], tmp_path)
    assert sorted(event["rank"] for event in outcome.events) == [0, 1]
    assert len({event["pid"] for event in outcome.events}) == 2
