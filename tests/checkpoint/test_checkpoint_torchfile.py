"""Files of ``torch.save``, read without torch: what is told is held against what torch loads."""

from __future__ import annotations

import argparse
import enum
import io
import os
import pickle
import random
import struct
import time
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.checkpoint.pickles import Opaque
from headrace.checkpoint.torchfile import (
    ITEM_BYTES,
    StoredTensor,
    TorchFile,
    pieces_of,
    read_torch_file,
)
from headrace.checkpoint.ziparchive import TAIL_BYTES, read_records
from headrace.core.errors import CorruptDataError


def saved(value: object) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def read(data: bytes) -> TorchFile:
    return read_torch_file(lambda o, n: data[o : o + n], size=len(data), file="a.pt")


def rebuilt(data: bytes, tensor: StoredTensor) -> torch.Tensor:
    """Return the tensor by what was told of it."""
    dtype = getattr(torch, tensor.dtype)
    if not tensor.length:
        return torch.empty(tensor.shape, dtype=dtype)
    numbers = torch.frombuffer(bytearray(data[tensor.offset :][: tensor.length]), dtype=dtype)
    return torch.as_strided(numbers, tensor.shape, tensor.stride)


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Compare bit by bit."""
    flat = [t.contiguous().flatten().view(torch.uint8) for t in (one, other)]
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(*flat)


DTYPES = [name for name in ITEM_BYTES if name != "float4_e2m1fn_x2"]


@pytest.mark.parametrize("name", DTYPES)
def test_a_tensor_of_each_dtype_is_told_where_its_bytes_are(name: str) -> None:
    raw = torch.randint(0, 2, (3, 4, ITEM_BYTES[name]), dtype=torch.uint8)
    tensor = raw.view(getattr(torch, name)).squeeze(-1)
    data = saved(tensor)
    found = read(data).value
    assert isinstance(found, StoredTensor)
    assert found.dtype == name
    assert same(rebuilt(data, found), tensor)


def test_views_transposed_empty_and_scalar_tensors_are_told() -> None:
    base = torch.arange(24.0).view(4, 6)
    value = {
        "view": base[1:3, 2:],
        "transposed": base.t(),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(7),
        "expanded": torch.ones(1).expand(5),
    }
    data = saved(value)
    tensors = dict(read(data).tensors())
    assert tensors.keys() == value.keys()
    for name, tensor in value.items():
        assert same(rebuilt(data, tensors[name]), tensor), name


def test_state_dicts_parameters_and_optimizers_are_walked() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    moments = {n: {"exp_avg": torch.rand(n + 1)} for n in range(4)}  # as AdamW's state_dict
    optimizer = {"state": moments, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999)}]}
    value = {
        "module": model.state_dict(),
        "optimizer": optimizer,
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "list": [torch.zeros(1), (torch.ones(1),)],
    }
    data = saved(value)
    tensors = dict(read(data).tensors())
    expected = {
        **{f"module.{name}": tensor for name, tensor in model.state_dict().items()},
        "optimizer.state.0.exp_avg": moments[0]["exp_avg"],
        "parameter": value["parameter"],
        "list.1.0": torch.ones(1),
    }
    for name, tensor in expected.items():
        assert same(rebuilt(data, tensors[name]), tensor.detach()), name


class Colour(enum.Enum):
    RED = 1


def test_what_frameworks_put_beside_tensors_is_opaque_and_unknown_code_is_refused() -> None:
    value = {
        "args": argparse.Namespace(lr=0.1),
        "random": np.random.RandomState(0).get_state(),
        "python": random.getstate(),
        "device": torch.device("cpu"),
        "set": {1, 2},
        "weight": torch.ones(2),
    }
    found: Any = read(saved(value)).value
    assert isinstance(found["args"], Opaque)
    assert found["weight"].shape == (2,)
    assert found["python"][0] == 3
    with pytest.raises(CorruptDataError, match="Colour, which is no data that is known"):
        read(saved({"a": Colour.RED}))


class Code:
    def __init__(self, call: Callable[..., object], *arguments: object) -> None:
        self._made = call, arguments

    def __reduce__(self) -> Any:
        return self._made


@pytest.mark.parametrize("call", [os.system, exec, getattr, os.mkdir])
def test_code_is_refused_and_not_executed(call: Any, tmp_path: Any) -> None:
    witness = tmp_path / "executed"
    with pytest.raises(CorruptDataError, match="nothing of it was executed"):
        read(saved({"a": Code(call, f"touch {witness}", "b")}))
    assert not witness.exists()


def test_pieces_are_tensors_unknown_storages_and_the_pickle() -> None:
    shared = torch.arange(6.0)
    data = saved({"a": shared, "tied": shared, "b": torch.ones(3, 2, dtype=torch.bfloat16)})
    pieces = pieces_of("model.pt", read(data))
    named = {piece.name.rpartition("/")[2]: piece for piece in pieces}
    assert named.keys() == {"a", "b", "data.pkl"}
    assert (named["b"].dtype, named["b"].shape, named["b"].length) == ("bfloat16", (3, 2), 12)
    assert data[named["a"].offset :][:24] == shared.numpy().tobytes()


def test_a_storage_of_which_no_tensor_is_known_is_a_piece_too() -> None:
    sparse = torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (3,), check_invariants=True)
    pieces = pieces_of("model.pt", read(saved({"sparse": sparse, "dense": torch.ones(1)})))
    assert [piece.length for piece in pieces if piece.name.startswith("archive/data/")] == [16, 8]


def test_a_directory_beyond_the_first_read_takes_one_more() -> None:
    data = saved([torch.tensor([i]) for i in range(2000)])
    calls = []

    def counted(offset: int, length: int) -> bytes:
        calls.append(length)
        return data[offset : offset + length]

    found = read_torch_file(counted, size=len(data), file="a.pt")
    assert len(list(found.tensors())) == 2000
    assert sum(calls) < len(data)
    assert calls[0] == TAIL_BYTES
    assert len(calls) == 4


def archive(records: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytearray:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as zipped:
        for name, data in records.items():
            zipped.writestr(name, data)
    return bytearray(file.getvalue())


PICKLE = pickle.dumps({"a": 1}, 2)
GOOD = {"x/data.pkl": PICKLE, "x/byteorder": b"little", "x/data/0": bytes(64)}


def changed(place: bytes, at: int, value: bytes, records: dict[str, bytes] = GOOD) -> bytearray:
    """An archive with other bytes behind the last mark of a kind."""
    data = archive(records)
    begin = data.rindex(place) + at
    data[begin : begin + len(value)] = value
    return data


def bomb() -> bytearray:
    """Many names for the same bytes: records that overlap."""
    data = archive({"x/data.pkl": PICKLE, "x/data/0": bytes(100), "x/data/1": bytes(100)})
    entry = data.rindex(b"PK\1\2")
    first = data.index(b"PK\1\2", data.index(b"PK\1\2") + 1)
    data[entry + 42 : entry + 46] = data[first + 42 : first + 46]
    return data


HOSTILE = {
    "no archive": (b"x" * 100, "does not end"),
    "nothing": (b"", "does not end"),
    "cut off": (archive(GOOD)[:-1], "does not end"),
    "compressed": (archive(GOOD, zipfile.ZIP_DEFLATED), "compressed"),
    "overlapping": (bomb(), "overlaps"),
    "a comment": (changed(b"PK\5\6", 20, b"\1\0") + b"x", "does not end"),
    "several volumes": (changed(b"PK\5\6", 4, b"\1\0"), "volumes"),
    "a directory elsewhere": (changed(b"PK\5\6", 16, b"\0\0\0\0"), "said to end"),
    "more entries than are there": (changed(b"PK\5\6", 8, b"\x09\0\x09\0"), "within an entry"),
    "fewer entries than are there": (changed(b"PK\5\6", 8, b"\1\0\1\0"), "longer than"),
    "a record larger than the file": (
        changed(b"PK\1\2", 20, struct.pack("<LL", 1 << 31, 1 << 31)),
        "overlaps",
    ),
    "a record that leaves a gap": (
        changed(b"PK\1\2", 20, bytes(8), {**GOOD, "x/data/1": bytes(70_000)}),
        "belong to nothing",
    ),
    "64 bits that are not there": (changed(b"PK\1\2", 20, b"\xff" * 8), "lacks a number"),
    "an encrypted record": (changed(b"PK\1\2", 8, b"\1\0"), "encrypted"),
    "no pickle": (archive({"x/data/0": b""}), "not one that torch"),
    "several roots": (archive({**GOOD, "y/data.pkl": PICKLE}), "not one that torch"),
    "no root": (archive({"data.pkl": PICKLE}), "not one that torch"),
    "bytes in front": (b"junk" + archive(GOOD), "said to end"),
    "another byte order": (archive({**GOOD, "x/byteorder": b"big"}), "little-endian"),
    "no pickle in the pickle": (archive({**GOOD, "x/data.pkl": b"\x80\x02"}), "a.pt"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_with_its_reason(name: str) -> None:
    data, why = HOSTILE[name]
    with pytest.raises(CorruptDataError, match=r"a\.pt") as refusal:
        read(bytes(data))
    assert why in str(refusal.value)


def test_two_records_of_one_name_are_refused() -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as zipped:
            for data in (PICKLE, PICKLE):
                zipped.writestr("x/data.pkl", data)
    with pytest.raises(CorruptDataError, match="two records"):
        read(file.getvalue())


HUGE = 5 << 30


def huge_archive() -> tuple[bytes, int]:
    """The end of an archive whose second record has 5 GiB, and where it begins.

    As torch writes it: numbers in 64 bits in the directory, descriptions of 24 bytes where a
    record's header or length needs them. A real one of that size gave the same, once.
    """
    marks = 0xFFFFFFFF
    begins = [0, 64 + 9 + 16]
    begins.append(begins[1] + 64 + HUGE + 24)
    end = begins[2] + 64 + 8 + 24
    rows = [(b"x/data.pkl", 9, b"", 9, 0)]
    rows.append((b"x/data/0", marks, struct.pack("<2H2Q", 1, 16, HUGE, HUGE), marks, begins[1]))
    rows.append((b"x/data/1", 8, struct.pack("<2HQ", 1, 8, begins[2]), 8, marks))
    directory = b"".join(
        struct.pack("<4s6H3L", b"PK\1\2", 0, 0, 8, 0, 0, 0, 0, packed, length)
        + struct.pack("<5H2L", len(name), len(extra), 0, 0, 0, 0, header)
        + name
        + extra
        for name, packed, extra, length, header in rows
    )
    tail = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 0, 0, 0, 0, 3, 3, len(directory), end)
    tail += struct.pack("<4sLQL", b"PK\6\7", 0, end + len(directory), 1)
    tail += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 3, 3, len(directory), marks, 0)
    return directory + tail, end


def test_records_beyond_4_gib_are_found() -> None:
    tail, begin = huge_archive()

    def read(offset: int, length: int) -> bytes:
        data = bytes(TAIL_BYTES) + tail
        at = offset - begin + TAIL_BYTES
        return data[at : at + length]

    records = read_records(read, size=begin + len(tail), file="a.pt")
    assert [(one.name, one.length) for one in records.values()] == [
        ("x/data.pkl", 9),
        ("x/data/0", HUGE),
        ("x/data/1", 8),
    ]
    assert [one.offset for one in records.values()] == [64, 64 + 25 + 64, begin - 32]


STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpuK\x10tQ"
MAKE = b"ctorch._utils\n_rebuild_tensor_v2\n("


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (STORAGE + b".", None),
        (STORAGE.replace(b"K\x10", b"K\x11"), "17 numbers of float32"),
        (STORAGE.replace(b"X\1\0\0\x000", b"X\1\0\0\x009"), "not there"),
        (STORAGE.replace(b"X\1\0\0\x000", b"X\4\0\0\0../0"), "not there"),
        (STORAGE.replace(b"ctorch\nFloatStorage\n", b"N"), "without type"),
        (b"X\1\0\0\0aQ", "no storage"),
        (MAKE + STORAGE + b"K\0K\x11\x85K\1\x85tR.", "ValueError"),
        (MAKE + STORAGE + b"K\x10K\1\x85K\1\x85tR.", "ValueError"),
        (MAKE + STORAGE + b"J\xff\xff\xff\xffK\1\x85K\1\x85tR.", "ValueError"),
        (MAKE + STORAGE + b"K\0K\1\x85)tR.", "ValueError"),
        (MAKE + b"NK\0K\1\x85K\1\x85tR.", "ValueError"),
        (MAKE + STORAGE + b"K\0(" + b"\x8a\x09" + b"\xff" * 8 + b"\0t(K\1ttR.", "ValueError"),
        (MAKE + b"tR.", "TypeError"),
    ],
)
def test_a_storage_or_tensor_that_cannot_be_is_refused(text: bytes, why: str | None) -> None:
    data = bytes(archive({**GOOD, "x/data.pkl": b"\x80\2" + text}))
    if why is None:
        read(data)
        return
    with pytest.raises(CorruptDataError, match=why):
        read(data)


def test_deep_nests_take_no_time() -> None:
    depth = 200_000
    text = b"\x80\2" + b"]" * depth + b"a" * (depth - 1) + b"."
    data = bytes(archive({**GOOD, "x/data.pkl": text}))
    begin = time.thread_time()
    assert list(read(data).tensors()) == []
    assert time.thread_time() - begin < 5


def test_keys_that_are_no_names_are_told_by_their_place_and_long_ones_cut() -> None:
    tensor = torch.ones(1)
    value = {10**500: [tensor[:0]], (1, 2): [tensor], b"octets": [tensor.view(1, 1)], -1: tensor}
    names = [name for name, _ in read(saved(value)).tensors()]
    assert names == ["#0.0", "#1.0", "#2.0", "-1"]
    ((name, _),) = read(saved({"k" * 5000: {"a": tensor}})).tensors()
    assert name == "k" * 100 + ".a"


VALID = saved(OrderedDict(a=torch.arange(6).view(2, 3), b=torch.ones(2, dtype=torch.bfloat16)))


@settings(max_examples=600, deadline=None, derandomize=True, database=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), max_size=4),
    cut=st.one_of(st.just(0), st.integers(0, len(VALID))),
)
def test_whatever_is_damaged_only_corrupt_data_comes_out(
    changes: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(VALID)
    for at, value in changes:
        data[at] = value
    try:
        found = read(bytes(data[: len(data) - cut]))
    except CorruptDataError:
        return
    for piece in pieces_of("a", found):
        assert 0 <= piece.offset <= piece.offset + piece.length <= len(data)
