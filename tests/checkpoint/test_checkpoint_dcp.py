"""What DCP's checkpoints are made of, held against torch's planner; hostile ones are refused."""

from __future__ import annotations

import io
import pickle
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from saved_dcp import full_state, load_plan, save_dcp
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from headrace.checkpoint.dcp import DcpLayout
from headrace.checkpoint.dcpmetadata import DTYPE_BYTES, parse_metadata
from headrace.checkpoint.dcppieces import pieces_of
from headrace.checkpoint.find import open_checkpoint
from headrace.checkpoint.layout import Checkpoint, Folder, Reading
from headrace.core.errors import CallerError, CorruptDataError
from headrace.storage.local import LocalStorage

LAYOUT = DcpLayout()
WHAT = "run/step-7/.metadata"
Size = torch.Size


def opened(folder: Path) -> tuple[LocalStorage, Checkpoint]:
    storage = LocalStorage(folder.parent)
    return storage, open_checkpoint(storage, folder.name)


@pytest.fixture
def copied(dcp_checkpoint: Callable[..., Path], tmp_path: Path) -> Path:
    """A checkpoint of 4 ranks that the test may damage."""
    return Path(shutil.copytree(dcp_checkpoint(4), tmp_path / "step-7"))


def trusted(folder: Path) -> Any:
    return pickle.loads((folder / ".metadata").read_bytes())


def test_a_checkpoint_of_torch_is_complete_with_its_marker_last(
    dcp_checkpoint: Callable[..., Path],
) -> None:
    _, checkpoint = opened(dcp_checkpoint(4))
    assert checkpoint.layout == "dcp"
    assert checkpoint.step == 7
    assert checkpoint.complete
    assert checkpoint.marker == ".metadata"
    assert [(file.path, file.role) for file in checkpoint.files] == [
        *((f"__{rank}_0.distcp", "weights") for rank in range(4)),
        (".metadata", "metadata"),
    ]


def test_pieces_are_what_torch_wrote(dcp_checkpoint: Callable[..., Path]) -> None:
    folder = dcp_checkpoint(4)
    storage, checkpoint = opened(folder)
    pieces = LAYOUT.pieces(storage, checkpoint)
    metadata = trusted(folder)
    assert len(pieces) == len(metadata.storage_data)
    flat = {
        **{f"model.{name}": one for name, one in full_state()["model"].items()},
        "embedding": full_state()["embedding"],
    }
    for piece in pieces:
        place = metadata.storage_data[
            MetadataIndex(piece.name, piece.origin if piece.dtype else None)
        ]
        assert (piece.file, piece.offset, piece.length) == (
            place.relative_path,
            place.offset,
            place.length,
        )
        if piece.name in flat:
            octets = storage.read(checkpoint.file_path(piece.file), piece.offset, piece.length)
            saved = torch.load(io.BytesIO(octets), weights_only=True)
            assert str(saved.dtype) == f"torch.{piece.dtype}"
            assert tuple(saved.shape) == piece.shape
            box = tuple(
                slice(begin, begin + count)
                for begin, count in zip(piece.origin, piece.shape, strict=True)
            )
            assert torch.equal(saved, flat[piece.name][box])
    assert {piece.name for piece in pieces if piece.dtype is None} == {
        "train_state.step",
        "train_state.data",
    }


def read_by(readings: Sequence[Reading], rank: int) -> set[tuple[str, int, int]]:
    return {
        (one.file, one.offset, one.length)
        for one in readings
        if rank in one.ranks and one.what != "metadata"
    }


@pytest.mark.parametrize("saved", [4, 12])
@pytest.mark.parametrize("world", [1, 2, 3, 4, 7, 12])
def test_each_rank_reads_what_torch_plans_to_read(
    dcp_checkpoint: Callable[..., Path], saved: int, world: int
) -> None:
    folder = dcp_checkpoint(saved)
    storage, checkpoint = opened(folder)
    readings = LAYOUT.readings(storage, checkpoint, world)
    for rank in range(world):
        assert read_by(readings, rank) == load_plan(folder, rank=rank, world=world)
    assert [one for one in readings if one.what == "metadata"] == [
        Reading(
            file=".metadata",
            offset=0,
            length=(folder / ".metadata").stat().st_size,
            ranks=range(world),
            what="metadata",
        )
    ]


