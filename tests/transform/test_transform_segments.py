from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Pipeline, ops
from headrace.core.errors import ConfigError
from headrace.transform.program import Program

parts = st.lists(st.integers(1, 5), min_size=1, max_size=6)


@settings(deadline=None, derandomize=True)
@given(rows=st.lists(parts, min_size=1, max_size=4))
def test_each_token_is_told_its_document_and_its_place(rows: list[list[int]]) -> None:
    columns = {
        "tokens": [np.zeros(sum(row), np.int32) for row in rows],
        "documents": [np.array(row, np.int32) for row in rows],
        "label": [1],
    }
    joined = ops.Segments().join(columns)  # type: ignore[arg-type]
    assert joined.keys() == {"tokens", "segments", "positions", "label"}
    stacked = len({sum(row) for row in rows}) == 1
    for row, segments, positions in zip(rows, joined["segments"], joined["positions"], strict=True):
        expected = [(number + 1, at) for number, n in enumerate(row) for at in range(n)]
        assert list(zip(segments.tolist(), positions.tolist(), strict=True)) == expected  # type: ignore[union-attr]
        assert segments.dtype == positions.dtype == np.int32  # type: ignore[union-attr]
    assert isinstance(joined["segments"], np.ndarray) == stacked


def test_segments_are_as_packing_tells_them() -> None:
    texts = [np.arange(3), np.arange(4), np.arange(1)]
    packed = ops.Pack(8).join({"tokens": list(texts)})
    windows = {"tokens": packed["tokens"], "documents": np.array([[3, 4, 1]], np.int32)}
    joined = ops.Segments().join(windows)
    for name in ("segments", "positions"):
        np.testing.assert_array_equal(joined[name], packed[name])


def test_tokens_of_other_lengths_are_refused() -> None:
    columns = {"tokens": np.zeros((1, 4), np.int32), "documents": np.array([[5]], np.int32)}
    with pytest.raises(ConfigError, match="as they were read"):
        ops.Segments().join(columns)
    with pytest.raises(ConfigError, match="two"):
        ops.Segments(fields=("tokens",))


def test_it_runs_on_batches_that_have_documents() -> None:
    program = Program(Pipeline([ops.Segments()]))
    assert program.sample_ops == 0
    tokens = np.zeros((1, 3), np.int32)
    assert program.run_batch({"tokens": tokens}, {}) == ({"tokens": tokens}, {})
    columns = {"tokens": tokens, "documents": np.array([[1, 2]], np.int32)}
    joined, rows = program.run_batch(dict(columns), {name: np.array([3]) for name in columns})
    assert joined["segments"].tolist() == [[1, 2, 2]]  # type: ignore[union-attr]
    assert rows == dict.fromkeys(("tokens", "segments", "positions"), np.array([3]))
