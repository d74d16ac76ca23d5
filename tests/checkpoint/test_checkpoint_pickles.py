"""Pickles are read as data: what is no data is refused, and nothing is executed."""

from __future__ import annotations

import gc
import os
import pickle
import random
import struct
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.checkpoint.pickles import Class, Constant, Function, Opaque, Table, load
from headrace.core.errors import CorruptDataError

HERE = __name__


@dataclass
class Box:
    """What tests pickle: a field that must be there, and one with a default."""

    inside: Any
    label: str = "none"

    def __setstate__(self, state: object) -> None:
        raise AssertionError("a method of a value was called")


@dataclass(frozen=True)
class Key:
    name: str


class Loose:
    """All of its fields have defaults."""

    label = ""


def size(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(numbers)


TABLE: Table = {
    (HERE, "Box"): Class(
        kind=Box, fields={"inside": (object,), "label": (str,)}, order=("inside", "label")
    ),
    (HERE, "Key"): Class(kind=Key, fields={"name": (str,)}, is_key=True),
    (HERE, "Loose"): Class(kind=Loose, fields={"label": (str,)}),
    (HERE, "size"): Function(size),
    (HERE, "listed"): Function(list),
    (HERE, "NUMBER"): Constant(7),
    ("collections", "OrderedDict"): Function(OrderedDict),
}


def read(data: bytes, *, opaque: bool = False) -> Any:
    return load(data, TABLE, what="a.pickle", opaque=opaque)


def globally(name: str, module: str = HERE) -> bytes:
    return f"c{module}\n{name}\n".encode()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_come_back_as_they_were(protocol: int) -> None:
    value = {
        "numbers": [0, 255, 65535, -1, 1 << 40, -(1 << 70), 0.5, True, False, None],
        "texts": ("", "ä" * 300),
        "octets": (b"", b"x" * 300, bytes(70_000)) if protocol > 2 else (),
        ("a", 1): {"nested": [[], {}, (), ((1,), (1, 2), (1, 2, 3), (1, 2, 3, 4))]},
        "many": list(range(2500)),
        "ordered": OrderedDict([("b", 1), ("a", 2)]),
    }
    assert read(pickle.dumps(value, protocol)) == value


def test_sets_come_back_as_they_were() -> None:
    assert read(pickle.dumps([{1, "a"}, frozenset({(1, 2)})], 4)) == [{1, "a"}, {(1, 2)}]


def test_instances_are_filled_without_running_their_methods() -> None:
    shared = Box([1])
    first, second, keyed = read(pickle.dumps([shared, shared, {Key("a"): 1}], 4))
    assert first is second
    assert (first.inside, first.label) == ([1], "none")
    assert keyed == {Key("a"): 1}


BOX = globally("Box")
INSIDE, LABEL = b"X\x06\0\0\0inside", b"X\x05\0\0\0label"
FIRST = BOX + b")\x81\x94}(" + INSIDE + b"K\x01" + LABEL + LABEL + b"ub"


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (b"h\x00}(" + INSIDE + b"K\x01" + LABEL + LABEL + b"ub", "filled twice"),
        (BOX + b")\x81}(" + INSIDE + b"K\x01" + LABEL + b"K\x01ub", "label of a Box"),
        (BOX + b")\x81}(" + INSIDE + b"K\x01" + LABEL + LABEL + INSIDE + b"ub", "ValueError"),
        (BOX + b")\x81}(" + LABEL + b"K\x01" + LABEL + LABEL + b"ub", "lacks fields"),
        (BOX + b")\x81](" + INSIDE + b"K\x01" + LABEL + LABEL + b"ub", "no dictionary"),
        (globally("Key") + b")\x81}(" + INSIDE + b"K\x01" + LABEL + LABEL + b"ub", "lacks fields"),
        (BOX + b")\x81}(]K\x01" + LABEL + LABEL + b"ub", "a list is no key"),
    ],
)
def test_each_instance_of_a_class_is_looked_at_also_after_a_sound_one(
    second: bytes, why: str
) -> None:
    with pytest.raises(CorruptDataError, match=why):
        read(b"]" + FIRST + b"a" + second + b"a.")


def test_a_form_is_not_learnt_from_a_state_that_held_fields_before() -> None:
    held = BOX + b")\x81}" + INSIDE + b"K\x01s(" + LABEL + LABEL + LABEL + LABEL + b"ub"
    lacking = BOX + b")\x81}(" + LABEL + LABEL + LABEL + LABEL + b"ub"
    assert read(held + b".").inside == 1
    with pytest.raises(CorruptDataError, match="lacks fields"):
        read(b"]" + held + b"a" + lacking + b"a.")


