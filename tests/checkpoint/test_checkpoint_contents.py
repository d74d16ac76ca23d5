"""Pieces and files are added up by tensor, type and role."""

from __future__ import annotations

from headrace.checkpoint.contents import DtypeSum, RoleSum, TensorSum, contents_of, roles_of
from headrace.checkpoint.layout import Checkpoint, CheckpointFile, Piece, Role


def piece(name: str, length: int, dtype: str | None = None, whole: tuple[int, ...] = ()) -> Piece:
    return Piece(name=name, file="f", offset=0, length=length, dtype=dtype, whole=whole)


def test_shards_make_up_tensors_and_tensors_types() -> None:
    contents = contents_of(
        [
            piece("small", 10, "float32", (2,)),
            piece("large", 50, "bfloat16", (4, 5)),
            piece("step", 7),
            piece("large", 60, "bfloat16", (4, 5)),
            piece("scalar", 20, "float32"),
        ]
    )
    assert contents.tensors == (
        TensorSum(name="large", dtype="bfloat16", shape=(4, 5), shards=2, bytes=110),
        TensorSum(name="scalar", dtype="float32", shape=(), shards=1, bytes=20),
        TensorSum(name="small", dtype="float32", shape=(2,), shards=1, bytes=10),
    )
    assert contents.dtypes == (
        DtypeSum(dtype="bfloat16", tensors=1, elements=20, bytes=110),
        DtypeSum(dtype="float32", tensors=2, elements=3, bytes=30),
    )
    assert (contents.objects, contents.object_bytes) == (1, 7)


def test_files_are_added_up_by_role_the_heaviest_first() -> None:
    roles: list[tuple[Role, int]] = [("metadata", 5), ("weights", 40), ("weights", 50)]
    files = tuple(
        CheckpointFile(path=str(number), size=size, version="", role=role)
        for number, (role, size) in enumerate(roles)
    )
    checkpoint = Checkpoint(path="", layout="dcp", step=None, files=files, missing="")
    assert roles_of(checkpoint) == [
        RoleSum(role="weights", files=2, bytes=90),
        RoleSum(role="metadata", files=1, bytes=5),
    ]
