"""What ``dcp.save`` wrote comes back bit by bit, in few requests, and nothing of it is executed."""

from __future__ import annotations

import copy
import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.checkpoint._extension import ZStandard
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from training_state import DTYPES, blank_state, numbers, random_state, same

from headrace.client.checkpoint.coalescing import FetchLimits
from headrace.client.checkpoint.savedtensor import HEAD_BYTES, parse_head
from headrace.client.torch.checkpoint.metadata import parse_metadata
from headrace.core.errors import CorruptDataError, NotFoundError
from headrace.storage.opening import open_storage
from headrace.torch import CheckpointReader, CheckpointWriter

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that torch's own writer wrote."""
    folder = tmp_path_factory.mktemp("saved")
    dcp.save(random_state(), checkpoint_id=folder, no_dist=True)
    return folder


SMALL_REQUESTS = FetchLimits(request_bytes=100_000, parallel=4)
"""Pieces of these tests are longer, so that all ways of reading are taken."""


@pytest.mark.parametrize("limits", [FetchLimits(), SMALL_REQUESTS])
def test_a_state_comes_back_bit_by_bit(saved: Path, limits: FetchLimits) -> None:
    loaded = blank_state()
    dcp.load(loaded, storage_reader=CheckpointReader(saved, limits=limits), no_dist=True)
    assert same(loaded, random_state())


def test_a_state_comes_back_from_hdfs(saved: Path, hdfs_dir: str) -> None:
    storage = open_storage(hdfs_dir)
    for file in saved.iterdir():
        storage.write(file.name, file.read_bytes())
    loaded = blank_state()
    reader = CheckpointReader(hdfs_dir, limits=SMALL_REQUESTS)
    dcp.load(loaded, storage_reader=reader, no_dist=True)
    assert same(loaded, random_state())
    reader.close()


def test_a_reader_that_has_loaded_can_be_sent_to_another_process(hdfs_dir: str) -> None:
    dcp.save({"a": torch.ones(3)}, storage_writer=CheckpointWriter(hdfs_dir), no_dist=True)
    reader = CheckpointReader(hdfs_dir)
    for _ in range(2):
        loaded = {"a": torch.zeros(3)}
        dcp.load(loaded, storage_reader=reader, no_dist=True)
        assert loaded["a"].tolist() == [1, 1, 1]
        reader = copy.deepcopy(pickle.loads(pickle.dumps(reader)))


def test_a_pointer_is_not_followed_by_each_rank_for_itself_but_explained(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path / "step-7", pointer="latest")
    dcp.save({"a": torch.ones(3)}, storage_writer=writer, no_dist=True)
    with pytest.raises(NotFoundError, match=r"is a pointer, which names .*/step-7 now; give that"):
        CheckpointReader(tmp_path / "latest").read_metadata()


def test_few_requests_bring_many_items(saved: Path) -> None:
    loaded = blank_state()
    reader = CheckpointReader(saved)
    dcp.load(loaded, storage_reader=reader, no_dist=True)
    statistics = reader.statistics()
    assert statistics.items == 28
    assert statistics.fetch.requests == 1
    assert "28 items" in str(statistics)
    assert "1 requests" in str(statistics)


def test_a_state_is_loaded_by_keys_alone(saved: Path) -> None:
    loaded = _load_state_dict_from_keys(
        {"types", "objects"}, storage_reader=CheckpointReader("/nowhere"), checkpoint_id=saved
    )
    wanted = random_state()
    assert same(loaded, {key: wanted[key] for key in ("types", "objects")})


def test_tensors_are_converted_where_the_target_is_of_another_kind(saved: Path) -> None:
    loaded = {"large": torch.zeros(300, 700, dtype=torch.float64)}
    loaded["turned"] = torch.zeros(6, 7).t()
    dcp.load(loaded, storage_reader=CheckpointReader(saved, limits=SMALL_REQUESTS), no_dist=True)
    wanted = random_state()["large"].double()
    torch.testing.assert_close(loaded["large"], wanted, rtol=0, atol=0, equal_nan=True)
    assert same(loaded["turned"], random_state()["turned"])


