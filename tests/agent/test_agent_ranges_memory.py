"""Kept pieces: what covers a range, within the bound, of one version."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.agent.ranges import memory as module
from headrace.agent.ranges.memory import FileName, Kept, Piece, RangeMemory, Versioned, cut
from headrace.agent.roots import Located

FILE = FileName(Located("/a", "/a"), "x")
CONTENT = bytes(range(200))
SPANS = st.tuples(st.integers(0, 180), st.integers(1, 60)).map(
    lambda span: (span[0], min(span[1], len(CONTENT) - span[0]))
)


def read(memory: RangeMemory, kept: Kept, version: str = "1", now: float = 0.0) -> None:
    piece = kept.piece
    data = memoryview(CONTENT[piece.offset : piece.end])
    memory.fill(kept, Versioned(version, [data]), now)


def took(memory: RangeMemory, offset: int, length: int) -> Kept:
    kept, _ = memory.take(Piece(FILE, offset, length))
    assert kept is not None
    return kept


def found(memory: RangeMemory, offset: int, length: int) -> bytes | None:
    got = asyncio.run(memory.find(Piece(FILE, offset, length)))
    return None if got is None else b"".join(got.parts)


@settings(deadline=None)
@given(kept=st.lists(SPANS, max_size=6), gone=st.sets(st.integers(0, 5)), asked=SPANS)
def test_what_is_found_is_the_file_and_whatever_one_piece_holds_is_found(
    kept: list[tuple[int, int]], gone: set[int], asked: tuple[int, int]
) -> None:
    memory = RangeMemory(1000)
    pieces = [took(memory, *span) for span in kept]
    for piece in pieces:
        read(memory, piece)
    for number in gone & set(range(len(pieces))):
        memory.give_back(pieces[number])
    left = {span for number, span in enumerate(kept) if number not in gone}
    assert memory.used == sum(length for _, length in left)
    got, (offset, length) = found(memory, *asked), asked
    assert got in (None, CONTENT[offset : offset + length])
    if any(begin <= offset and offset + length <= begin + size for begin, size in left):
        others = [span for span in left if offset < sum(span) and span[0] <= offset]
        assert got is not None or len(others) > 1
    covered = {at for begin, size in left for at in range(begin, begin + size)}
    if not covered >= set(range(offset, offset + length)):
        assert got is None


def test_ranges_are_cut_so_that_overlapping_ones_share_the_middle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", 10)
    first, second = (list(cut(FILE, *span)) for span in ((5, 40), (8, 50)))
    assert [piece[1:] for piece in first] == [(5, 5), (10, 10), (20, 10), (30, 10), (40, 5)]
    assert set(first) & set(second) == {Piece(FILE, at, 10) for at in (10, 20, 30)}
    memory = RangeMemory(1000)
    for piece in first:
        kept, _ = memory.take(piece)
        assert kept is not None
        read(memory, kept)
    assert found(memory, 5, 40) == CONTENT[5:45]
    assert found(memory, 5, 41) is None


def test_a_piece_that_does_not_fit_is_refused_until_there_is_room() -> None:
    memory = RangeMemory(100)
    first = took(memory, 0, 60)
    assert memory.take(Piece(FILE, 60, 41)) == (None, False)
    assert memory.take(Piece(FILE, 0, 60)) == (first, False)
    memory.give_back(first)
    assert memory.take(Piece(FILE, 60, 41)) == (None, False)
    memory.give_back(first)
    assert memory.used == 0
    assert memory.take(Piece(FILE, 60, 41))[1]


def test_pieces_of_another_version_push_out_those_of_before() -> None:
    memory = RangeMemory(100)
    old, new = took(memory, 0, 10), took(memory, 10, 10)
    read(memory, old, "1")
    read(memory, new, "2", now=5.0)
    assert found(memory, 0, 20) is None
    assert found(memory, 10, 10) == CONTENT[10:20]
    assert memory.seen(FILE) == ("2", 5.0)
    assert memory.used == 10
    memory.give_back(old)
    assert memory.used == 10


def test_what_is_read_after_nobody_wants_it_is_not_kept() -> None:
    memory = RangeMemory(100)
    late, broken = took(memory, 0, 10), took(memory, 10, 10)
    memory.give_back(late)
    read(memory, late)
    memory.fail(broken, "the disk is gone")
    assert memory.used == 0
    assert memory.seen(FILE) is None
    assert found(memory, 0, 10) is None


def test_one_who_asks_waits_for_what_is_on_its_way() -> None:
    memory = RangeMemory(100)
    kept = took(memory, 0, 10)

    async def ask() -> bytes:
        asking = asyncio.ensure_future(memory.find(Piece(FILE, 2, 3)))
        await asyncio.sleep(0)
        assert not asking.done()
        read(memory, kept)
        got = await asking
        assert got is not None
        return b"".join(got.parts)

    assert asyncio.run(ask()) == CONTENT[2:5]


def test_many_small_pieces_come_and_go_in_little_time() -> None:
    """The event loop answers nobody meanwhile."""
    memory = RangeMemory(1 << 30)
    begin = time.process_time()
    pieces = [took(memory, 100 * number, 50) for number in range(16_384)]
    for kept in pieces:
        memory.give_back(kept)
    assert memory.used == 0
    assert time.process_time() - begin < 2.0
