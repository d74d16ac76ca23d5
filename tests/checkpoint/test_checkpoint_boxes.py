"""Parts of a tensor overlap or do not, as counting each element tells."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.checkpoint.boxes import TangledPartsError, overlap

Box = tuple[tuple[int, int], tuple[int, int]]


def told(boxes: list[Box]) -> bool:
    bounds = np.array(boxes, dtype=np.int64).reshape(len(boxes), 2, 2)
    return overlap(bounds[:, :, 0], bounds[:, :, 1])


sides = st.tuples(st.integers(0, 7), st.integers(1, 4)).map(lambda one: (one[0], sum(one)))


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.lists(st.tuples(sides, sides), max_size=8))
def test_overlaps_are_told_as_counting_does(boxes: list[Box]) -> None:
    counts = np.zeros((12, 12), dtype=int)
    for (top, bottom), (left, right) in boxes:
        counts[top:bottom, left:right] += 1
    assert told(boxes) == bool((counts > 1).any())


def test_a_pinwheel_which_no_plane_divides_does_not_overlap() -> None:
    wheel: list[Box] = [((0, 1), (0, 2)), ((0, 2), (2, 3)), ((2, 3), (1, 3)), ((1, 3), (0, 1))]
    assert not told(wheel)
    assert told([*wheel, ((1, 2), (1, 3))])


def test_parts_of_scalars_overlap_when_there_are_two() -> None:
    assert overlap(np.zeros((2, 0), dtype=np.int64), np.zeros((2, 0), dtype=np.int64))
    assert not overlap(np.zeros((1, 0), dtype=np.int64), np.zeros((1, 0), dtype=np.int64))


def test_many_parts_in_a_grid_are_told_in_seconds() -> None:
    rows, columns = np.divmod(np.arange(160_000), 400)
    begins = np.stack([rows, columns], axis=1)
    begin = time.process_time()
    assert not overlap(begins, begins + 1)
    assert time.process_time() - begin < 20


def test_many_parts_that_are_no_grid_are_refused_instead_of_compared_for_hours() -> None:
    begins = np.arange(10_000)[:, None]
    with pytest.raises(TangledPartsError):
        overlap(begins, begins + 2)