def test_garbage_is_collected_again_afterwards_also_after_damage() -> None:
    assert gc.isenabled()
    read(b"N.")
    with pytest.raises(CorruptDataError):
        read(b"N")
    assert gc.isenabled()


def test_a_state_may_be_a_tuple_in_the_order_of_the_fields_also_a_shorter_one() -> None:
    made = read(b"\x80\x04" + globally("Box") + b")\x81K\x01\x85b.")
    assert made.inside == 1
    assert made.label == "none"


def test_fields_that_a_class_does_not_have_are_left_out() -> None:
    newer = Box(1)
    newer.__dict__["newer"] = 3
    made = read(pickle.dumps(newer, 4))
    assert not hasattr(made, "newer")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (globally("system", "os") + b"X\x02\0\0\0ls\x85R.", "os.system"),
        (b"\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.", "os.system"),
        (globally("eval", "builtins") + b"\x8c\x011\x85R.", "builtins.eval"),
        (b"(S'ls'\nios\nsystem\n.", "operation b'S'"),
        (b"(ios\nsystem\n.", "operation b'i'"),
        (b"\x82\x01.", "operation b'\\x82'"),
        (b"\x8c\x01aQ.", "operation b'Q'"),
        (b"P1\n.", "operation b'P'"),
        (b"}\x97.", "operation b'\\x97'"),
        (globally("Box") + b"}\x92.", "operation b'\\x92'"),
        (b"K\x01)R.", "calls what is no function"),
        (globally("Box") + b")R.", "calls what is no function"),
        (globally("size") + b"(((ttt\x85R.", "not plain"),
        (globally("size") + b"K\x01R.", "calls what is no function"),
        (globally("size") + b"K\x01\x85R.", "TypeError"),
        (globally("size") + b")\x81.", "an instance of what is no class"),
        (globally("Box") + b"K\x01\x85\x81.", "an instance of what is no class"),
        (globally("Box") + b")\x81.", "lacks its fields"),
        (globally("Box") + b")\x81}b.", "lacks fields"),
        (globally("Box") + b")\x81K\x01b.", "lacks fields"),
        (globally("Box") + b")\x81K\x01\x85bK\x01\x85b.", "filled twice"),
        (globally("Box") + b")\x81}(\x8c\x06insideK\x01\x8c\x05labelK\x01ub.", "label of a Box"),
        (b"}K\x01b.", "KeyError"),
        (b"}]K\x01s.", "a list is no key"),
        (b"}(K\x01\x85\x85K\x01u.", "a tuple is no key"),
        (b"}" + globally("Key") + b")\x81K\x01s.", "a Key is no key"),
        (b"(]\x91.", "a list is no key"),
        (b"\x8f(]\x90.", "a list is no key"),
        (b"}(K\x01u.", "ValueError"),
        (b"K\x01K\x02a.", "no list"),
        (b"K\x01(K\x02u.", "no dictionary"),
        (b"K\x01(K\x02\x90.", "no set"),
        (b"h\x05.", "KeyError"),
        (b"r\xff\xff\xff\xff.", "IndexError"),
        (b"\x86.", "a tuple lacks its values"),
        (b"t.", "IndexError"),
        (b"K\x01\x8c\x01a\x93.", "no text"),
        (b"X\xff\xff\xff\xffab.", "ends within a value of 4,294,967,295 bytes"),
        (b"\x8e\xff\xff\xff\xff\xff\xff\xff\xffab.", "ends within a value"),
        (b"\x8c\x02\xff\xff.", "UnicodeDecodeError"),
        (b"\x80", "ends within"),
        (b"", "ends before its end"),
        (b"K\x01", "ends before its end"),
        (b".", "no single value"),
        (b"K\x01K\x02.", "no single value"),
        (b"K\x01(.", "no single value"),
        (b"cos", "ends within a name"),
    ],
)
def test_what_is_no_data_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(CorruptDataError) as refused:
        read(data)
    assert why in str(refused.value)
    assert "a.pickle" in str(refused.value)


