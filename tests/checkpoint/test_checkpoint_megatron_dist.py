"""Megatron-Core's ``torch_dist`` is DCP with files and classes of its own."""

from __future__ import annotations

import pickle
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from torch.distributed.checkpoint import SavePlan
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex
from torch.distributed.checkpoint.planner import WriteItem, WriteItemType

from headrace.checkpoint.dcp import DcpLayout
from headrace.checkpoint.find import open_checkpoint
from headrace.checkpoint.layout import Checkpoint
from headrace.checkpoint.megatron_dist import MegatronDistLayout
from headrace.core.errors import CorruptDataError
from headrace.storage.local import LocalStorage

LAYOUT = MegatronDistLayout()


@dataclass
class MCoreMetadata(Metadata):
    """As Megatron-Core derives it."""

    mcore_data: Any = None


@pytest.fixture
def saved(
    dcp_checkpoint: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """What Megatron leaves: plans in the metadata, ``common.pt``, and ``metadata.json`` last."""
    home = "megatron.core.dist_checkpointing.mapping"
    module = ModuleType(home)
    module.MCoreMetadata = MCoreMetadata  # type: ignore[attr-defined]
    for above in ("megatron", "megatron.core", "megatron.core.dist_checkpointing"):
        monkeypatch.setitem(sys.modules, above, ModuleType(above))
    monkeypatch.setitem(sys.modules, home, module)
    monkeypatch.setattr(MCoreMetadata, "__module__", home)
    folder = Path(shutil.copytree(dcp_checkpoint(4), tmp_path / "run/iter_0000007"))
    plain = pickle.loads((folder / ".metadata").read_bytes())
    metadata = MCoreMetadata(**vars(plain), mcore_data={"a": {"nd_flattened_global_shape": (1, 2)}})
    item = WriteItem(MetadataIndex("x"), WriteItemType.BYTE_IO)
    metadata.all_local_plans = [SavePlan([item], planner_data={})]  # type: ignore[attr-defined]
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))
    (folder / "common.pt").write_bytes(b"common")
    (folder / "metadata.json").write_text('{"sharded_backend": "torch_dist"}')
    return folder


def opened(folder: Path) -> tuple[LocalStorage, Checkpoint]:
    storage = LocalStorage(folder.parent.parent)
    return storage, open_checkpoint(storage, f"run/{folder.name}")


def test_it_is_complete_with_its_marker_last_and_its_pointer_beside(saved: Path) -> None:
    _, checkpoint = opened(saved)
    assert checkpoint.layout == "megatron-dist"
    assert checkpoint.complete
    assert checkpoint.step == 7
    assert [file.path for file in checkpoint.files][-3:] == [
        "common.pt",
        ".metadata",
        "metadata.json",
    ]
    assert checkpoint.marker == "metadata.json"
    assert checkpoint.pointer is not None
    assert checkpoint.pointer.path == "run/latest_checkpointed_iteration.txt"
    assert checkpoint.pointer.content == b"7"
    assert {file.path: file.role for file in checkpoint.files}["common.pt"] == "state"


@pytest.mark.parametrize("name", [".metadata", "metadata.json"])
def test_what_comes_last_is_missed(saved: Path, name: str) -> None:
    (saved / name).unlink()
    assert opened(saved)[1].missing == f"no {name} yet"


def test_what_has_no_common_is_what_megatron_calls_torch_dcp(saved: Path) -> None:
    (saved / "common.pt").unlink()
    (saved / "metadata.json").unlink()
    _, checkpoint = opened(saved)
    assert checkpoint.layout == "dcp"
    assert checkpoint.complete
    assert checkpoint.pointer is not None
    assert checkpoint.pointer.content == b"7"


def test_a_folder_of_another_name_has_no_pointer(saved: Path) -> None:
    _, checkpoint = opened(saved.rename(saved.parent / "weights"))
    assert checkpoint.layout == "megatron-dist"
    assert checkpoint.pointer is None


def test_a_release_is_pointed_to_as_such(saved: Path) -> None:
    _, checkpoint = opened(saved.rename(saved.parent / "release"))
    assert checkpoint.step is None
    assert checkpoint.pointer is not None
    assert checkpoint.pointer.content == b"release"


def test_chunks_are_shared_out_evenly_and_objects_of_each_rank_as_if_they_were_chunks(
    saved: Path,
) -> None:
    storage, checkpoint = opened(saved)
    ranks = {
        (one.what, one.file, one.offset): list(one.ranks)
        for one in LAYOUT.readings(storage, checkpoint, 8)
    }
    chunks = [one for name, one in ranks.items() if name[0] == "model.layers.0.wq"]
    assert sorted(chunks) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert [one for name, one in ranks.items() if name[0] == "embedding"] == [list(range(8))]
    everybody = {name for (name, *_), one in ranks.items() if len(one) == 8}
    assert {"common.pt", "metadata"} <= everybody
    two = LAYOUT.readings(storage, checkpoint, 2)
    chunks = [list(one.ranks) for one in two if one.what == "model.layers.0.wq"]
    assert chunks == [[0], [0], [1], [1]]


def test_objects_of_each_rank_are_read_by_theirs(saved: Path) -> None:
    metadata = pickle.loads((saved / ".metadata").read_bytes())
    for number, old in enumerate(["train_state.step", "train_state.data"]):
        new = f"rng/shard_{number}_2"
        metadata.state_dict_metadata[new] = metadata.state_dict_metadata.pop(old)
        metadata.storage_data[MetadataIndex(new)] = metadata.storage_data.pop(MetadataIndex(old))
    (saved / ".metadata").write_bytes(pickle.dumps(metadata))
    storage, checkpoint = opened(saved)
    read = [one for one in LAYOUT.readings(storage, checkpoint, 4) if one.what == "rng"]
    assert [list(one.ranks) for one in read] == [[0, 2], [1, 3]]


def test_pieces_are_those_of_dcp(saved: Path, dcp_checkpoint: Callable[..., Path]) -> None:
    storage, checkpoint = opened(saved)
    plain = LocalStorage(dcp_checkpoint(4))
    expected = open_checkpoint(plain)
    assert LAYOUT.pieces(storage, checkpoint) == DcpLayout().pieces(plain, expected)


def test_damaged_metadata_is_refused(saved: Path) -> None:
    (saved / ".metadata").write_bytes((saved / ".metadata").read_bytes()[:200])
    with pytest.raises(CorruptDataError, match=r"iter_0000007/\.metadata"):
        opened(saved)