def test_transformed_pieces_are_read_as_torch_reads_them(tmp_path: Path) -> None:
    if not ZStandard.is_available():
        pytest.skip("torch needs another package for its own extension")
    writer = dcp.FileSystemWriter(tmp_path, _extensions=[ZStandard()])
    dcp.save(random_state(), storage_writer=writer, no_dist=True)
    loaded = blank_state()
    dcp.load(loaded, storage_reader=CheckpointReader(tmp_path), no_dist=True)
    assert same(loaded, random_state())


def test_a_parameter_is_loaded_in_place(saved: Path) -> None:
    parameter = torch.nn.Parameter(torch.zeros(300, 700))
    dcp.load({"large": parameter}, storage_reader=CheckpointReader(saved), no_dist=True)
    assert same(parameter.detach(), random_state()["large"])


class _RowsPlanner(dcp.DefaultLoadPlanner):
    """Wants some rows of a tensor, as a rank of another world size does."""

    def __init__(self, fqn: str, begin: int, end: int) -> None:
        super().__init__()
        self._rows = (fqn, begin, end)

    def create_local_plan(self) -> dcp.LoadPlan:
        fqn, begin, end = self._rows
        plan = super().create_local_plan()
        (item,) = (one for one in plan.items if one.dest_index.fqn == fqn)
        width = item.lengths[1]
        object.__setattr__(item, "storage_offsets", torch.Size([begin, 0]))
        object.__setattr__(item, "dest_offsets", torch.Size([begin, 0]))
        object.__setattr__(item, "lengths", torch.Size([end - begin, width]))
        return dcp.LoadPlan([item])


def test_only_the_rows_that_are_wanted_are_read(saved: Path) -> None:
    loaded = {"largest": torch.zeros(500, 900, dtype=torch.bfloat16)}
    reader = CheckpointReader(saved)
    dcp.load(loaded, storage_reader=reader, planner=_RowsPlanner("largest", 100, 110), no_dist=True)
    wanted = torch.zeros(500, 900, dtype=torch.bfloat16)
    wanted[100:110] = random_state()["largest"][100:110]
    assert same(loaded["largest"], wanted)
    assert reader.statistics().fetch.read_bytes == HEAD_BYTES + 10 * 900 * 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2, 3, 4), (1, 1, 1, 1, 300), (70_000,)])
