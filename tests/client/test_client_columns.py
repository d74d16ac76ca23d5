"""Batches are put together by kind, and joined in the order of the rows."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.columns import column_of, merge, part_of
from headrace.client.torch.batch import tensors

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_arrays_of_one_form_are_stacked_and_others_listed() -> None:
    stacked = column_of([ARRAY, ARRAY])
    assert isinstance(stacked, np.ndarray)
    assert stacked.shape == (2, 2, 3)
    assert isinstance(column_of([ARRAY, ARRAY[:1]]), list)
    assert isinstance(column_of([ARRAY, ARRAY.astype(np.float64)]), list)
    assert isinstance(column_of([ARRAY, b"bytes"]), list)


def test_a_list_of_uneven_arrays_says_how_to_join_them() -> None:
    column = column_of([ARRAY, ARRAY[:1], ARRAY])
    for uneven in (column, tensors(column)):
        with pytest.raises(AttributeError, match=r"\[2, 3\], \[1, 3\]\); join them by ops.Pad"):
            _ = uneven.shape  # type: ignore[union-attr]
        assert len(copy.deepcopy(uneven)) == 3
    with pytest.raises(AttributeError, match="'list' object"):
        _ = column_of(["a", "b"]).shape  # type: ignore[union-attr]


def test_numbers_become_arrays_and_texts_stay_a_list() -> None:
    assert np.asarray(column_of([1, 2])).dtype == np.int64
    assert np.asarray(column_of([1, 2.5])).dtype == np.float64
    assert column_of(["a", "b"]) == ["a", "b"]


@pytest.mark.parametrize("values", [[1, 2**63], [-(2**63) - 1], [1, 2.5, 10**400]])
def test_numbers_that_no_array_holds_stay_a_list(values: list[float]) -> None:
    assert column_of(values) == values
    assert np.asarray(column_of([2**63 - 1, -(2**63)])).dtype == np.int64


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.data())
def test_a_merged_batch_has_every_value_in_its_row(kinds: list[int], data: st.DataObject) -> None:
    having = [data.draw(st.booleans()) for _ in kinds]
    records = [
        {"row": row, **({"only": row} if has else {}), **({"text": f"t{row}"} if kind else {})}
        for row, (kind, has) in enumerate(zip(kinds, having, strict=True))
    ]
    parts = []
    for kind in set(kinds):
        rows = [row for row, other in enumerate(kinds) if other == kind]
        parts.append(part_of(rows, [records[row] for row in rows]))
    columns, present = merge(parts, len(kinds))
    assert np.asarray(columns["row"]).tolist() == list(range(len(kinds)))
    for name in ("only", "text"):
        rows = [row for row, record in enumerate(records) if name in record]
        assert (name in columns) == bool(rows)
        if rows:
            assert list(columns[name]) == [records[row][name] for row in rows]
            assert present.get(name, np.arange(len(kinds))).tolist() == rows


def test_several_values_of_a_field_are_one_column_in_the_order_of_their_rows() -> None:
    records = [
        {"image.0": ARRAY + 20, "image.1": ARRAY + 21, "text": "two"},
        {"text": "none"},
        {f"image.{number}": ARRAY + number for number in range(12)},
    ]
    single = part_of([1], [{"image": ARRAY + 10}])
    columns, rows = merge([part_of([0, 2, 3], records), single], 4)
    assert set(columns) == {"image", "text"}
    assert rows["image"].tolist() == [0, 0, 1] + [3] * 12
    wanted = [ARRAY + number for number in (20, 21, 10, *range(12))]
    np.testing.assert_array_equal(columns["image"], wanted)
    assert rows["text"].tolist() == [0, 2]


def test_several_values_of_other_shapes_are_a_list_in_their_order() -> None:
    records = [{"image.0": ARRAY, "image.1": ARRAY[:1]}, {"image.0": ARRAY[:1]}]
    columns, rows = merge([part_of([0, 1], records)], 2)
    assert [len(value) for value in columns["image"]] == [2, 1, 1]
    assert rows["image"].tolist() == [0, 0, 1]


def test_rows_are_told_where_there_are_as_many_values_as_rows() -> None:
    records = [{"image.0": ARRAY, "image.1": ARRAY}, {"text": "none"}]
    assert merge([part_of([0, 1], records)], 2)[1]["image"].tolist() == [0, 0]
