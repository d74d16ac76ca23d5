"""DLIO's per-rank outputs become steps, waits and computation, laid into the time of the run."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from importers_for_tests import read_by

from headrace.core.errors import CorruptDataError, HeadraceError
from headrace.trace.importer import Notes
from headrace.trace.importers import dlio
from headrace.trace.importers.dlio import DLIO

S = 1_000_000_000
START = "2024-09-02T13:34:44.197451"
START_NS = 1_725_284_084_197_451_000
EPOCH = {
    "load": {"block1": [3.0, 0.5, 0.5, 1.0]},
    "proc": {"block1": [4.0, 1.5, 1.5, 2.0]},
    "compute": {"block1": [1.0, 1.0, 1.0, 1.0]},
    "au": {"block1": 50.0},
    "throughput": {"block1": 19.7},
}


def run(folder: Path, ranks: int = 2, summary: dict[str, Any] | None = None) -> Path:
    for rank in range(ranks):
        output = {"host_memory_GB": 125.4, "1": EPOCH, "2": EPOCH, "hostname": f"n{rank}"}
        (folder / f"{rank}_output.json").write_text(json.dumps(output))
    told = {"start": START, "num_accelerators": ranks, "metric": {"train_au_mean_percentage": 50}}
    (folder / "summary.json").write_text(json.dumps(told if summary is None else summary))
    return folder


def read(path: Path, notes: Notes | None = None) -> pa.Table:
    return read_by(DLIO(), path, notes)


def of(table: pa.Table, kind: str, rank: int = 0, epoch: int = 1) -> pa.Table:
    is_one = pc.and_(pc.equal(table["kind"], kind), pc.equal(table["rank"], rank))
    return table.filter(pc.and_(is_one, pc.equal(table["epoch"], epoch)))


def test_each_step_has_its_wait_and_its_computation(tmp_path: Path) -> None:
    table = read(run(tmp_path))
    assert table.num_rows == 2 * 2 * 4 * 3
    for kind, list_of in (("step", "proc"), ("wait", "load"), ("compute", "compute")):
        found = of(table, kind, rank=1, epoch=2)
        seconds = [lasted / S for lasted in found["duration_ns"].to_pylist()]
        assert seconds == EPOCH[list_of]["block1"]  # type: ignore[index]
        assert found["step"].to_pylist() == [1, 2, 3, 4]
        assert found["host"].to_pylist() == ["n1"] * 4


def test_steps_fill_the_time_that_the_stated_utilisation_gives_the_block(tmp_path: Path) -> None:
    """Two inner steps compute 2 s at 50 %: they lasted 4 s, 1 s more than they say."""
    table = read(run(tmp_path))
    begin = [(at - START_NS) / S for at in of(table, "step")["begin_ns"].to_pylist()]
    assert begin == [0.0, 4.25, 6.0, 7.75]
    computing = [(at - START_NS) / S for at in of(table, "compute")["begin_ns"].to_pylist()]
    assert computing == [3.0, 4.75, 6.5, 8.75]
    assert of(table, "step", epoch=2)["begin_ns"][0].as_py() == START_NS + 10 * S


def test_the_start_of_a_block_and_checkpoints_are_told_by_the_first_rank(tmp_path: Path) -> None:
    later, end = "2024-09-02T13:34:54.197451", "2024-09-02T13:34:57.197451"
    span = {"start": later, "end": end}
    spans = {"2": {"start": START, "block1": span, "ckpt1": span, "load_ckpt1": span}}
    (tmp_path / "per_epoch_stats.json").write_text(json.dumps(spans))
    table = read(run(tmp_path))
    assert of(table, "step", epoch=2)["begin_ns"][0].as_py() == START_NS + 10 * S
    for kind in ("checkpoint_save", "checkpoint_read"):
        (found,) = of(table, kind, epoch=2).to_pylist()
        assert (found["begin_ns"], found["duration_ns"]) == (START_NS + 10 * S, 3 * S)


def test_one_rank_alone_and_gzip_are_read(tmp_path: Path) -> None:
    run(tmp_path)
    plain = (tmp_path / "1_output.json").read_bytes()
    packed = tmp_path / "1_output.json.gz"
    packed.write_bytes(gzip.compress(plain))
    (tmp_path / "1_output.json").unlink()
    notes = Notes()
    assert set(read(packed, notes)["rank"].to_pylist()) == {1}
    assert not notes.problems


def test_without_a_summary_times_are_relative(tmp_path: Path) -> None:
    run(tmp_path, summary={})
    notes = Notes()
    assert of(read(tmp_path, notes), "step")["begin_ns"][0].as_py() == 0
    assert notes.is_relative


def test_a_summary_of_other_ranks_or_another_utilisation_is_a_problem(tmp_path: Path) -> None:
    told = {"start": START, "num_accelerators": 15, "metric": {"train_au_mean_percentage": 91.2}}
    notes = Notes()
    read(run(tmp_path, summary=told), notes)
    assert "is of 15 ranks, steps are told of 2" in notes.problems[0]
    assert "states a utilisation of 91.2 %, its ranks 50.0 %" in notes.problems[1]


def test_a_rank_or_an_epoch_that_is_no_output_is_a_problem(tmp_path: Path) -> None:
    run(tmp_path, ranks=3)
    (tmp_path / "1_output.json").write_text('{"1": {"load": {"block1": "no list"}}}')
    (tmp_path / "2_output.json").write_text('{"1": {"load"')
    notes = Notes()
    assert set(read(tmp_path, notes)["rank"].to_pylist()) == {0}
    assert "1_output.json, epoch 1: not an output of DLIO" in notes.problems[0]
    assert "2_output.json: not an output of DLIO" in notes.problems[1]


def test_lists_of_uneven_length_and_times_that_cannot_be_are_bounded(tmp_path: Path) -> None:
    output = {"1": {"load": {"block1": [1.0, -1.0, 2.0]}, "proc": {"block1": [1.5, float("nan")]}}}
    (tmp_path / "0_output.json").write_text(json.dumps(output))
    notes = Notes()
    table = read(tmp_path, notes)
    assert of(table, "wait")["duration_ns"].to_pylist() == [S, None]
    assert of(table, "step")["duration_ns"].to_pylist() == [1.5 * S, None]
    assert of(table, "compute").num_rows == 0
    assert "uneven length" in notes.problems[0]


def test_a_directory_is_told_by_the_names_in_it(tmp_path: Path) -> None:
    assert not DLIO().recognises(tmp_path, b"")
    run(tmp_path)
    assert DLIO().recognises(tmp_path, b"")
    assert DLIO().recognises(tmp_path / "0_output.json", b"{")
    assert not DLIO().recognises(tmp_path / "summary.json", b"{")
    (tmp_path / "trace-0-of-2.pfw").touch()
    assert not DLIO().recognises(tmp_path, b"")


def test_a_run_without_a_step_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "0_output.json").write_text('{"hostname": "n0"}')
    with pytest.raises(CorruptDataError, match="tells no step"):
        read(tmp_path)


def test_mutations_end_in_events_or_in_an_error_of_ours(tmp_path: Path) -> None:
    """Seed 20261130."""
    rng = random.Random(20261130)
    odd = [b"9223372036854775808", b"-1", b"NaN", b"1e400", b"null", b'"', b"}", b"[", b"\xff", b""]
    run(tmp_path, ranks=1)
    spans = {"1": {"block1": {"start": START}, "ckpt1": {"start": START, "end": START}}}
    (tmp_path / "per_epoch_stats.json").write_text(json.dumps(spans))
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for _ in range(150):
        for path, text in files.items():
            data = bytearray(text)
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(0, 20)] = rng.choice(odd)
            path.write_bytes(data)
        try:
            for batch in DLIO().read(tmp_path, Notes(), lambda _: None):
                batch.validate(full=True)
        except HeadraceError as error:
            assert str(tmp_path) in str(error)


@pytest.mark.parametrize("start", ["0001-01-01T00:00:00", "9999-01-01T00:00:00"])
def test_a_start_in_a_year_that_none_ran_in_is_not_told(tmp_path: Path, start: str) -> None:
    run(tmp_path, summary={"start": start})
    spans = {"1": {"block1": {"start": start}, "ckpt1": {"start": start, "end": start}}}
    (tmp_path / "per_epoch_stats.json").write_text(json.dumps(spans))
    notes = Notes()
    assert pc.min(read(tmp_path, notes)["begin_ns"]).as_py() == 0
    assert notes.is_relative
    assert "ckpt1 has no start and end" in notes.problems[0]


def test_a_block_that_lasts_longer_than_any_time_is_left_out(tmp_path: Path) -> None:
    long = [9e5] * 6000
    output = {"1": {"load": {"a": long}, "proc": {"a": long}}, "2": EPOCH}
    (tmp_path / "0_output.json").write_text(json.dumps(output))
    notes = Notes()
    assert set(read(tmp_path, notes)["epoch"].to_pylist()) == {2}
    assert "epoch 1, a: lasts longer than any time" in notes.problems[0]


def test_a_file_that_inflates_beyond_any_output_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dlio, "_MOST_BYTES", 10_000)
    run(tmp_path, ranks=1)
    bomb = gzip.compress(b'{"1":' + b" " * 100_000)
    (tmp_path / "1_output.json.gz").write_bytes(bomb)
    notes = Notes()
    batches = list(DLIO().read(tmp_path, notes, lambda _: None))
    assert {rank for batch in batches for rank in batch["rank"].to_pylist()} == {0}
    assert "1_output.json.gz: more than 10000 bytes are no output" in notes.problems[0]
