"""Ranks that benchmarks of checkpoints fork: what they save is what others load, bit by bit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is no package of the wheel

from bench.checkpoints.cluster import Crew, store
from bench.checkpoints.model import Model
from bench.checkpoints.orders import READERS, Load, LoadTensors, Save, SaveTensors
from headrace.checkpoint.dcp import DcpLayout
from headrace.checkpoint.find import open_checkpoint
from headrace.core.errors import RemoteError
from headrace.storage.opening import open_storage

MODEL = Model(layers=2, width=16, rows=12, vocabulary=32)


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with Crew(tmp_path_factory.mktemp("crew") / "log") as crew:
        yield crew


@pytest.fixture(scope="module")
def saved(crew: Crew, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    done = crew.carry_out(MODEL, Save(folder=str(folder)), [None] * 4, mesh=(4,))
    assert len(done.ranks) == 4
    return folder


@pytest.mark.parametrize("reader", READERS)
def test_both_readers_load_what_was_saved_also_by_fewer_ranks(
    crew: Crew, saved: Path, reader: str
) -> None:
    work = Load(url=str(saved), reader=reader)  # type: ignore[arg-type]
    done = crew.carry_out(MODEL, work, [None] * 2, mesh=(2,))
    assert sum(one.nbytes for one in done.ranks) > MODEL.embedding_bytes * 2
    whole = Load(url=str(saved), reader=reader, with_optimizer=False)  # type: ignore[arg-type]
    done = crew.carry_out(MODEL, whole, [None] * 2, mesh=(2, 1))
    assert done.ranks[0].nbytes == done.ranks[1].nbytes
    assert done.wall_s > 0


def test_both_readers_of_safetensors_load_what_was_saved(crew: Crew, tmp_path: Path) -> None:
    save = SaveTensors(folder=str(tmp_path), files=2)
    crew.carry_out(MODEL, save, [None], mesh=(1,))
    for reader in READERS:
        work = LoadTensors(url=f"file://{tmp_path}", reader=reader)
        assert crew.carry_out(MODEL, work, [None], mesh=(1,)).ranks[0].nbytes > 0


def test_a_state_that_differs_in_one_bit_is_refused(
    crew: Crew, saved: Path, tmp_path: Path
) -> None:
    for file in saved.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    storage = open_storage(str(tmp_path))
    pieces = DcpLayout().pieces(storage, open_checkpoint(storage))
    (embedding,) = (piece for piece in pieces if piece.name == "model.embedding")
    content = bytearray((tmp_path / embedding.file).read_bytes())
    content[embedding.offset + embedding.length // 2] ^= 1
    (tmp_path / embedding.file).write_bytes(content)
    with pytest.raises(RemoteError, match=r"what was not saved: \[\(0, \('embedding',\)\)\]"):
        crew.carry_out(MODEL, Load(url=str(tmp_path), reader="fsspec"), [None], mesh=(1,))


def test_a_checkpoint_is_stored_with_its_marker_last(saved: Path, tmp_path: Path) -> None:
    nbytes = store(saved, str(tmp_path), "runs/step-1")
    stored = list(open_storage(str(tmp_path / "runs/step-1")).list())
    assert sum(info.size for info in stored) == nbytes
    times = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "runs/step-1").iterdir()}
    assert max(times, key=lambda name: times[name]) == ".metadata"