def test_a_saved_tensor_is_understood_as_torch_load_understands_it(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    tensor = numbers(dtype, *shape)
    file = io.BytesIO()
    torch.save(tensor, file)
    saved = parse_head(file.getvalue())
    assert saved is not None
    assert (saved.dtype, saved.shape, saved.strides) == (
        str(dtype).removeprefix("torch."), tensor.shape, tensor.stride(),
    )  # fmt: skip
    octets = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    assert file.getvalue()[saved.start : saved.start + tensor.nbytes] == octets


@pytest.mark.parametrize(
    "made",
    [
        torch.ones(3, dtype=torch.complex64).conj(),
        torch.nn.Parameter(torch.ones(2)),
        torch.ones(2, 2).to_sparse(),
        {"a": torch.ones(2)},
        "text",
    ],
)
def test_what_is_no_plain_tensor_is_left_to_torch_load(made: object) -> None:
    file = io.BytesIO()
    torch.save(made, file)
    assert parse_head(file.getvalue()) is None


def test_a_tensor_whose_memory_is_too_short_is_left_to_torch_load() -> None:
    file = io.BytesIO()
    torch.save(torch.ones(7), file)
    assert parse_head(file.getvalue().replace(b"K\x07\x85", b"K\x08\x85")) is None


def saved_bytes(tensor: torch.Tensor) -> bytes:
    file = io.BytesIO()
    torch.save(tensor, file)
    return file.getvalue()


PLAIN = (saved_bytes(torch.ones(3, 5, dtype=torch.bfloat16)), saved_bytes(torch.ones(7)))


@settings(max_examples=400, derandomize=True, deadline=None)
@given(
    whole=st.sampled_from(PLAIN),
    changes=st.lists(st.tuples(st.integers(0, 760), st.integers(0, 255)), max_size=4),
    end=st.integers(0, 1600),
)
def test_a_damaged_head_is_left_to_torch_load_or_keeps_within_what_is_stored(
    whole: bytes, changes: list[tuple[int, int]], end: int
) -> None:
    head = bytearray(whole)
    for at, value in changes:
        head[at] = value
    saved = parse_head(bytes(head[:end]))
    if saved is not None:
        begin, last = saved.span((0,) * len(saved.shape), saved.shape)
        assert 0 <= saved.start == begin <= last <= len(whole)


def test_a_tensor_that_would_begin_before_its_memory_is_left_to_torch_load() -> None:
    assert parse_head(PLAIN[1].replace(b"QK\x00", b"QJ\xfc\xff\xff\xff")) is None


# Hostile and damaged checkpoints.


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def refusal(folder: Path, **options: Any) -> str:
    with pytest.raises(CheckpointException) as caught:
        dcp.load(blank_state(), storage_reader=CheckpointReader(folder, **options), no_dist=True)
    return str(caught.value)


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for file in saved.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def test_metadata_with_code_is_refused_and_not_executed(copied: Path, tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    (copied / ".metadata").write_bytes(pickle.dumps(Evil(evil)))
    with pytest.raises(CorruptDataError, match="nothing of it was executed"):
        CheckpointReader(copied).read_metadata()
    assert not evil.exists()


def test_metadata_without_end_is_not_read(copied: Path) -> None:
    os.truncate(copied / ".metadata", 1 << 40)
    with pytest.raises(CorruptDataError, match=r"more than the .* that are read of metadata"):
        CheckpointReader(copied).read_metadata()


def test_an_object_with_code_is_refused_and_not_executed(tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    dcp.save({"a": Evil(evil)}, checkpoint_id=tmp_path / "it", no_dist=True)
    for trusted in (False, True):
        reader = CheckpointReader(tmp_path / "it", trusted=trusted)
        if trusted:
            dcp.load({"a": 1}, storage_reader=reader, no_dist=True)
        else:
            with pytest.raises(CheckpointException, match="may run code"):
                dcp.load({"a": 1}, storage_reader=reader, no_dist=True)
        assert evil.exists() == trusted


def test_a_tensor_with_code_is_refused_and_not_executed(copied: Path, tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Evil(evil), protocol=2))
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
    change_metadata(copied, "scalar", length=len(file.getvalue()))
    with (copied / "__0_0.distcp").open("r+b") as shard:
        shard.seek(place_of(copied, "scalar").offset)
        shard.write(file.getvalue())
    assert "scalar in __0_0.distcp cannot be read" in refusal(copied, trusted=True)
    assert not evil.exists()


def place_of(folder: Path, fqn: str) -> _StorageInfo:
    metadata = parse_metadata((folder / ".metadata").read_bytes(), "it")
    (place,) = (info for index, info in metadata.storage_data.items() if index.fqn == fqn)
    return place


def change_metadata(folder: Path, fqn: str, **fields: Any) -> None:
    metadata = pickle.loads((folder / ".metadata").read_bytes())
    for index, info in metadata.storage_data.items():
        if index.fqn == fqn:
            vars(info).update(fields)
    (folder / ".metadata").write_bytes(pickle.dumps(metadata))


@pytest.mark.parametrize("path", ["/etc/passwd", "../it", "a/../../b", "", "a\0b", "a\33[2J"])
def test_files_outside_of_the_checkpoint_are_refused(copied: Path, path: str) -> None:
    change_metadata(copied, "scalar", relative_path=path)
    with pytest.raises(CorruptDataError, match="outside of the checkpoint"):
        CheckpointReader(copied).read_metadata()


@pytest.mark.parametrize("fields", [{"offset": -1}, {"length": -1}, {"offset": 1 << 63}])
def test_pieces_where_no_file_can_be_are_refused(copied: Path, fields: Any) -> None:
    change_metadata(copied, "scalar", **fields)
    with pytest.raises(CorruptDataError, match="damaged or hostile"):
        CheckpointReader(copied).read_metadata()


@pytest.mark.parametrize("number", [-1, 1 << 63])
def test_pieces_that_nobody_can_count_are_refused(copied: Path, number: int) -> None:
    metadata = pickle.loads((copied / ".metadata").read_bytes())
    for index in metadata.storage_data:
        object.__setattr__(index, "index", number)
    (copied / ".metadata").write_bytes(pickle.dumps(metadata))
    with pytest.raises(CorruptDataError, match="damaged or hostile"):
        CheckpointReader(copied).read_metadata()


def test_pieces_that_share_bytes_are_refused(copied: Path) -> None:
    change_metadata(copied, "scalar", offset=0)
    with pytest.raises(CorruptDataError, match="share bytes of __0_0"):
        CheckpointReader(copied).read_metadata()


@pytest.mark.parametrize("sizes", [(-1, 4), (6, 4), (5,)])
def test_chunks_outside_of_their_tensor_are_refused(copied: Path, sizes: tuple[int, ...]) -> None:
    metadata = pickle.loads((copied / ".metadata").read_bytes())
    (chunk,) = metadata.state_dict_metadata["empty"].chunks
    chunk.sizes = torch.Size(sizes)
    (copied / ".metadata").write_bytes(pickle.dumps(metadata))
    with pytest.raises(CorruptDataError, match="describes 'empty' as what cannot be"):
        CheckpointReader(copied).read_metadata()


def test_a_truncated_file_is_an_error_that_says_where_it_ends(copied: Path) -> None:
    file = copied / "__0_0.distcp"
    file.write_bytes(file.read_bytes()[:500_000])
    assert "500000" in refusal(copied, limits=FetchLimits(attempts=1)).replace(",", "")


@pytest.mark.parametrize("fqn", ["scalar", "large", "largest"])
def test_a_piece_that_is_not_where_it_is_said_to_be_is_an_error(copied: Path, fqn: str) -> None:
    change_metadata(copied, fqn, offset=0, length=3_000)
    assert fqn in refusal(copied)


def test_another_tensor_in_the_place_of_one_is_an_error(copied: Path) -> None:
    one, other = place_of(copied, "large"), place_of(copied, "list.1")
    metadata = pickle.loads((copied / ".metadata").read_bytes())
    for index, info in metadata.storage_data.items():
        if index.fqn in ("large", "list.1"):
            vars(info).update(vars(other if index.fqn == "large" else one))
    (copied / ".metadata").write_bytes(pickle.dumps(metadata))
    assert "has the shape (" in refusal(copied)


def test_a_checkpoint_that_is_not_complete_is_an_error(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path).lower()


def test_damaged_global_metadata_is_not_passed_over_for_that_of_a_rank(copied: Path) -> None:
    """Ranks that could read it would wait for collectives that the others do not join."""
    (copied / "__0.metadata").write_bytes((copied / ".metadata").read_bytes())
    (copied / ".metadata").write_bytes(b"\x80\x02}")
    assert "damaged" in refusal(copied)


def test_a_checkpoint_without_collectives_is_read(tmp_path: Path) -> None:
    dcp.save({"a": torch.arange(4)}, checkpoint_id=tmp_path, use_collectives=False, no_dist=True)
    loaded = {"a": torch.zeros(4, dtype=torch.int64)}
    dcp.load(loaded, storage_reader=CheckpointReader(tmp_path), no_dist=True)
    assert loaded["a"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("url", "valid"), [("/a/b", True), ("hdfs://h:1/a", True), ("nosuch://h/a", False)]
)
def test_urls_of_stores_that_can_be_opened_are_valid(url: str, valid: bool) -> None:
    assert CheckpointReader.validate_checkpoint_id(url) is valid
