"""DeepSpeed's folders, made by ``torch.save`` in exactly its layout: the package is not needed.

Names and contents are those of ``DeepSpeedEngine.save_checkpoint`` (0.14 to 0.17).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from headrace.checkpoint.deepspeed import DeepSpeedLayout
from headrace.checkpoint.find import find_checkpoints, open_checkpoint
from headrace.checkpoint.layout import Checkpoint
from headrace.core.errors import CallerError, CorruptDataError
from headrace.storage.local import LocalStorage

Ranks = dict[str, list[int]]


def save(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path)


def model_states() -> dict[str, Any]:
    return {
        "module": {"embed.weight": torch.ones(4, 2, dtype=torch.bfloat16)},
        "dp_world_size": 2,
        "mp_world_size": 2,
        "global_steps": 10,
    }


def shares() -> dict[str, Any]:
    groups = [torch.arange(8.0)]
    return {"optimizer_state_dict": {"single_partition_of_fp32_groups": groups}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """ZeRO 1 with 2 model parallel and 2 data parallel ranks."""
    for mp in range(2):
        save(tmp_path / f"global_step10/mp_rank_{mp:02d}_model_states.pt", model_states())
        for dp in range(2):
            name = f"bf16_zero_pp_rank_{dp}_mp_rank_{mp:02d}_optim_states.pt"
            save(tmp_path / "global_step10" / name, shares())
    (tmp_path / "latest").write_text("global_step10")
    (tmp_path / "zero_to_fp32.py").write_text("")
    return tmp_path


def found(root: Path, name: str = "global_step10") -> Checkpoint:
    return open_checkpoint(LocalStorage(root), name)


def readers(root: Path, world_size: int, name: str = "global_step10") -> Ranks:
    readings = DeepSpeedLayout().readings(LocalStorage(root), found(root, name), world_size)
    return {one.file: list(one.ranks) for one in readings}


def test_a_checkpoint_that_latest_names_is_complete(root: Path) -> None:
    checkpoint = found(root)
    assert (checkpoint.layout, checkpoint.step, checkpoint.missing) == ("deepspeed", 10, "")
    assert checkpoint.marker is None
    assert checkpoint.pointer is not None
    assert (checkpoint.pointer.path, checkpoint.pointer.content) == ("latest", b"global_step10")
    assert {file.role for file in checkpoint.files} == {"weights", "optimizer"}
    assert [one.path for one in find_checkpoints(LocalStorage(root))] == ["global_step10"]


@pytest.mark.parametrize(
    ("pointed", "missing"),
    [
        ("global_step10\n", ""),
        ("global_step20", ""),
        ("global_step5", "latest names global_step5"),
        ("other", "latest names other"),
        (None, "no latest beside it yet"),
    ],
)
def test_latest_decides_whether_all_ranks_are_done(
    root: Path, pointed: str | None, missing: str
) -> None:
    (root / "latest").unlink()
    if pointed is not None:
        (root / "latest").write_text(pointed)
    assert found(root).missing == missing


@pytest.mark.parametrize("content", [b"x" * 5000, b"\xff"])
def test_a_pointer_that_is_no_name_is_refused(root: Path, content: bytes) -> None:
    (root / "latest").write_bytes(content)
    with pytest.raises(CorruptDataError, match="latest"):
        found(root)


@pytest.mark.parametrize(
    ("gone", "missing"),
    [
        ("mp_rank_00_model_states.pt", "no model states of model parallel rank 0 yet"),
        (
            "bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt",
            "no optim states of data parallel rank 0, model parallel rank 1 yet",
        ),
    ],
)
def test_a_file_that_lacks_is_named(root: Path, gone: str, missing: str) -> None:
    (root / "global_step10" / gone).unlink()
    assert found(root).missing == missing


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("mp_rank_999999999_model_states.pt", "data parallel rank 0, model parallel rank 2 yet"),
        ("zero_pp_rank_999999999_mp_rank_00_optim_states.pt", "data parallel rank 2"),
    ],
)
def test_a_rank_of_a_billion_in_a_name_takes_no_memory(
    root: Path, little_memory: None, name: str, missing: str
) -> None:
    (root / "global_step10" / name).touch()
    assert missing in found(root).missing


def test_model_states_are_read_by_replicas_and_shares_by_who_wrote_them(root: Path) -> None:
    assert readers(root, 4) == {
        "mp_rank_00_model_states.pt": [0, 2],
        "mp_rank_01_model_states.pt": [1, 3],
        "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt": [0],
        "bf16_zero_pp_rank_0_mp_rank_01_optim_states.pt": [1],
        "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt": [2],
        "bf16_zero_pp_rank_1_mp_rank_01_optim_states.pt": [3],
    }


@pytest.mark.parametrize("world_size", [2, 8])
def test_another_number_of_data_parallel_ranks_is_refused(root: Path, world_size: int) -> None:
    with pytest.raises(CallerError, match=r"4 ranks and can be loaded by as many.*universal"):
        readers(root, world_size)


def test_without_zero_any_number_of_replicas_loads(root: Path) -> None:
    for share in (root / "global_step10").glob("*optim*"):
        share.unlink()
    assert readers(root, 6)["mp_rank_01_model_states.pt"] == [1, 3, 5]
    with pytest.raises(CallerError, match="2, 4, 6 … ranks, not by 3"):
        readers(root, 3)


def test_with_zero_3_each_rank_reads_its_own_model_states(tmp_path: Path) -> None:
    for kind in ("model", "optim"):
        for dp in range(3):
            save(tmp_path / f"tag/zero_pp_rank_{dp}_mp_rank_00_{kind}_states.pt", {})
    (tmp_path / "latest").write_text("tag")
    assert found(tmp_path, "tag").complete
    assert readers(tmp_path, 3, "tag")["zero_pp_rank_2_mp_rank_00_model_states.pt"] == [2]


def test_layers_of_a_pipeline_are_read_by_their_stage(tmp_path: Path) -> None:
    """Two stages of two tensor parallel ranks, two replicas: rank = (stage, replica, tensor)."""
    for mp in range(4):
        save(tmp_path / f"global_step1/mp_rank_{mp:02d}_model_states.pt", {})
        for dp in range(2):
            name = f"zero_pp_rank_{dp}_mp_rank_{mp:02d}_optim_states.pt"
            save(tmp_path / "global_step1" / name, {})
    for layer in (0, 2, 3, 5):
        for tp in range(2):
            save(tmp_path / f"global_step1/layer_{layer:02d}-model_{tp:02d}-model_states.pt", {})
    (tmp_path / "latest").write_text("global_step1")
    ranks = readers(tmp_path, 8, "global_step1")
    assert ranks["layer_00-model_00-model_states.pt"] == [0, 2]
    assert ranks["layer_02-model_01-model_states.pt"] == [1, 3]
    assert ranks["layer_03-model_00-model_states.pt"] == [4, 6]
    assert ranks["mp_rank_03_model_states.pt"] == [5, 7]
    assert ranks["zero_pp_rank_1_mp_rank_02_optim_states.pt"] == [6]


def test_a_universal_checkpoint_is_loaded_by_any_number(root: Path) -> None:
    name = "global_step10_universal"
    for parameter, numbers in (("a", 6000), ("b", 6000), ("c", 20)):
        for kind in ("fp32", "exp_avg", "exp_avg_sq"):
            save(root / name / "zero" / parameter / f"{kind}.pt", {"param": torch.ones(numbers)})
    save(root / name / "mp_rank_00_model_states.pt", {})
    assert found(root, name).missing == "no latest_universal beside it yet"
    (root / "latest_universal").write_text(name)
    checkpoint = found(root, name)
    assert (checkpoint.step, checkpoint.missing) == (10, "")
    ranks = readers(root, 4, name)
    assert ranks["zero/a/fp32.pt"] == [0, 1]
    assert ranks["zero/b/exp_avg.pt"] == [1, 2, 3]
    assert ranks["zero/c/fp32.pt"] == [3]
    assert ranks["mp_rank_00_model_states.pt"] == [0, 1, 2, 3]
    pieces = DeepSpeedLayout().pieces(LocalStorage(root), checkpoint)
    assert {piece.shape for piece in pieces if piece.name == "param"} == {(6000,), (20,)}
    (root / name / "zero/b/fp32.pt").unlink()
    assert found(root, name).missing == "no zero/b/fp32.pt yet"
    with pytest.raises(CorruptDataError, match=r"no zero/b/fp32\.pt yet; wait"):
        readers(root, 4, name)


def test_who_reads_experts_is_not_guessed(root: Path) -> None:
    save(root / "global_step10/layer_0_expert_0_mp_rank_00_model_states.pt", {})
    with pytest.raises(CallerError, match="experts"):
        readers(root, 4)


def test_pieces_are_the_tensors_of_all_files(root: Path) -> None:
    storage = LocalStorage(root)
    pieces = DeepSpeedLayout().pieces(storage, found(root))
    share = next(p for p in pieces if p.name.startswith("optimizer_state_dict.single"))
    assert storage.read(f"global_step10/{share.file}", share.offset, share.length) == (
        torch.arange(8.0).numpy().tobytes()
    )
    weights = [piece for piece in pieces if piece.name == "module.embed.weight"]
    assert [(piece.dtype, piece.shape) for piece in weights] == [("bfloat16", (4, 2))] * 2


def test_a_file_that_is_cut_off_is_named_by_its_pieces(root: Path) -> None:
    path = root / "global_step10/mp_rank_01_model_states.pt"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(CorruptDataError, match="mp_rank_01_model_states"):
        DeepSpeedLayout().pieces(LocalStorage(root), found(root))


def test_hidden_files_are_not_part_of_it(root: Path) -> None:
    for name in (".headrace/manifest.json", ".aside.tmp"):
        path = root / "global_step10" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert len(found(root).files) == 6