def test_a_tensor_in_one_chunk_counts_as_read_by_all_also_by_ranks_without_rows_of_it(
    dcp_checkpoint: Callable[..., Path],
) -> None:
    folder = dcp_checkpoint(1)
    storage, checkpoint = opened(folder)
    readings = LAYOUT.readings(storage, checkpoint, 7)
    assert all(one.ranks == range(7) for one in readings)
    for rank in range(7):
        assert read_by(readings, rank) >= load_plan(folder, rank=rank, world=7)


def test_several_files_of_a_rank_belong_to_it(tmp_path: Path) -> None:
    storage, checkpoint = opened(save_dcp(tmp_path / "step-7", world=2, threads=2))
    assert checkpoint.complete
    assert [file.path for file in checkpoint.files][:-1] == [
        "__0_0.distcp",
        "__0_1.distcp",
        "__1_0.distcp",
        "__1_1.distcp",
    ]
    assert len(LAYOUT.pieces(storage, checkpoint)) > 0


def test_without_its_metadata_it_is_not_complete(copied: Path) -> None:
    (copied / ".metadata").rename(copied / ".metadata.tmp")
    storage, checkpoint = opened(copied)
    assert checkpoint.missing == "no .metadata yet"
    assert ".metadata.tmp" not in [file.path for file in checkpoint.files]
    for ask in (LAYOUT.pieces, lambda *one: LAYOUT.readings(*one, 2)):
        with pytest.raises(CorruptDataError, match=r"no \.metadata yet"):
            ask(storage, checkpoint)


def test_a_shard_that_is_not_there_or_cut_off_is_missed(copied: Path) -> None:
    whole = (copied / "__1_0.distcp").read_bytes()
    (copied / "__1_0.distcp").write_bytes(whole[:-5])
    storage, checkpoint = opened(copied)
    assert checkpoint.missing.startswith("__1_0.distcp has ")
    with pytest.raises(CorruptDataError, match=r"__1_0\.distcp has "):
        LAYOUT.pieces(storage, checkpoint)
    (copied / "__1_0.distcp").unlink()
    (copied / "__2_0.distcp").unlink()
    _, checkpoint = opened(copied)
    assert checkpoint.missing == "no __1_0.distcp and 1 others yet"


def test_metadata_without_any_shard_is_a_checkpoint_that_lacks_them(copied: Path) -> None:
    for shard in copied.glob("*.distcp"):
        shard.unlink()
    _, checkpoint = opened(copied)
    assert checkpoint.missing == "no __0_0.distcp and 3 others yet"


def test_what_a_trainer_put_into_the_folder_belongs_to_it(copied: Path) -> None:
    for name in ("meta.pt", "tokenizer/a.json", ".hidden", "a.tmp", ".cache/b", "c/.d"):
        (copied / name).parent.mkdir(exist_ok=True)
        (copied / name).write_bytes(b"x")
    _, checkpoint = opened(copied)
    roles = {file.path: file.role for file in checkpoint.files if file.role != "weights"}
    assert roles == {".metadata": "metadata", "meta.pt": "state", "tokenizer/a.json": "other"}
    assert checkpoint.files[-1].path == ".metadata"


def test_other_checkpoints_below_it_do_not_belong_to_it(
    copied: Path, dcp_checkpoint: Callable[..., Path]
) -> None:
    shutil.copytree(dcp_checkpoint(2), copied / "old/step-3")
    (copied / "old/step-3/deeper").mkdir()
    (copied / "old/step-3/deeper/a").write_bytes(b"")
    _, checkpoint = opened(copied)
    assert len(checkpoint.files) == 5


@pytest.fixture
def each_its_own(tmp_path: Path) -> Path:
    """A checkpoint of two ranks that wrote without collectives."""
    folder = tmp_path / "step-9"
    for rank in range(2):
        save_dcp(folder / f"rank-{rank}", world=1)
        part = folder / f"rank-{rank}"
        metadata = trusted(part)
        for place in metadata.storage_data.values():
            place.relative_path = f"__{rank}_0.distcp"
        (folder / f"__{rank}.metadata").write_bytes(pickle.dumps(metadata))
        (part / "__0_0.distcp").rename(folder / f"__{rank}_0.distcp")
        shutil.rmtree(part)
    return folder


