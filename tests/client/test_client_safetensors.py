"""Remote safetensors: what is loaded is held bit by bit against the ``safetensors`` package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.safetensors
from headrace.checkpoint.safetensors import DTYPES, HEAD_BYTES
from headrace.client.checkpoint.tensorslice import plan_slice
from headrace.core.errors import AccessError, CallerError, CorruptDataError, NotFoundError
from headrace.devhdfs.cluster import Cluster
from headrace.safetensors import FetchLimits
from headrace.storage.hdfs import HdfsStorage
from headrace.storage.local import LocalStorage
from headrace.storage.port import FileInfo

LIMITS = FetchLimits(request_bytes=1 << 16, gap_bytes=1 << 10)


def raw(dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    """A tensor of random bits."""
    kind = getattr(torch, DTYPES[dtype].torch_name)
    item = torch.empty(0, dtype=kind).element_size()
    octets = torch.randint(0, 2 if dtype == "BOOL" else 256, (*shape, item), dtype=torch.uint8)
    return octets.view(kind).squeeze(-1)


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    flat = [tensor.contiguous().flatten().view(torch.uint8) for tensor in (one, other)]
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(*flat)


TORCH = [name for name in DTYPES if not name.startswith("F6_")]


@pytest.fixture(scope="module")
def all_dtypes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file with a tensor of each dtype, an empty one, a scalar and one of several requests."""
    path = tmp_path_factory.mktemp("all") / "all.safetensors"
    tensors = {name: raw(name, (3, 4)) for name in TORCH}
    tensors |= {
        "empty": torch.empty(0, 5),
        "scalar": torch.tensor(7),
        "large": raw("I64", (40000,)),
    }
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    return path


def test_all_dtypes_are_equal_bit_by_bit_to_what_the_package_loads(all_dtypes: Path) -> None:
    expected = safetensors.torch.load_file(all_dtypes)
    found = headrace.safetensors.load_file(all_dtypes, limits=LIMITS)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert same(found[name], tensor), name
        assert found[name].is_contiguous()


def test_tensors_are_writable_and_nobody_elses(all_dtypes: Path) -> None:
    with headrace.safetensors.open(all_dtypes) as tensors:
        first = tensors.get_tensor("F32")
        before = first.clone()
        first.zero_()
        assert same(tensors.get_tensor("F32"), before)


def test_numpy_arrays_are_equal_and_what_numpy_has_not_is_refused(all_dtypes: Path) -> None:
    with headrace.safetensors.open(all_dtypes, framework="np") as tensors:
        with safetensors.safe_open(all_dtypes, "np") as expected:
            for name in ("BOOL", "I8", "U16", "F16", "C64", "F64", "U64", "empty", "scalar"):
                found, wanted = tensors.get_tensor(name), expected.get_tensor(name)
                assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
                assert found.tobytes() == wanted.tobytes()
                assert found.flags.writeable
        for name in ("BF16", "F8_E4M3", "F4"):
            with pytest.raises(CallerError, match='framework="pt"'):
                tensors.get_tensor(name)
    with pytest.raises(CallerError, match='framework="pt"'):
        headrace.safetensors.load_file(all_dtypes, framework="np")


def test_it_opens_as_safe_open_does(all_dtypes: Path) -> None:
    with (
        headrace.safetensors.open(str(all_dtypes)) as tensors,
        safetensors.safe_open(all_dtypes, "pt") as expected,
    ):
        assert sorted(tensors.keys()) == sorted(expected.keys())
        assert tensors.metadata() == expected.metadata()
        part = tensors.get_slice("BF16")
        assert part.get_shape() == expected.get_slice("BF16").get_shape()
        assert part.get_dtype() == "BF16"
        with pytest.raises(CallerError, match="get_tensor"):
            tensors.get_slice("F4")


