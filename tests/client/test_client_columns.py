"""Batches are put together by kind, and joined in the order of the rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.columns import column_of, merge, part_of

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_arrays_of_one_form_are_stacked_and_others_listed() -> None:
    stacked = column_of([ARRAY, ARRAY])
    assert isinstance(stacked, np.ndarray)
    assert stacked.shape == (2, 2, 3)
    assert isinstance(column_of([ARRAY, ARRAY[:1]]), list)
    assert isinstance(column_of([ARRAY, ARRAY.astype(np.float64)]), list)
    assert isinstance(column_of([ARRAY, b"bytes"]), list)


def test_numbers_become_arrays_and_texts_stay_a_list() -> None:
    assert np.asarray(column_of([1, 2])).dtype == np.int64
    assert np.asarray(column_of([1, 2.5])).dtype == np.float64
    assert column_of(["a", "b"]) == ["a", "b"]


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