def test_ranks_with_metadata_of_their_own_read_their_own_files(each_its_own: Path) -> None:
    storage, checkpoint = opened(each_its_own)
    assert checkpoint.complete
    assert checkpoint.marker is None
    for one in LAYOUT.readings(storage, checkpoint, 2):
        assert one.file.startswith(f"__{one.ranks[0]}")
        assert len(one.ranks) == 1
    with pytest.raises(CallerError, match="load it with 2"):
        LAYOUT.readings(storage, checkpoint, 3)
    (each_its_own / "__1.metadata").unlink()
    assert opened(each_its_own)[1].missing == "no __1.metadata yet"


def test_a_folder_of_something_else_is_none(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/.metadata").write_bytes(b"{}")
    storage = LocalStorage(tmp_path)
    folder = Folder(path="a", files=tuple(storage.list()))
    assert LAYOUT.recognise(storage, folder) is None


# Hostile metadata. Each change is made to what torch wrote.


def _first(metadata: Any) -> tuple[MetadataIndex, _StorageInfo]:
    return next(iter(metadata.storage_data.items()))


def _tensor(metadata: Any) -> TensorStorageMetadata:
    tensor = metadata.state_dict_metadata["model.layers.0.wq"]
    assert isinstance(tensor, TensorStorageMetadata)
    return tensor


def _at(path: str) -> Callable[[Any], object]:
    return lambda metadata: setattr(_first(metadata)[1], "relative_path", path)


def _place(**fields: int) -> Callable[[Any], object]:
    def change(metadata: Any) -> None:
        for name, value in fields.items():
            setattr(_first(metadata)[1], name, value)

    return change


def _chunk(place: int, offsets: Any, sizes: Any) -> Callable[[Any], object]:
    def change(metadata: Any) -> None:
        chunk = _tensor(metadata).chunks[place]
        old = MetadataIndex("model.layers.0.wq", chunk.offsets)
        new = MetadataIndex("model.layers.0.wq", Size(offsets))
        metadata.storage_data[new] = metadata.storage_data.pop(old)
        chunk.offsets, chunk.sizes = Size(offsets), Size(sizes)

    return change


HOSTILE: list[tuple[Callable[[Any], object], str]] = [
    (_at("../../etc/passwd"), "no file of its folder"),
    (_at("/etc/passwd"), "no file of its folder"),
    (_at("a/../../b"), "no file of its folder"),
    (_at("a\0b"), "no file of its folder"),
    (_at("a\x1b[2Jb"), "no file of its folder"),
    (_at(""), "no file of its folder"),
    (_at("."), "no file of its folder"),
    (_place(offset=-1), "at bytes -1 to"),
    (_place(length=-1), "at bytes 0 to -1"),
    (_place(offset=1 << 63), "at bytes 9223372036854775808"),
    (_place(length=10), "10 bytes of __0_0.distcp hold a chunk"),
    (_place(offset=100), "share bytes of __0_0.distcp"),
    (_chunk(1, (9, 0), (3, 16)), "reaches beyond its shape"),
    (_chunk(1, (3, 1), (3, 16)), "reaches beyond its shape"),
    (_chunk(1, (3, 0), (1 << 62, 1 << 62)), "reaches beyond its shape"),
    (_chunk(1, (2, 0), (3, 16)), "overlap or leave gaps"),
    (_chunk(1, (3, 0), (2, 16)), "overlap or leave gaps"),
    (_chunk(1, (3,), (3,)), "other dimensions"),
    (lambda m: setattr(_tensor(m), "size", Size((1 << 40, 1 << 40))), "a shape that no tensor"),
    (lambda m: setattr(_tensor(m), "size", Size((1,) * 65)), "called with what is not plain"),
    (lambda m: setattr(_tensor(m), "chunks", []), "overlap or leave gaps"),
    (lambda m: setattr(_tensor(m), "chunks", [1]), "are no chunks"),
    (lambda m: setattr(_tensor(m), "chunks", (1,)), "chunks of a Tensor is a tuple"),
    (lambda m: setattr(_tensor(m).properties, "dtype", "bf16"), "none of torch's"),
    (lambda m: m.storage_data.pop(_first(m)[0]), "not where they all are"),
    (lambda m: m.state_dict_metadata.pop("model.layers.0.wq"), "does not describe otherwise"),
    (lambda m: m.state_dict_metadata.update({"model.layers.0.wq": 3}), "is a int"),
    (lambda m: m.state_dict_metadata.update({3: BytesStorageMetadata()}), "a int names a tensor"),
    (lambda m: m.state_dict_metadata.update(more=BytesStorageMetadata()), "not where they all"),
    (lambda m: m.storage_data.update({"a": 3}), "a int is the place"),
    (lambda m: setattr(m, "storage_data", None), "not where they all are"),
    (lambda m: setattr(m, "state_dict_metadata", []), "state_dict_metadata of a Metadata"),
    (lambda m: delattr(m, "state_dict_metadata"), "lacks fields"),
]


@pytest.mark.parametrize(("change", "why"), HOSTILE, ids=[why for _, why in HOSTILE])
def test_metadata_that_cannot_be_true_is_refused_with_the_reason(
    copied: Path, change: Callable[[Any], object], why: str
) -> None:
    metadata = trusted(copied)
    change(metadata)
    (copied / ".metadata").write_bytes(pickle.dumps(metadata))
    with pytest.raises(CorruptDataError) as refused:
        opened(copied)
    assert why in str(refused.value)
    assert "step-7/.metadata" in str(refused.value)


def test_metadata_with_code_is_refused_wherever_the_code_is(
    copied: Path, dcp_checkpoint: Callable[..., Path]
) -> None:
    class Code:
        def __reduce__(self) -> Any:
            return shutil.rmtree, (str(copied),)

    for field in ("planner_data", "storage_meta", "storage_data", "state_dict_metadata"):
        metadata = trusted(dcp_checkpoint(4))
        setattr(metadata, field, Code())
        (copied / ".metadata").write_bytes(pickle.dumps(metadata))
        with pytest.raises(CorruptDataError, match=r"shutil\.rmtree"):
            opened(copied)
    (copied / ".metadata").write_bytes(pickle.dumps(Code()))
    with pytest.raises(CorruptDataError, match=r"shutil\.rmtree"):
        opened(copied)


def test_something_else_than_metadata_is_refused(copied: Path) -> None:
    for data, why in (
        (pickle.dumps({"a": 1}), "holds a dict"),
        (pickle.dumps(torch.nn.Module), "torch.nn.modules.module.Module"),
        (b"{}", "damaged"),
        (b"", "ends before"),
    ):
        (copied / ".metadata").write_bytes(data)
        with pytest.raises(CorruptDataError, match=why):
            opened(copied)


def parsed(metadata: Metadata) -> Any:
    return pieces_of(parse_metadata(pickle.dumps(metadata), what=WHAT), what=WHAT)


def stored(dtype: torch.dtype, shape: tuple[int, ...], chunks: list[tuple[Any, Any]]) -> Metadata:
    """Metadata of one tensor; its chunks are one behind the other in one file."""
    places, end = {}, 0
    for offsets, sizes in chunks:
        length = Size(sizes).numel() * dtype.itemsize + 100
        places[MetadataIndex("t", offsets)] = _StorageInfo("__0_0.distcp", end, length)
        end += length
    described = [ChunkStorageMetadata(Size(o), Size(s)) for o, s in chunks]
    tensor = TensorStorageMetadata(TensorProperties(dtype=dtype), Size(shape), described)
    return Metadata({"t": tensor}, storage_data=places)


def test_every_type_of_torch_is_known_by_its_name_and_width() -> None:
    dtypes = {one for one in vars(torch).values() if isinstance(one, torch.dtype)}
    for dtype in dtypes:
        (piece,) = parsed(stored(dtype, (3,), [((0,), (3,))]))
        assert piece.dtype == str(dtype).removeprefix("torch.")
    for name, width in DTYPE_BYTES.items():
        if hasattr(torch, name):
            assert getattr(torch, name).itemsize == width


def test_states_of_older_torch_are_read() -> None:
    metadata = stored(torch.float16, (3,), [((0,), (3,))])
    older = TensorProperties.__getstate__
    try:
        TensorProperties.__getstate__ = lambda self: older(self)[:5]  # type: ignore[method-assign]
        data = pickle.dumps(metadata)
    finally:
        TensorProperties.__getstate__ = older  # type: ignore[method-assign]
    (piece,) = pieces_of(parse_metadata(data, what=WHAT), what=WHAT)
    assert piece.dtype == "float16"


def test_a_tensor_that_is_named_a_million_times_is_looked_at_once() -> None:
    metadata = stored(torch.float32, (3000, 1), [((row, 0), (1, 1)) for row in range(3000)])
    tensor = metadata.state_dict_metadata["t"]
    metadata.state_dict_metadata.update({str(number): tensor for number in range(20_000)})
    begin = time.process_time()
    with pytest.raises(CorruptDataError, match="not where they all are"):
        parsed(metadata)
    for number in range(20_000):
        other = TensorStorageMetadata(tensor.properties, tensor.size, tensor.chunks)
        metadata.state_dict_metadata[str(number)] = other
    with pytest.raises(CorruptDataError, match="has the chunks of another tensor"):
        parsed(metadata)
    assert time.process_time() - begin < 20


def test_names_that_are_too_long_are_refused_in_short_messages() -> None:
    metadata = stored(torch.float32, (3,), [((0,), (3,))])
    metadata.state_dict_metadata["x" * 100_000] = BytesStorageMetadata()
    with pytest.raises(CorruptDataError, match="a name of 100,000 letters") as refused:
        parsed(metadata)
    metadata = stored(torch.float32, (3,), [((0,), (3,))])
    metadata.storage_data[MetadataIndex("x" * 100_000)] = _StorageInfo("a" * 5000, 0, 1)
    with pytest.raises(CorruptDataError) as refused:
        parsed(metadata)
    assert len(str(refused.value)) < 500


def test_a_job_without_ranks_is_refused(dcp_checkpoint: Callable[..., Path]) -> None:
    storage, checkpoint = opened(dcp_checkpoint(4))
    with pytest.raises(CallerError, match="at least 1"):
        LAYOUT.readings(storage, checkpoint, 0)


def test_a_tensor_of_several_chunks_without_numbers_is_read_by_nobody(tmp_path: Path) -> None:
    """As one without rows is that several ranks hold by columns."""
    metadata = stored(torch.float32, (0, 4), [((0, 0), (0, 2)), ((0, 2), (0, 2))])
    (tmp_path / ".metadata").write_bytes(pickle.dumps(metadata))
    (tmp_path / "__0_0.distcp").write_bytes(bytes(1000))
    storage, checkpoint = opened(tmp_path)
    readings = LAYOUT.readings(storage, checkpoint, 2)
    assert [one.what for one in readings] == ["metadata"]


def test_metadata_is_read_once_while_it_stays_the_same(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(copied.parent)
    reads: list[str] = []
    read = LocalStorage.read
    monkeypatch.setattr(
        LocalStorage, "read", lambda self, path, *a: (reads.append(path), read(self, path, *a))[1]
    )
    for _ in range(3):
        assert open_checkpoint(storage, "step-7").complete
    assert reads == ["step-7/.metadata"]
    (copied / ".metadata").write_bytes(b"")
    with pytest.raises(CorruptDataError):
        open_checkpoint(storage, "step-7")


def test_a_transformed_shard_may_be_shorter_than_its_numbers() -> None:
    metadata = stored(torch.float32, (100,), [((0,), (100,))])
    place = metadata.storage_data[MetadataIndex("t", (0,))]
    place.length, place.transform_descriptors = 30, ["zstd"]
    assert parsed(metadata)[0].length == 30


def test_ranks_without_rows_leave_empty_chunks() -> None:
    chunks = [((rank, 0), (1, 4)) for rank in range(3)] + [((3, 0), (0, 4)), ((3, 0), (0, 4))]
    metadata = stored(torch.float32, (3, 4), chunks)
    assert len(parsed(metadata)) == 4


def test_a_grid_of_many_chunks_takes_no_time_to_check() -> None:
    side = 60
    chunks = [((a, b), (1, 1)) for a in range(side) for b in range(side)]
    assert len(parsed(stored(torch.float32, (side, side), chunks))) == side * side


@settings(
    max_examples=150, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 12_000), st.binary(max_size=8), st.integers(0, 8)),
        min_size=1,
        max_size=3,
    )
)
def test_damaged_metadata_is_refused_or_read_but_never_fails_otherwise(
    dcp_checkpoint: Callable[..., Path], changes: list[tuple[int, bytes, int]]
) -> None:
    data = bytearray((dcp_checkpoint(4) / ".metadata").read_bytes())
    for place, octets, cut in changes:
        data[place : place + cut] = octets
    try:
        pieces = pieces_of(parse_metadata(bytes(data), what=WHAT), what=WHAT)
    except CorruptDataError as refused:
        assert WHAT in str(refused)
    else:
        assert all(piece.length >= 0 <= piece.offset for piece in pieces)
