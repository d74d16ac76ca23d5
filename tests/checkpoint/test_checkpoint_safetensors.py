"""Headers of safetensors files: every verdict is held against the ``safetensors`` package's."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from headrace.checkpoint.safetensors import (
    DTYPES,
    HEAD_BYTES,
    MOST_HEADER_BYTES,
    Header,
    ShortFileError,
    parse_header,
    read_headers,
)
from headrace.core.errors import CorruptDataError
from headrace.storage.local import LocalStorage

Document = dict[str, Any]


def entry(dtype: str, shape: list[Any], begin: Any, end: Any) -> Document:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def file_of(header: Document | bytes, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def parsed(file: bytes) -> Header:
    return parse_header(file, file="model.safetensors", size=len(file))


def test_what_the_reference_writes_is_read_as_it_reads_it() -> None:
    file = save(
        {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.zeros((0, 4), dtype=np.int8)},
        metadata={"format": "np"},
    )
    header = parsed(file)
    assert header.metadata == {"format": "np"}
    found = {one.name: (one.dtype, one.shape, one.length) for one in header.tensors}
    assert found == {"b": ("F32", (2, 3), 24), "a": ("I8", (0, 4), 0)}
    assert header.length + 24 == len(file)


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_dtype_takes_as_many_bytes_as_the_reference_says(dtype: str) -> None:
    length = DTYPES[dtype].bits
    file = file_of({"a": entry(dtype, [2, 4], 0, length)}, bytes(length))
    assert parsed(file).tensors[0].length == length
    assert deserialize(file)[0][1]["dtype"] == dtype


HOSTILE = {
    "a length of 2^63": (struct.pack("<Q", 1 << 63) + b"{}", "limit is 100000000"),
    "a header over the limit": (struct.pack("<Q", MOST_HEADER_BYTES + 1), "limit"),
    "a header beyond the file": (struct.pack("<Q", 99) + b"{}", "claims a header of 99"),
    "no length": (b"\x02\0\0", "3 bytes"),
    "no object": (file_of(b"[]"), "does not begin with {"),
    "no JSON": (file_of(b'{"a'), "no valid JSON"),
    "no text": (file_of(b'{"\xff":1}'), "no valid JSON"),
    "a name twice": (file_of(b'{"a":[],"a":[]}'), "'a' occurs twice"),
    "a deep nest": (file_of(b'{"a":' + b"[" * 200_000), "no valid JSON"),
    "NaN": (file_of(b'{"a":NaN}'), "NaN"),
    "a number with a point": (file_of(b'{"a":{"shape":[4.0]}}'), "4.0"),
    "a negative number": (file_of(b'{"a":{"shape":[-1]}}'), "-1"),
    "a minus zero": (file_of({"a": entry("U8", [0], 0, 0)}).replace(b"[0]", b"-00"), "no valid"),
    "a number of 65 bits": (
        file_of({"a": entry("U8", [1 << 64, 0], 0, 0)}),
        "18446744073709551616",
    ),
    "a number of a million digits": (file_of(b'{"a":' + b"9" * 1_000_000 + b"}"), "99999"),
    "a yes for a count": (file_of({"a": entry("U8", [True], 0, 1)}, b"0"), "no list of counts"),
    "a dtype unknown": (file_of({"a": entry("F128", [1], 0, 16)}, bytes(16)), "'F128'"),
    "a dtype that is a list": (file_of({"a": {**entry("", [], 0, 0), "dtype": []}}), "[]"),
    "a field too many": (file_of({"a": {**entry("U8", [0], 0, 0), "b": 0}}), "and no more"),
    "a field missing": (file_of({"a": {"dtype": "U8", "shape": []}}), "must have"),
    "a shape that overflows": (file_of({"a": entry("U8", [1 << 33, 1 << 33], 0, 0)}), "2^64"),
    "an overflow times zero": (file_of({"a": entry("U8", [1 << 33, 1 << 33, 0], 0, 0)}), "2^64"),
    "half a byte": (file_of({"a": entry("F4", [3], 0, 2)}, bytes(2)), "no whole number"),
    "a shape too large": (file_of({"a": entry("F32", [2], 0, 4)}, bytes(4)), "takes 8 bytes"),
    "falling offsets": (file_of({"a": entry("U8", [0], 4, 0)}, bytes(4)), "rising offsets"),
    "a hole": (file_of({"a": entry("U8", [2], 1, 3)}, bytes(3)), "leaves a hole"),
    "an overlap": (
        file_of({"a": entry("U8", [3], 0, 3), "b": entry("U8", [2], 2, 4)}, bytes(4)),
        "overlaps",
    ),
    "bytes left": (file_of({"a": entry("U8", [1], 0, 1)}, bytes(3)), "2 more follow"),
    "a file cut off": (file_of({"a": entry("U8", [9], 0, 9)}, bytes(3)), "cut off"),
    "half a surrogate": (file_of(b'{"\\ud800":{}}'), "no Unicode"),
    "a name without end": (file_of({"n" * 10**6: entry("U8", [2], 0, 1)}), "takes 2 bytes"),
    "a dtype without end": (file_of({"a": entry("F" * 10**6, [1], 0, 1)}), "FF…"),
    "a name without end twice": (
        file_of(f'{{"{"n" * 10**6}":1,"{"n" * 10**6}":1}}'.encode()),
        "twice",
    ),
    "metadata of numbers": (file_of({"__metadata__": {"a": 1}}), "texts to texts"),
    "metadata of half a surrogate": (file_of(b'{"__metadata__":{"a":"\\ud800"}}'), "no Unicode"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_header_is_refused_with_its_reason(name: str) -> None:
    file, reason = HOSTILE[name]
    with pytest.raises(CorruptDataError, match=r"^model\.safetensors") as refusal:
        parsed(file)
    assert reason in str(refusal.value)
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize("name", ["a header beyond the file", "no length", "a file cut off"])
def test_a_file_that_is_too_short_is_told_from_one_that_is_damaged(name: str) -> None:
    with pytest.raises(ShortFileError):
        parsed(HOSTILE[name][0])


COUNTS = st.one_of(
    st.integers(0, 5), st.sampled_from([-1, 1 << 32, 1 << 63, (1 << 64) - 1, 1 << 64])
)
JUNK = st.sampled_from([None, True, 1.0, "", [], {}, [0], "F32", "0"])
ENTRIES = st.fixed_dictionaries(
    {
        "dtype": st.one_of(st.sampled_from(list(DTYPES)), JUNK),
        "shape": st.one_of(st.lists(COUNTS, max_size=3), JUNK),
        "data_offsets": st.one_of(st.lists(COUNTS, min_size=2, max_size=2), JUNK),
    },
    optional={"extra": JUNK},
)


@st.composite
def fuzzed_files(draw: st.DrawFn) -> bytes:
    """A valid file with some fields, some bytes of its header or its length changed, or none."""
    names = draw(st.lists(st.text(max_size=3), unique=True, max_size=4))
    document: Document = {}
    end = 0
    for name in names:
        dtype, shape = (
            draw(st.sampled_from(list(DTYPES))),
            draw(st.lists(st.integers(0, 4), max_size=3)),
        )
        length = -(-int(np.prod(shape, dtype=int)) * DTYPES[dtype].bits // 8)
        document[name] = entry(dtype, shape, end, end + length)
        end += length
    data = bytes(end + draw(st.sampled_from([0, 0, 0, 1, -1]))) if end else b""
    if names and draw(st.booleans()):
        document[draw(st.sampled_from(names))].update(draw(ENTRIES))
    if draw(st.booleans()):
        document["__metadata__"] = draw(
            st.one_of(st.dictionaries(st.text(max_size=2), st.text(max_size=2), max_size=2), JUNK)
        )
    file = bytearray(file_of(document, data))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        file[draw(st.integers(0, len(file) - 1))] = draw(st.integers(0, 255))
    return bytes(file)


@settings(max_examples=1500, deadline=None, derandomize=True, database=None)
@given(file=fuzzed_files())
def test_what_is_accepted_the_reference_accepts_and_reads_equally(file: bytes) -> None:
    try:
        header = parsed(file)
    except CorruptDataError:
        return
    expected = {
        name: (one["dtype"], one["shape"], bytes(one["data"])) for name, one in deserialize(file)
    }
    found = {
        one.name: (one.dtype, list(one.shape), file[one.offset : one.offset + one.length])
        for one in header.tensors
    }
    assert found == expected


@settings(max_examples=600, deadline=None, derandomize=True, database=None)
@given(file=fuzzed_files())
def test_what_the_reference_accepts_is_accepted_unless_it_could_be_read_in_two_ways(
    file: bytes,
) -> None:
    try:
        deserialize(file)
    except SafetensorError:
        return
    try:
        parsed(file)
    except CorruptDataError as error:
        assert any(why in str(error) for why in ("occurs twice", "and no more", "begin with {"))


def test_a_header_beyond_the_first_read_takes_one_more(tmp_path: Path) -> None:
    many = {f"{i:0100d}": np.zeros(1, np.uint8) for i in range(HEAD_BYTES // 100)}
    (tmp_path / "big.safetensors").write_bytes(save(many))
    (tmp_path / "small.safetensors").write_bytes(save({"a": np.zeros(1, np.uint8)}))
    storage = LocalStorage(tmp_path)
    big, small = read_headers(storage, list(storage.list()))
    assert len(big.tensors) == len(many)
    assert big.length > HEAD_BYTES
    assert len(small.tensors) == 1
