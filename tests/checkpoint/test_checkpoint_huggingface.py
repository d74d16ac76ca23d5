"""Models as ``save_pretrained`` and ``Trainer`` leave them, and folders of plain safetensors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from headrace.checkpoint.dcp import DcpLayout
from headrace.checkpoint.find import find_checkpoints, open_checkpoint
from headrace.checkpoint.huggingface import HuggingFaceLayout
from headrace.checkpoint.layout import Checkpoint, Folder
from headrace.checkpoint.naming import step_of
from headrace.checkpoint.safetensors_folder import SafetensorsLayout
from headrace.core.errors import CorruptDataError
from headrace.storage.local import LocalStorage
from headrace.storage.port import FileInfo

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
INDEX = "model.safetensors.index.json"


def folder_of(root: Path, name: str) -> Folder:
    files = tuple(
        FileInfo(info.path.removeprefix(f"{name}/"), info.size, info.version)
        for info in LocalStorage(root).list(name)
    )
    return Folder(path=name, files=files)


def recognised(root: Path, name: str) -> Checkpoint:
    checkpoint = HuggingFaceLayout().recognise(LocalStorage(root), folder_of(root, name))
    assert checkpoint is not None
    return checkpoint


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A place with ``checkpoint-20`` in the form in which Trainer leaves it with two processes."""
    folder = tmp_path / "checkpoint-20"
    folder.mkdir()
    for number, shard in enumerate(SHARDS):
        weights = np.full((4, 2), number, dtype=np.float32)
        save_file({f"layer.{number}": weights, f"bias.{number}": weights[0]}, folder / shard)
    write_index(folder, {f"{kind}.{n}": SHARDS[n] for kind in ("layer", "bias") for n in (0, 1)})
    for name in ("optimizer.pt", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth"):
        (folder / name).write_bytes(b"not looked into")
    for name in ("training_args.bin", "tokenizer.json"):
        (folder / name).write_bytes(b"not read to resume")
    (folder / "config.json").write_text("{}")
    (folder / "trainer_state.json").write_text("{}")
    return tmp_path


def write_index(folder: Path, shards: object) -> None:
    text = json.dumps({"metadata": {"total_size": 80.0}, "weight_map": shards})
    (folder / INDEX).write_text(text)


def test_a_trainers_checkpoint_is_complete_and_its_state_is_the_marker(root: Path) -> None:
    checkpoint = recognised(root, "checkpoint-20")
    assert checkpoint.complete, checkpoint.missing
    assert (checkpoint.step, checkpoint.marker) == (20, "trainer_state.json")
    assert checkpoint.files[-1].path == "trainer_state.json"
    roles = {file.path: file.role for file in checkpoint.files}
    assert {roles[shard] for shard in SHARDS} == {"weights"}
    assert roles["optimizer.pt"] == "optimizer"
    assert roles["rng_state_1.pth"] == "state"


def test_the_index_is_the_marker_of_a_model_that_no_trainer_wrote(root: Path) -> None:
    (root / "checkpoint-20").rename(root / "model")
    (root / "model/trainer_state.json").unlink()
    checkpoint = recognised(root, "model")
    assert checkpoint.complete
    assert (checkpoint.step, checkpoint.marker) == (None, INDEX)
    assert checkpoint.files[-1].path == INDEX


@pytest.mark.parametrize(
    ("gone", "missing"),
    [
        (SHARDS[1], f"no {SHARDS[1]} yet"),
        (INDEX, "no index of its shards yet"),
        ("trainer_state.json", "no trainer_state.json yet"),
    ],
)
def test_what_is_not_there_yet_is_said(root: Path, gone: str, missing: str) -> None:
    (root / "checkpoint-20" / gone).unlink()
    assert missing in recognised(root, "checkpoint-20").missing


def test_a_checkpoint_of_which_only_the_config_is_there_is_not_complete(root: Path) -> None:
    (root / "checkpoint-30").mkdir()
    (root / "checkpoint-30/config.json").write_text("{}")
    assert "trainer_state" in recognised(root, "checkpoint-30").missing


def test_a_shard_that_is_still_written_is_missing_at_each_length(root: Path) -> None:
    shard = root / "checkpoint-20" / SHARDS[0]
    whole = shard.read_bytes()
    for length in range(len(whole)):
        shard.write_bytes(whole[:length])
        assert f"{SHARDS[0]} has {length} bytes" in recognised(root, "checkpoint-20").missing


class CountingStorage(LocalStorage):
    """Records which files are read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.reads: list[str] = []

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.reads.append(path)
        return super().read(path, offset, length)


def test_shards_that_were_found_whole_are_not_looked_into_again(root: Path) -> None:
    storage = CountingStorage(root)

    def reads_of_shards() -> int:
        HuggingFaceLayout().recognise(storage, folder_of(root, "checkpoint-20"))
        return sum(path.endswith(".safetensors") for path in storage.reads)

    assert reads_of_shards() == 2
    assert reads_of_shards() == 2
    (root / "checkpoint-20" / SHARDS[0]).touch()
    assert reads_of_shards() == 3


def test_a_shard_that_is_damaged_is_not_waited_for(root: Path) -> None:
    shard = root / "checkpoint-20" / SHARDS[0]
    shard.write_bytes(shard.read_bytes() + b"more")
    with pytest.raises(CorruptDataError, match="4 more follow"):
        recognised(root, "checkpoint-20")


@pytest.mark.parametrize(
    "shard",
    [
        *("../x.safetensors", "/x.safetensors", "a/b.safetensors", "..", "", "x", ".safetensors"),
        *("a\\b.safetensors", "a\0.safetensors", "\ud800.safetensors", 7, None, ["x.safetensors"]),
        *("\x1b[2J.safetensors", "n" * 300 + ".safetensors"),
    ],
)
def test_an_index_that_names_no_file_of_its_folder_is_refused(root: Path, shard: object) -> None:
    write_index(root / "checkpoint-20", {"layer.0": shard})
    with pytest.raises(
        CorruptDataError, match="no safetensors file directly in the index's folder"
    ):
        recognised(root, "checkpoint-20")


@pytest.mark.parametrize(
    "text", ["[]", '{"weight_map": []}', "{}", '{"a":1,"a":1}', '{"a":NaN}', ""]
)
def test_an_index_that_is_damaged_is_refused(root: Path, text: str) -> None:
    (root / "checkpoint-20" / INDEX).write_text(text)
    with pytest.raises(CorruptDataError, match=INDEX):
        recognised(root, "checkpoint-20")


def test_an_index_that_names_a_tensor_its_shard_has_not_is_refused(root: Path) -> None:
    write_index(root / "checkpoint-20", {"layer.0": SHARDS[1], "layer.1": SHARDS[1]})
    with pytest.raises(CorruptDataError, match=r"'layer\.0'"):
        HuggingFaceLayout().pieces(LocalStorage(root), recognised(root, "checkpoint-20"))


def test_pieces_are_where_the_tensors_bytes_are(root: Path) -> None:
    storage = LocalStorage(root)
    pieces = HuggingFaceLayout().pieces(storage, recognised(root, "checkpoint-20"))
    found = {piece.name: piece for piece in pieces}
    piece = found["layer.1"]
    assert (piece.dtype, piece.shape, piece.whole, piece.origin) == (
        "float32",
        (4, 2),
        (4, 2),
        (0, 0),
    )
    read = storage.read(f"checkpoint-20/{piece.file}", piece.offset, piece.length)
    assert read == np.ones((4, 2), dtype=np.float32).tobytes()
    assert found.keys() == {"layer.0", "layer.1", "bias.0", "bias.1"}


def test_all_ranks_read_all_but_each_its_own_random_numbers(root: Path) -> None:
    checkpoint = recognised(root, "checkpoint-20")
    readings = HuggingFaceLayout().readings(LocalStorage(root), checkpoint, 8)
    found = {reading.file: reading.ranks for reading in readings}
    assert found.pop("rng_state_1.pth") == range(1, 2)
    assert found.pop("rng_state_0.pth") == range(1)
    assert set(found.values()) == {range(8)}
    assert {*SHARDS, "optimizer.pt", "scheduler.pt"} <= found.keys()
    assert not {"training_args.bin", "tokenizer.json"} & found.keys()
    assert all(reading.offset == 0 for reading in readings)


def test_a_process_that_is_alone_reads_no_random_numbers_of_several(root: Path) -> None:
    (root / "checkpoint-20/rng_state.pth").write_bytes(b"alone")
    checkpoint = recognised(root, "checkpoint-20")
    for world, expected in ((1, {"rng_state.pth"}), (2, {"rng_state_0.pth", "rng_state_1.pth"})):
        readings = HuggingFaceLayout().readings(LocalStorage(root), checkpoint, world)
        assert {r.file for r in readings if r.file.startswith("rng")} == expected


def test_a_model_beside_checkpoints_does_not_take_their_files(root: Path) -> None:
    save_file({"w": np.zeros(3)}, root / "model.safetensors")
    (root / "config.json").write_text("{}")
    folder = Folder(path="", files=tuple(LocalStorage(root).list()))
    checkpoint = HuggingFaceLayout().recognise(LocalStorage(root), folder)
    assert checkpoint is not None
    assert checkpoint.complete
    assert [file.path for file in checkpoint.files] == ["config.json", "model.safetensors"]


def test_other_files_with_the_same_tensors_are_not_loaded(root: Path) -> None:
    same = {"layer.0": np.zeros((4, 2), dtype=np.float32)}
    save_file(same, root / "checkpoint-20/consolidated.safetensors")
    checkpoint = recognised(root, "checkpoint-20")
    layout = HuggingFaceLayout()
    assert {p.file for p in layout.pieces(LocalStorage(root), checkpoint)} == set(SHARDS)
    readings = layout.readings(LocalStorage(root), checkpoint, 2)
    assert "consolidated.safetensors" not in {reading.file for reading in readings}


def test_shards_below_are_read_as_their_own_layout_says(
    root: Path, dcp_checkpoint: Callable[..., Path]
) -> None:
    shutil.copytree(dcp_checkpoint(2), root / "checkpoint-20/pytorch_model_fsdp_0")
    (root / "checkpoint-20/global_step20").mkdir()
    share = "global_step20/zero_pp_rank_1_mp_rank_00_optim_states.pt"
    for name in (
        share,
        share.replace("rank_1", "rank_0"),
        "global_step20/mp_rank_00_model_states.pt",
    ):
        torch.save({"w": torch.ones(3)}, root / "checkpoint-20" / name)
    storage, layout = LocalStorage(root), HuggingFaceLayout()
    checkpoint = recognised(root, "checkpoint-20")
    roles = {file.path: file.role for file in checkpoint.files}
    assert roles["pytorch_model_fsdp_0/.metadata"] == "metadata"
    assert roles["pytorch_model_fsdp_0/__0_0.distcp"] == "weights"
    assert roles[share] == "optimizer"
    shared, alone = open_checkpoint(storage, "checkpoint-20/pytorch_model_fsdp_0"), DcpLayout()
    expected = alone.readings(storage, shared, 2)
    readings = layout.readings(storage, checkpoint, 2)
    below = [one for one in readings if one.file.startswith("pytorch_model_fsdp_0/")]
    assert [(one.offset, one.length, one.ranks) for one in below] == [
        (one.offset, one.length, one.ranks) for one in expected
    ]
    assert [one.ranks for one in readings if one.file == share] == [range(1, 2)]
    pieces = layout.pieces(storage, checkpoint)
    assert len([one for one in pieces if one.file.startswith("pytorch_model_fsdp_0/")]) == len(
        alone.pieces(storage, shared)
    )
    assert ("w", share) in {(one.name, one.file) for one in pieces}


def test_files_without_an_index_are_plain_safetensors(tmp_path: Path) -> None:
    folder = tmp_path / "step-7"
    folder.mkdir()
    for name in "ab":
        save_file({name: np.arange(3)}, folder / f"{name}.safetensors")
    storage, layout = LocalStorage(tmp_path), SafetensorsLayout()
    assert HuggingFaceLayout().recognise(storage, folder_of(tmp_path, "step-7")) is None
    checkpoint = layout.recognise(storage, folder_of(tmp_path, "step-7"))
    assert checkpoint is not None
    assert (checkpoint.complete, checkpoint.step, checkpoint.marker) == (True, 7, None)
    assert [piece.name for piece in layout.pieces(storage, checkpoint)] == ["a", "b"]
    assert {r.ranks for r in layout.readings(storage, checkpoint, 3)} == {range(3)}
    (folder / "b.safetensors").write_bytes(b"\x09")
    cut = layout.recognise(storage, folder_of(tmp_path, "step-7"))
    assert cut is not None
    assert "b.safetensors has 1 bytes" in cut.missing


def test_a_tensor_in_two_plain_files_is_refused(tmp_path: Path) -> None:
    for name in "ab":
        save_file({"same": np.arange(3)}, tmp_path / f"{name}.safetensors")
    storage, layout = LocalStorage(tmp_path), SafetensorsLayout()
    checkpoint = layout.recognise(storage, Folder(path="", files=tuple(storage.list())))
    assert checkpoint is not None
    with pytest.raises(CorruptDataError, match="both have a tensor 'same'"):
        layout.pieces(storage, checkpoint)


def test_a_folder_without_models_is_neither(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    storage = LocalStorage(tmp_path)
    folder = Folder(path="", files=tuple(storage.list()))
    assert HuggingFaceLayout().recognise(storage, folder) is None
    assert SafetensorsLayout().recognise(storage, folder) is None


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-20", 20),
        ("a/step-100", 100),
        ("iter_0000007", 7),
        ("model", None),
        ("v2", None),
    ],
)
def test_a_step_is_told_by_a_folders_name(name: str, step: int | None) -> None:
    assert step_of(name) == step


def test_what_a_real_trainer_saves_is_recognised_and_its_marker_is_written_last(
    tmp_path: Path,
) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=32, num_hidden_layers=1, **sizes))
    tokens = torch.arange(8)
    Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(tmp_path),
            use_cpu=True,
            max_steps=2,
            save_steps=1,
            report_to=[],
            disable_tqdm=True,
            per_device_train_batch_size=1,
        ),
        train_dataset=[{"input_ids": tokens, "labels": tokens}] * 4,
    ).train()
    storage = LocalStorage(tmp_path)
    checkpoints = find_checkpoints(storage)
    assert [(one.step, one.layout, one.missing) for one in checkpoints] == [
        (1, "huggingface", ""),
        (2, "huggingface", ""),
    ]
    newest = checkpoints[-1]
    pieces = HuggingFaceLayout().pieces(storage, newest)
    weights = {piece.name: piece for piece in pieces}
    for name, tensor in load_file(tmp_path / newest.path / "model.safetensors").items():
        piece = weights[name]
        read = storage.read(newest.file_path(piece.file), piece.offset, piece.length)
        assert read == tensor.tobytes()
    written = sorted((tmp_path / newest.path).iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert written[-1].name == newest.marker == "trainer_state.json"
    roles = {file.path: file.role for file in newest.files}
    assert (roles["optimizer.pt"], roles["rng_state.pth"]) == ("optimizer", "state")


def test_a_real_model_in_shards_is_recognised_and_its_index_is_written_last(
    tmp_path: Path,
) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=320, num_hidden_layers=2, **sizes))
    model.save_pretrained(tmp_path / "model", max_shard_size="25KB")
    (checkpoint,) = find_checkpoints(LocalStorage(tmp_path))
    assert (checkpoint.layout, checkpoint.missing, checkpoint.marker) == ("huggingface", "", INDEX)
    shards = [file for file in checkpoint.files if file.role == "weights"]
    assert len(shards) > 1
    written = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "model").iterdir()}
    assert all(written[shard.path] <= written[INDEX] for shard in shards)
    pieces = HuggingFaceLayout().pieces(LocalStorage(tmp_path), checkpoint)
    assert {piece.name for piece in pieces} == set(model.state_dict())


def test_hidden_files_are_not_part_of_it(root: Path) -> None:
    before = recognised(root, "checkpoint-20").files
    for name in (".headrace/manifest.json", "global_step20/.aside.tmp", ".x.safetensors"):
        path = root / "checkpoint-20" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert recognised(root, "checkpoint-20").files == before
