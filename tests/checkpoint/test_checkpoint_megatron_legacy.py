"""Megatron-LM's ``torch`` format, made by ``torch.save`` in exactly its layout.

Names and contents are those of ``megatron.training.checkpointing.save_checkpoint`` (core 0.9 to
0.13); the package is not needed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import torch

from headrace.checkpoint.find import find_checkpoints, open_checkpoint
from headrace.checkpoint.layout import Checkpoint
from headrace.checkpoint.megatron_legacy import MegatronLegacyLayout
from headrace.core.errors import CallerError, CorruptDataError
from headrace.storage.local import LocalStorage

TRACKER = "latest_checkpointed_iteration.txt"
NAME = "iter_0000100"


def make(root: Path, name: str = NAME, *, tensors: int = 2, stages: int = 2) -> None:
    for tensor in range(tensors):
        for stage in range(stages):
            part = f"mp_rank_{tensor:02d}" + (f"_{stage:03d}" if stages > 1 else "")
            (root / name / part).mkdir(parents=True)
            state = {
                "args": argparse.Namespace(tensor_model_parallel_size=tensors),
                "model": {"word_embeddings.weight": torch.full((4, 2), float(tensor))},
                "iteration": 100,
            }
            torch.save(state, root / name / part / "model_optim_rng.pt")
            torch.save({0: torch.zeros(16)}, root / name / part / "distrib_optim.pt")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make(tmp_path)
    (tmp_path / TRACKER).write_text("100")
    return tmp_path


def found(root: Path, name: str = NAME) -> Checkpoint:
    return open_checkpoint(LocalStorage(root), name)


def readers(root: Path, world_size: int, name: str = NAME) -> dict[str, list[int]]:
    readings = MegatronLegacyLayout().readings(LocalStorage(root), found(root, name), world_size)
    return {one.file: list(one.ranks) for one in readings}


def test_a_checkpoint_that_the_tracker_names_is_complete(root: Path) -> None:
    checkpoint = found(root)
    assert (checkpoint.layout, checkpoint.step, checkpoint.missing) == ("megatron-legacy", 100, "")
    assert checkpoint.pointer is not None
    assert (checkpoint.pointer.path, checkpoint.pointer.content) == (TRACKER, b"100")
    assert {file.role for file in checkpoint.files} == {"weights", "optimizer"}


def test_it_is_found_below_its_root_although_no_file_lies_in_its_folder(root: Path) -> None:
    assert [one.path for one in find_checkpoints(LocalStorage(root))] == [NAME]


@pytest.mark.parametrize(
    ("pointed", "missing"),
    [
        ("100\n", ""),
        ("200", ""),
        ("50", f"{TRACKER} still names 50"),
        ("release", f"{TRACKER} names release"),
        (None, f"no {TRACKER} beside it yet"),
    ],
)
def test_the_tracker_decides_whether_all_ranks_are_done(
    root: Path, pointed: str | None, missing: str
) -> None:
    (root / TRACKER).unlink()
    if pointed is not None:
        (root / TRACKER).write_text(pointed)
    assert found(root).missing == missing


def test_a_tracker_that_holds_no_iteration_is_refused(root: Path) -> None:
    (root / TRACKER).write_text("../etc")
    with pytest.raises(CorruptDataError, match="no iteration"):
        found(root)


@pytest.mark.parametrize("name", ["model_optim_rng.pt", "distrib_optim.pt"])
def test_a_file_that_lacks_is_named(root: Path, name: str) -> None:
    (root / NAME / "mp_rank_01_000" / name).unlink()
    assert found(root).missing == f"no {name} of tensor parallel rank 1 in stage 0 yet"
    with pytest.raises(CorruptDataError, match=f"no {name}.*wait"):
        readers(root, 4)


def test_a_part_of_a_billion_in_a_name_takes_no_memory(root: Path, little_memory: None) -> None:
    part = root / NAME / "mp_rank_999999999_999999999"
    part.mkdir()
    (part / "model_optim_rng.pt").touch()
    assert "tensor parallel rank 0 in stage 2 yet" in found(root).missing


def test_replicas_read_the_model_and_the_first_of_them_the_optimizer(root: Path) -> None:
    ranks = readers(root, 8)
    assert ranks["mp_rank_00_000/model_optim_rng.pt"] == [0, 2]
    assert ranks["mp_rank_01_000/distrib_optim.pt"] == [1]
    assert ranks["mp_rank_00_001/model_optim_rng.pt"] == [4, 6]
    assert ranks["mp_rank_01_001/distrib_optim.pt"] == [5]
    assert len(ranks) == 8


def test_a_number_of_ranks_that_the_parts_do_not_divide_is_refused(root: Path) -> None:
    with pytest.raises(CallerError, match=r"2 tensor parallel ranks in 2 stages.*not by 6"):
        readers(root, 6)


def test_a_release_without_stages_is_complete_when_the_tracker_names_it(tmp_path: Path) -> None:
    make(tmp_path, "release", stages=1)
    (tmp_path / TRACKER).write_text("release")
    checkpoint = found(tmp_path, "release")
    assert (checkpoint.step, checkpoint.missing) == (None, "")
    assert readers(tmp_path, 4, "release")["mp_rank_01/model_optim_rng.pt"] == [1, 3]
    (tmp_path / TRACKER).write_text("7")
    assert "names 7" in found(tmp_path, "release").missing


def test_pieces_are_the_tensors_of_all_files(root: Path) -> None:
    storage = LocalStorage(root)
    pieces = MegatronLegacyLayout().pieces(storage, found(root))
    piece = next(
        p for p in pieces if p.name == "model.word_embeddings.weight" and "rank_01_000" in p.file
    )
    read = storage.read(f"{NAME}/{piece.file}", piece.offset, piece.length)
    assert read == torch.ones(4, 2).numpy().tobytes()


def test_hidden_files_are_not_part_of_it(root: Path) -> None:
    for name in (".headrace/manifest.json", "mp_rank_00_000/.aside.tmp"):
        path = root / NAME / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert len(found(root).files) == 8