INDICES: list[Any] = [
    *(1, -1, slice(1, 3), slice(None), slice(-2, None), slice(0, 0), slice(9, 2), slice(0, 9, 2)),
    *((1, 2), (1, 2, 2), (2, slice(1, 2)), (slice(1, 3), slice(0, 2)), (..., 1), ..., ()),
    *(
        (slice(None), 1),
        (1, ...),
        (slice(1, 3), 0, slice(None, None, 2)),
        None,
        [0, 2],
        (0, [1, 0]),
    ),
    *(np.int64(2), True, (slice(None), slice(None), slice(1, 2)), (slice(1, 2), None)),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_a_slice_is_what_the_tensor_gives(tmp_path: Path, index: Any) -> None:
    tensor = torch.arange(60, dtype=torch.int16).view(4, 5, 3)
    safetensors.torch.save_file({"a": tensor}, tmp_path / "a.safetensors")
    for framework, whole in (("pt", tensor), ("np", tensor.numpy())):
        with headrace.safetensors.open(tmp_path / "a.safetensors", framework) as tensors:
            found, expected = tensors.get_slice("a")[index], whole[index]
        assert found.shape == expected.shape
        assert np.array_equal(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize("index", [4, -5, (0, 5), (0, 0, 3), (0, 0, 0, 0), "a", 1.5])
def test_an_index_outside_of_the_tensor_is_refused(tmp_path: Path, index: Any) -> None:
    tensor = torch.arange(60).view(4, 5, 3)
    safetensors.torch.save_file({"a": tensor}, tmp_path / "a.safetensors")
    with headrace.safetensors.open(tmp_path) as tensors, pytest.raises((IndexError, TypeError)):
        tensors.get_slice("a")[index]


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    start=st.integers(-7, 7) | st.none(),
    stop=st.integers(-7, 7) | st.none(),
    step=st.integers(-3, 3).filter(bool) | st.none(),
    leading=st.lists(st.integers(-3, 2), max_size=1),
)
def test_plans_of_slices_take_what_numpy_takes(
    start: int | None, stop: int | None, step: int | None, leading: list[int]
) -> None:
    whole = np.arange(45, dtype=np.int32).reshape(3, 5, 3)
    index = (*leading, slice(start, stop, step))
    plan = plan_slice(index, whole.shape, 4)
    octets = whole.tobytes()[plan.offset : plan.offset + plan.length]
    found = np.frombuffer(octets, np.int32).reshape(plan.shape)[plan.index]
    assert np.array_equal(found, whole[index])


def test_a_slice_reads_only_its_rows(tmp_path: Path) -> None:
    tensor = raw("F32", (1000, 100))
    safetensors.torch.save_file({"a": tensor}, tmp_path / "a.safetensors")
    with headrace.safetensors.open(tmp_path / "a.safetensors") as tensors:
        part = tensors.get_slice("a")
        before = tensors.statistics().fetch.read_bytes
        assert same(part[10:20], tensor[10:20])
        assert tensors.statistics().fetch.read_bytes - before == 10 * 400
        assert same(part[7, 3:5], tensor[7, 3:5])
        assert tensors.statistics().fetch.read_bytes - before == 10 * 400 + 8


def test_neighbours_are_read_together_and_counted(tmp_path: Path) -> None:
    small = {f"layer.{i}": torch.full((10,), float(i)) for i in range(2000)}
    safetensors.torch.save_file(small, tmp_path / "a.safetensors")
    with headrace.safetensors.open(tmp_path / "a.safetensors") as tensors:
        assert len(dict(tensors.get_tensors())) == 2000
        seen = tensors.statistics()
    assert (seen.files, seen.tensors, seen.fetch.requests) == (1, 2000, 2)
    assert seen.requests_per_tensor == pytest.approx(0.001)
    assert "2000 tensors of 1 files" in str(seen)


def test_tensors_that_were_taken_are_not_held(tmp_path: Path) -> None:
    """So that a model may be moved to a device that is larger than the host's memory."""
    saved = {f"{size}.{i}": raw("U8", (size,)) for size in (1000, 200_000) for i in range(40)}
    safetensors.torch.save_file(saved, tmp_path / "a.safetensors")
    limits = FetchLimits(request_bytes=1 << 16, memory_bytes=1 << 18, parallel=2)
    with headrace.safetensors.open(tmp_path / "a.safetensors", "np", limits=limits) as tensors:
        taken = []
        for _, tensor in tensors.get_tensors():
            taken.append(weakref.ref(tensor.base))
            del tensor
            assert not any(reference() is not None for reference in taken[:-1])
        assert len(taken) == 80


def test_a_file_in_a_stores_root_is_opened(tmp_path: Path, hdfs: Cluster) -> None:
    data = safetensors.torch.save({"a": torch.ones(3)})
    storage = HdfsStorage(f"{hdfs.url}/")
    storage.write("root.safetensors", data)
    try:
        found = headrace.safetensors.load_file(f"{hdfs.url}/root.safetensors")
        assert torch.equal(found["a"], torch.ones(3))
    finally:
        storage.delete("root.safetensors")
        storage.close()
    (tmp_path / "a.safetensors").write_bytes(data)
    assert headrace.safetensors.load_file(f"file://{tmp_path}/a.safetensors").keys() == {"a"}


SHARDS = [f"model-{number:05}-of-00002.safetensors" for number in (1, 2)]


def save_sharded(folder: Path) -> dict[str, torch.Tensor]:
    """Write two shards with an index, and return all tensors."""
    folder.mkdir(parents=True, exist_ok=True)
    shards = [{f"layer.{n}.{i}": raw("BF16", (64, 8)) for i in range(5)} for n in range(2)]
    for name, shard in zip(SHARDS, shards, strict=True):
        safetensors.torch.save_file(shard, folder / name)
    homes = {key: name for name, shard in zip(SHARDS, shards, strict=True) for key in shard}
    index = {"metadata": {}, "weight_map": homes}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return {**shards[0], **shards[1]}


def test_a_folder_with_an_index_gives_all_shards(tmp_path: Path) -> None:
    expected = save_sharded(tmp_path)
    safetensors.torch.save_file({"layer.0.0": torch.zeros(1)}, tmp_path / "other.safetensors")
    found = headrace.safetensors.load_file(tmp_path)
    assert list(found) == list(expected)
    assert all(same(found[name], tensor) for name, tensor in expected.items())


def test_one_tensor_of_a_folder_reads_only_the_header_of_its_shard(tmp_path: Path) -> None:
    save_sharded(tmp_path)
    with headrace.safetensors.open(tmp_path) as tensors:
        assert len(tensors.keys()) == 10
        assert tensors.statistics().fetch.requests == 0
        tensors.get_tensor("layer.1.3")
        assert tensors.statistics().files == 1


def test_a_folder_without_an_index_gives_model_safetensors_or_else_all_files(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        safetensors.torch.save_file({name: torch.zeros(1)}, tmp_path / f"{name}.safetensors")
    assert headrace.safetensors.load_file(tmp_path).keys() == {"a", "b"}
    safetensors.torch.save_file({"m": torch.zeros(1)}, tmp_path / "model.safetensors")
    assert headrace.safetensors.load_file(tmp_path).keys() == {"m"}


class Meeting(LocalStorage):
    """A store that answers reads only when so many are asked for at the same time."""

    def __init__(self, root: str | Path, reads: int) -> None:
        super().__init__(root)
        self.meeting = threading.Barrier(reads)
        self.asked: list[str] = []

    def list(
        self, prefix: str = "", *, hidden: bool = True, recursive: bool = True
    ) -> Iterator[FileInfo]:
        self.asked.append("list all below" if recursive else "list")
        return super().list(prefix, hidden=hidden, recursive=recursive)

    def stat(self, path: str) -> FileInfo:
        self.asked.append(f"stat {path}")
        return super().stat(path)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.asked.append(f"read {path}")
        self.meeting.wait(20)
        return super().read(path, offset, length)


def meeting(monkeypatch: pytest.MonkeyPatch, folder: Path, reads: int) -> Meeting:
    """Let ``folder`` be opened as such a store."""
    store = Meeting(folder, reads)
    monkeypatch.setattr("headrace.client.checkpoint.tensorfiles.open_storage", lambda _: store)
    return store


def test_a_folder_is_loaded_in_two_round_trips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One lists it; the index and all parts of all files are asked for at the same time."""
    expected = save_sharded(tmp_path)
    parts = -(-(tmp_path / SHARDS[0]).stat().st_size // 4096)
    store = meeting(monkeypatch, tmp_path, 1 + 2 * parts)
    limits = FetchLimits(request_bytes=4096)
    found = headrace.safetensors.load_file(tmp_path, limits=limits)
    assert all(same(found[name], tensor) for name, tensor in expected.items())
    assert store.asked[0] == "list"
    assert Counter(store.asked[1:]) == {
        "read model.safetensors.index.json": 1,
        f"read {SHARDS[0]}": parts,
        f"read {SHARDS[1]}": parts,
    }


def test_files_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that requests meet many nodes of a store, instead of the one that has a file's block."""
    save_sharded(tmp_path)
    store = meeting(monkeypatch, tmp_path, 1)
    headrace.safetensors.load_file(tmp_path, limits=FetchLimits(request_bytes=1000, parallel=1))
    files = [asked.removeprefix("read ") for asked in store.asked[2:]]
    assert files == SHARDS * (len(files) // 2)
    assert len(files) > 8


def test_files_that_the_index_may_not_name_are_read_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as what another save left: that may be as large as what is wanted."""
    expected = save_sharded(tmp_path)
    safetensors.torch.save_file(expected, tmp_path / "model-00001-of-00001.safetensors")
    store = meeting(monkeypatch, tmp_path, 1)
    found = headrace.safetensors.load_file(tmp_path)
    assert all(same(found[name], tensor) for name, tensor in expected.items())
    assert store.asked[1] == "read model.safetensors.index.json"
    assert set(store.asked[2:]) == {f"read {name}" for name in SHARDS}


def test_a_file_that_the_index_does_not_name_may_be_damaged(tmp_path: Path) -> None:
    expected = save_sharded(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    homes = json.loads(index.read_text())["weight_map"]
    first = {name: file for name, file in homes.items() if file == SHARDS[0]}
    index.write_text(json.dumps({"weight_map": first}))
    (tmp_path / SHARDS[1]).write_bytes(b"?")
    found = headrace.safetensors.load_file(tmp_path)
    assert found.keys() == first.keys()
    assert all(same(found[name], expected[name]) for name in first)


@pytest.mark.parametrize("load", [headrace.safetensors.open, headrace.safetensors.load_file])
def test_a_file_that_the_index_names_must_be_there(
    tmp_path: Path, load: Callable[[Path], object]
) -> None:
    save_sharded(tmp_path)
    (tmp_path / SHARDS[1]).unlink()
    with pytest.raises(NotFoundError, match=f"no {SHARDS[1]} in .* its index names"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "model.safetensors.index.json"])
@pytest.mark.parametrize("load", [headrace.safetensors.open, headrace.safetensors.load_file])
def test_a_link_out_of_the_folder_is_said_to_be_one(
    tmp_path: Path, load: Callable[[Path], object], name: str
) -> None:
    (tmp_path / "blob").write_bytes(b"?")
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (folder / name).symlink_to("../blob")
    with pytest.raises(AccessError, match="links to"):
        load(folder)


def cached(folder: Path) -> tuple[Path, dict[str, torch.Tensor]]:
    """Lay a sharded model out as ``huggingface_hub`` does; return its snapshot and tensors."""
    blobs = folder / "models--a--b/blobs"
    snapshot = folder / "models--a--b/snapshots/0123abcd"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    tensors = save_sharded(blobs)
    for number, blob in enumerate(sorted(blobs.iterdir())):
        (snapshot / blob.name).symlink_to(f"../../blobs/{number:064x}")
        blob.rename(blobs / f"{number:064x}")
    return snapshot, tensors


def test_a_snapshot_in_hugging_faces_cache_is_read_through_its_links(tmp_path: Path) -> None:
    snapshot, expected = cached(tmp_path)
    found = headrace.safetensors.load_file(snapshot)
    assert found.keys() == expected.keys()
    assert all(same(found[name], tensor) for name, tensor in expected.items())
    with headrace.safetensors.open(f"file:{snapshot / SHARDS[0]}") as tensors:
        assert same(tensors.get_tensor("layer.0.0"), expected["layer.0.0"])


@pytest.mark.parametrize("target", ["../../../secret", "../../secret", "../../blobs/out"])
def test_a_link_of_a_snapshot_that_leaves_the_blobs_is_refused(tmp_path: Path, target: str) -> None:
    snapshot, _ = cached(tmp_path)
    model = snapshot.parents[1]
    for place in (model / "secret", tmp_path / "secret"):
        place.write_bytes((snapshot / SHARDS[0]).read_bytes())
    (model / "blobs/out").symlink_to("../secret")
    (snapshot / SHARDS[0]).unlink()
    (snapshot / SHARDS[0]).symlink_to(target)
    with pytest.raises(AccessError, match="links to"):
        headrace.safetensors.load_file(snapshot)


def test_blobs_that_are_a_link_themselves_are_refused(tmp_path: Path) -> None:
    snapshot, _ = cached(tmp_path)
    blobs = snapshot.parents[1] / "blobs"
    blobs.rename(tmp_path / "elsewhere")
    blobs.symlink_to("../elsewhere")
    with pytest.raises(AccessError, match="links to"):
        headrace.safetensors.load_file(snapshot)


def test_what_is_loaded_whole_lies_where_its_file_was_read_to(tmp_path: Path) -> None:
    saved = {name: np.full(100, number) for number, name in enumerate("abc")}
    safetensors.numpy.save_file(saved, tmp_path / "a.safetensors")
    found = headrace.safetensors.load_file(tmp_path, framework="np")
    assert len({id(found[name].base) for name in "abc"}) == 1
    found["a"][:] = -1
    assert np.array_equal(found["b"], saved["b"])


def test_tensors_that_lie_unaligned_in_their_file_are_aligned_in_memory(tmp_path: Path) -> None:
    fields = {"dtype": "C64", "shape": [3], "data_offsets": [0, 24]}
    values = np.array([1, 2j, 3 + 4j], np.complex64)
    for spaces in range(8):
        text = json.dumps({"a": fields}).encode() + b" " * spaces
        data = len(text).to_bytes(8, "little") + text + values.tobytes()
        (tmp_path / "a.safetensors").write_bytes(data)
        found = headrace.safetensors.load_file(tmp_path, limits=FetchLimits(request_bytes=3))["a"]
        assert found.data_ptr() % 8 == 0
        assert np.array_equal(found.numpy(), values)


def test_what_goes_to_a_device_is_read_tensor_by_tensor(tmp_path: Path) -> None:
    expected = save_sharded(tmp_path)
    found = headrace.safetensors.load_file(tmp_path, device="meta")
    assert list(found) == list(expected)
    assert {tensor.device.type for tensor in found.values()} == {"meta"}


def test_it_works_over_hdfs(hdfs_dir: str, tmp_path: Path) -> None:
    expected = save_sharded(tmp_path)
    storage = HdfsStorage(hdfs_dir)
    for path in tmp_path.iterdir():
        storage.write(f"models/{path.name}", path.read_bytes())
    storage.close()
    found = headrace.safetensors.load_file(f"{hdfs_dir}/models", limits=LIMITS)
    assert all(same(found[name], tensor) for name, tensor in expected.items())
    url = f"{hdfs_dir}/models/model-00002-of-00002.safetensors"
    with headrace.safetensors.open(url) as tensors:
        assert same(tensors.get_slice("layer.1.2")[3:5], expected["layer.1.2"][3:5])
    with pytest.raises(NotFoundError):
        headrace.safetensors.load_file(f"{hdfs_dir}/models/none.safetensors")


def test_a_header_longer_than_the_first_read_is_read_whole(tmp_path: Path) -> None:
    many = {f"{i:0200d}": torch.full((1,), float(i)) for i in range(HEAD_BYTES // 200)}
    safetensors.torch.save_file(many, tmp_path / "a.safetensors")
    found = headrace.safetensors.load_file(tmp_path / "a.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in many.items())


def test_a_tensor_that_is_not_there_is_named_with_the_nearest(all_dtypes: Path) -> None:
    with headrace.safetensors.open(all_dtypes) as tensors:
        with pytest.raises(CallerError, match="did you mean 'scalar'"):
            tensors.get_tensor("scalars")
        with pytest.raises(CallerError, match=r"see keys\(\)"):
            tensors.get_slice("?")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"framework": "jax"}, "'pt' or 'np'"),
        ({"framework": "np", "device": "cuda"}, "no device"),
        ({"device": "abacus"}, "no device of torch"),
    ],
)
def test_a_wrong_call_is_refused(all_dtypes: Path, arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(CallerError, match=why):
        headrace.safetensors.open(all_dtypes, **arguments)


def test_an_empty_url_is_not_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    safetensors.torch.save_file({"a": torch.ones(3)}, "a.safetensors")
    assert headrace.safetensors.load_file("a.safetensors").keys() == {"a"}
    with pytest.raises(CallerError, match="is empty"):
        headrace.safetensors.load_file("")


def test_a_folder_without_files_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no safetensors file in"):
        headrace.safetensors.open(tmp_path)


def lying_index(folder: Path) -> None:
    save_sharded(folder)
    path = folder / "model.safetensors.index.json"
    path.write_text(path.read_text().replace('"layer.0.0"', '"layer.0.9"'))


def traversing_index(folder: Path) -> None:
    (folder / "sub").mkdir()
    index = {"weight_map": {"a": "../a.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def same_tensor_twice(folder: Path) -> None:
    for name in "ab":
        safetensors.torch.save_file({"t": torch.zeros(1)}, folder / f"{name}.safetensors")


def cut_off(folder: Path) -> None:
    safetensors.torch.save_file({"t": torch.zeros(9)}, folder / "a.safetensors")
    (folder / "a.safetensors").write_bytes((folder / "a.safetensors").read_bytes()[:-1])


def huge_header(folder: Path) -> None:
    (folder / "a.safetensors").write_bytes(b"\0" * 7 + b"\x80{}")


def impossible_shape(folder: Path) -> None:
    text = json.dumps({"t": {"dtype": "U8", "shape": [2**63, 0], "data_offsets": [0, 0]}}).encode()
    (folder / "a.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lying_index, "'layer.0.9' is in model-00001"),
        (traversing_index, "no safetensors file directly"),
        (same_tensor_twice, "both have a tensor 't'"),
        (cut_off, "cut off"),
        (huge_header, "limit is"),
        (impossible_shape, "no tensor can have"),
    ],
)
def test_hostile_files_are_refused(tmp_path: Path, make: Callable[[Path], None], why: str) -> None:
    make(tmp_path)
    with pytest.raises(CorruptDataError) as refusal:
        headrace.safetensors.load_file(tmp_path)
    assert why in str(refusal.value)


def test_a_hostile_file_is_refused_before_all_of_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge_header(tmp_path)
    os.truncate(tmp_path / "a.safetensors", 1 << 26)
    store, asked = LocalStorage(tmp_path), []

    def read(path: str, offset: int = 0, length: int | None = None) -> bytes:
        asked.append(offset)
        time.sleep(0.3 if offset else 0.0)
        return LocalStorage(tmp_path).read(path, offset, length)

    monkeypatch.setattr(store, "read", read)
    monkeypatch.setattr("headrace.client.checkpoint.tensorfiles.open_storage", lambda _: store)
    limits = FetchLimits(request_bytes=1 << 20, parallel=2)
    with pytest.raises(CorruptDataError, match="limit is"):
        headrace.safetensors.load_file(tmp_path, limits=limits)
    assert len(asked) < 60


def test_importing_it_does_not_import_torch() -> None:
    code = "import sys, headrace.safetensors; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0
