"""The map of blocks: the same for everybody, and true to every byte."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import CallerError
from headrace.dataset.extents import extents, indexed_files
from headrace.dataset.index import Index, IndexMeta
from headrace.dataset.location import Member, SampleLocation
from headrace.dataset.rows import RowBuilder
from headrace.prepare.places import Blocks, Whereabouts, places_of
from headrace.storage.port import BlockPlace, Replica
from headrace.wire.messages import JobPlaces

UNHURRIED = settings(deadline=None, max_examples=80)
BLOCK = 100
NODES = "abcde"


def location(file: str, offset: int, length: int, **more: Any) -> SampleLocation:
    given: dict[str, Any] = {
        "key": f"{file}@{offset}", "kind": "image", "container": "tar", "file": file,
        "file_size": 10_000, "file_version": "1", "offset": offset, "length": length,
        "members": (Member(field="image", name="jpg", offset=offset, length=length),),
    }  # fmt: skip
    return SampleLocation(**{**given, **more})


def index_of(*locations: SampleLocation) -> Index:
    builder = RowBuilder()
    for item in locations:
        builder.append(item)
    return Index(builder.finish(), IndexMeta())


def job_of(*indexes: Index) -> Any:
    return SimpleNamespace(sources=[SimpleNamespace(index=index) for index in indexes])


def blocks(*holders: str, size: int = BLOCK) -> Blocks:
    return [
        BlockPlace(n * size, size, tuple(Replica(node, f"10.0.0.{ord(node)}:9866") for node in who))
        for n, who in enumerate(holders)
    ]


def who_holds(where: Whereabouts, sample: int) -> set[str]:
    return {name for name in where.holders[where.sets(np.array([sample]))[0]] if name in NODES}


SPANS = st.tuples(st.integers(0, 450), st.integers(1, 300))
FILES = st.lists(
    st.tuples(
        st.lists(st.sets(st.sampled_from(NODES), max_size=3), max_size=5),
        st.lists(SPANS, min_size=1, max_size=6),
    ),
    min_size=1,
    max_size=4,
)


@UNHURRIED
@given(files=FILES)
def test_each_sample_lies_where_most_of_its_bytes_are(
    files: list[tuple[list[set[str]], list[tuple[int, int]]]],
) -> None:
    rows = [location(f"{n}.tar", *span) for n, (_, spans) in enumerate(files) for span in spans]
    held = [blocks(*("".join(sorted(nodes)) for nodes in holders)) for holders, _ in files]
    # One more dataset, so that there is a map also where no node holds anything of this one.
    where = Whereabouts(
        places_of([held, [blocks("a")]]), job_of(index_of(*rows), index_of(location("x", 0, 1)))
    )
    owners = [(holders, span) for holders, spans in files for span in spans]
    for sample, (holders, (offset, length)) in enumerate(owners):
        assert who_holds(where, sample) == _byte_by_byte(holders, offset, length)


def _byte_by_byte(holders: list[set[str]], offset: int, length: int) -> set[str]:
    if not holders:
        return set()
    found: Counter[str] = Counter()
    for byte in range(offset, offset + length):
        found.update(holders[min(byte // BLOCK, len(holders) - 1)])
    most = max(found.values(), default=0)
    return {node for node in found if found[node] == most}


def test_a_sample_in_two_blocks_lies_where_the_larger_part_is() -> None:
    index = index_of(location("x", 70, 100), location("x", 20, 100), location("x", 50, 100))
    where = Whereabouts(places_of([[blocks("ab", "bc")]]), job_of(index))
    assert [who_holds(where, n) for n in range(3)] == [{"b"}, {"b"}, {"b"}]
    where = Whereabouts(places_of([[blocks("a", "c")]]), job_of(index))
    assert [who_holds(where, n) for n in range(3)] == [{"c"}, {"a"}, {"a", "c"}]


def test_an_agent_may_know_its_node_by_name_by_address_or_by_both_with_the_port() -> None:
    where = Whereabouts(places_of([[blocks("a")]]), job_of(index_of(location("x", 0, 1))))
    assert where.holders[where.sets(np.array([0]))[0]] == {"a", "10.0.0.97", "10.0.0.97:9866"}


def test_the_version_depends_on_where_the_blocks_are_and_on_nothing_else() -> None:
    one = places_of([[blocks("ab", "bc"), blocks("c")]])
    turned = places_of([[blocks("ba", "cb"), blocks("c")]], reason="some could not be asked")
    moved = places_of([[blocks("ab", "bd"), blocks("c")]])
    assert one.version == turned.version != moved.version
    assert turned.reason and not one.reason


def test_a_map_survives_the_wire() -> None:
    made = places_of([[blocks("ab", "c")], [(), blocks("de")]])
    assert msgspec.json.decode(msgspec.json.encode(made), type=JobPlaces) == made


def test_a_store_that_names_no_node_gives_no_map() -> None:
    made = places_of([[blocks("", ""), ()]])
    assert not made.version
    assert "no node" in made.reason


@pytest.mark.parametrize(
    "places",
    [
        places_of([[blocks("a")], [blocks("b")]]),
        places_of([[blocks("a"), blocks("b")]]),
        msgspec.structs.replace(places_of([[blocks("a")]]), sets=((0,),)),
        msgspec.structs.replace(places_of([[blocks("a")]]), sets=((), (), ())),
        msgspec.structs.replace(places_of([[blocks("a")]]), sets=((),)),
        msgspec.structs.replace(places_of([[blocks("a")]]), sets=((), (7,))),
        msgspec.structs.replace(places_of([[blocks("a")]]), sets=((), (-1,))),
    ],
)
def test_a_map_of_something_else_is_refused(places: JobPlaces) -> None:
    with pytest.raises(CallerError, match="map of blocks"):
        Whereabouts(places, job_of(index_of(location("x", 0, 1))))


@pytest.mark.parametrize("name", ["counts", "ends", "sets"])
def test_a_map_that_was_cut_off_is_refused(name: str) -> None:
    made = places_of([[blocks("a", "b")]])
    cut = msgspec.structs.replace(made.sources[0], **{name: getattr(made.sources[0], name)[:-1]})
    with pytest.raises(CallerError, match="map of blocks"):
        Whereabouts(
            msgspec.structs.replace(made, sources=(cut,)), job_of(index_of(location("x", 0, 1)))
        )


@pytest.mark.parametrize("ends", [[20, 10], [10, 1 << 63], [-1, 10], [1 << 61, 1 << 62]])
def test_a_map_of_impossible_blocks_is_refused(ends: list[int]) -> None:
    made = places_of([[blocks("a", "b")]])
    packed = np.array([end % (1 << 64) for end in ends], np.uint64).tobytes()
    wrong = msgspec.structs.replace(made.sources[0], ends=packed)
    with pytest.raises(CallerError, match="map of blocks"):
        Whereabouts(
            msgspec.structs.replace(made, sources=(wrong,)), job_of(index_of(location("x", 0, 1)))
        )


def test_a_row_of_parquet_needs_its_columns_and_compressed_text_its_whole_file() -> None:
    columns = (
        Member(field="image", name="image", offset=500, length=200),
        Member(field="label", name="label", offset=100, length=50),
    )
    index = index_of(
        location("a.parquet", 500, 10, container="parquet", block=0, members=columns),
        location("b.jsonl.gz", 90_000, 10, container="jsonl", block=3),
        location("c.jsonl", 40, 10, container="jsonl"),
    )
    found = extents(index)
    assert list(zip(found.begins.tolist(), found.ends.tolist(), strict=True)) == [
        (100, 700), (0, 10_000), (40, 50),
    ]  # fmt: skip
    assert found.files.tolist() == [0, 1, 2]
    assert indexed_files(index) == ["a.parquet", "b.jsonl.gz", "c.jsonl"]