class Exploit:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("opaque", [False, True])
def test_code_is_never_run(tmp_path: Path, protocol: int, opaque: bool) -> None:
    data = pickle.dumps({"a": Exploit(tmp_path / "made")}, protocol)
    with pytest.raises(CorruptDataError, match=r"posix\.mkdir"):
        read(data, opaque=opaque)
    assert not (tmp_path / "made").exists()


def test_what_is_opaque_swallows_whatever_is_done_with_it() -> None:
    calls = b")R(K\x01K\x02uK\x01K\x02s(K\x01eK\x01a(K\x01\x90}b)\x81."
    value = read(b"ca\nb\n" + calls, opaque=True)
    assert type(value) is Opaque
    assert value.name == "a.b"


def test_a_constant_is_itself() -> None:
    assert read(globally("NUMBER") + b".") == 7


def test_tuples_nested_deeper_than_any_stack_end_neither_the_process_nor_the_patience() -> None:
    nested = b")" + b"\x85" * 100_000
    with pytest.raises(CorruptDataError, match="no key"):
        read(b"}" + nested + b"K\x01s.")
    with pytest.raises(CorruptDataError, match="not plain"):
        read(globally("size") + nested + b"R.")
    assert read(nested + b"0K\x01.") == 1


def test_a_key_that_is_shared_with_itself_sixty_times_is_not_hashed() -> None:
    doubled = b"K\x01\x94" + b"".join(b"h%ch%c\x86\x94" % (n, n) for n in range(60))
    begin = time.process_time()
    with pytest.raises(CorruptDataError, match="no key"):
        read(doubled + b"0}h%cK\x01s." % 60)
    assert time.process_time() - begin < 5


LONG = b"]\x94(" + b"K\x01" * 100_000 + b"e"
TEXT = b"X" + struct.pack("<I", 1_000_000) + b"x" * 1_000_000


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (LONG + b"0" + (globally("listed") + b"h\x00\x85R0") * 100_000, "again and again"),
        (TEXT + b"\x940}\x940" + b"h\x01h\x00Ns0" * 500_000, "again and again"),
        (
            b"}\x94(" + b"".join(b"J%sN" % struct.pack("<i", n) for n in range(100_000)) + b"u0"
            + (globally("Loose") + b")\x81h\x00b0") * 100_000,
            "again and again",
        ),
        (TEXT + b"\x94" + b"h\x00h\x00\x93" * 100_000, "a name is too long"),
        (globally("size") + b"(" + b"K\x01" * 65 + b"t\x85R.", "not plain"),
    ],
)  # fmt: skip
def test_a_long_value_is_not_worked_on_again_and_again(data: bytes, why: str) -> None:
    begin = time.process_time()
    with pytest.raises(CorruptDataError, match=why):
        read(data, opaque=True)
    assert time.process_time() - begin < 20


def test_a_large_memo_index_costs_nothing() -> None:
    assert read(b"K\x05r" + struct.pack("<I", 0xFFFFFFFF) + b".") == 5


@pytest.mark.parametrize("seed", range(20))
def test_the_memo_is_that_of_python_whatever_the_order_of_its_indices(seed: int) -> None:
    draw = random.Random(seed)
    data, kept = b"](", set[int]()
    for number in range(40):
        data += b"K%c" % number
        index = draw.choice((len(kept), len(kept), draw.randrange(50)))
        if index == len(kept) and draw.random() < 0.5:
            data += b"\x94"
        else:
            data += b"q%c" % index
        kept.add(index)
        data += b"h%c" % draw.choice(sorted(kept))
    assert read(data + b"e.") == pickle.loads(data + b"e.")


def test_damage_is_told_with_its_place() -> None:
    with pytest.raises(CorruptDataError, match="KeyError at byte 7;"):
        read(b"NNN00h\x05.")


SAMPLE = pickle.dumps(
    {Key("a"): Box([1, (2, 3), 0.5]), "b": {"c": Box({1}, "x"), "d": b"raw"}, "e": OrderedDict()}, 4
)


@settings(
    max_examples=400, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(
    st.lists(
        st.tuples(st.integers(0, len(SAMPLE) - 1), st.binary(max_size=6), st.integers(0, 6)),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_whatever_the_bytes_are_only_corrupt_data_comes_out(
    changes: list[tuple[int, bytes, int]], opaque: bool
) -> None:
    data = bytearray(SAMPLE)
    for place, bytes_, cut in changes:
        data[place : place + cut] = bytes_
    try:
        read(bytes(data), opaque=opaque)
    except CorruptDataError as refused:
        assert "a.pickle" in str(refused)
