"""Arrays of different lengths are padded, laid end to end, packed or cut off, as is asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headrace import Pipeline, ops
from headrace.core.draws import Draws, SampleKey
from headrace.core.errors import ConfigError
from headrace.core.record import AnyArray
from headrace.transform.op import Columns
from headrace.transform.program import Program

TYPES = ("int32", "int64", "float32", "uint8")
DRAWS = Draws(SampleKey(0, 0, 0), 0)


@st.composite
def uneven(draw: st.DrawFn) -> tuple[list[AnyArray], int]:
    """Arrays that differ along one axis, and that axis."""
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    dtype = draw(st.sampled_from(TYPES))
    found = []
    for length in draw(st.lists(st.integers(0, 5), min_size=1, max_size=5)):
        shape[axis] = length
        elements = {"min_value": 0, "max_value": 100}
        found.append(draw(arrays(dtype, tuple(shape), elements=elements)))
    return found, axis


def joined(op: ops.Pad | ops.Ragged, found: list[AnyArray]) -> dict[str, AnyArray]:
    columns: Columns = {"x": list(found), "label": np.arange(len(found))}
    result = op.join(columns)
    assert result["label"] is columns["label"]
    return {name: np.asarray(column) for name, column in result.items()}


@settings(deadline=None, derandomize=True)
@given(uneven(), st.integers(1, 4))
def test_what_was_padded_is_got_back_by_its_length(
    given_arrays: tuple[list[AnyArray], int], multiple: int
) -> None:
    found, axis = given_arrays
    columns = joined(
        ops.Pad(value=7, multiple=multiple, mask=True, axis=axis, fields=("x",)), found
    )
    assert columns["x_lengths"].dtype == np.int64
    assert columns["x_mask"].dtype == np.bool_
    longest = max(array.shape[axis] for array in found)
    for array, row, length, mask in zip(
        found, columns["x"], columns["x_lengths"], columns["x_mask"], strict=True
    ):
        assert row.dtype == array.dtype
        assert 0 <= row.shape[axis] - longest < multiple
        assert row.shape[axis] % multiple == 0
        kept, filled = np.split(row, [length], axis)
        np.testing.assert_array_equal(kept, array)
        assert (filled == 7).all()
        assert mask.tolist() == [place < length for place in range(row.shape[axis])]


@settings(deadline=None, derandomize=True)
@given(uneven())
def test_what_was_laid_end_to_end_is_got_back_by_its_offsets(
    given_arrays: tuple[list[AnyArray], int],
) -> None:
    found, axis = given_arrays
    columns = joined(ops.Ragged(axis=axis, fields=("x",)), found)
    flat, offsets = columns["x"], columns["x_offsets"]
    assert offsets.dtype == np.int64
    assert offsets[0] == 0
    assert offsets[-1] == len(flat)
    assert len(offsets) == len(found) + 1
    for array, begin, end in zip(found, offsets, offsets[1:], strict=False):
        assert flat.dtype == array.dtype
        np.testing.assert_array_equal(np.moveaxis(flat[begin:end], 0, axis), array)


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(1, 8), st.booleans())
def test_what_was_packed_is_got_back_by_its_segments(
    lengths: list[int], length: int, is_transposed: bool
) -> None:
    features = [np.random.default_rng(n).random((n, 2), np.float32) + 1 for n in lengths]
    given_arrays = [array.T if is_transposed else array for array in features]
    op = ops.Pack(length, axis=-1 if is_transposed else 0, fields=("x",))
    packed = op.join({"x": list(given_arrays)})
    rows, segments = np.asarray(packed["x"]), np.asarray(packed["segments"])
    assert rows.shape == (*segments.shape, 2)
    assert rows.dtype == np.float32
    assert segments.shape == np.asarray(packed["positions"]).shape
    for number, array in enumerate(features):
        np.testing.assert_array_equal(rows[segments == number + 1], array)
    assert (rows[segments == 0] == 0).all()


def test_padding_to_a_length() -> None:
    columns = joined(ops.Pad(to=4, fields=("x",)), [np.arange(3), np.arange(1)])
    assert columns["x"].tolist() == [[0, 1, 2, 0], [0, 0, 0, 0]]
    assert columns["x_lengths"].tolist() == [3, 1]
    assert "x_mask" not in columns
    alike = joined(ops.Pad(to=4, value=-100, fields=("x",)), [np.ones(2, np.int64)] * 2)
    assert alike["x"].tolist() == [[1, 1, -100, -100]] * 2


@pytest.mark.parametrize(
    ("op", "column", "reason"),
    [
        (ops.Pad(to=4), [np.arange(5)], r"put truncate\(4\) before it"),
        (ops.Pad(), [np.zeros((2, 3)), np.zeros((2, 4))], "differ along axis 0 alone"),
        (ops.Pad(), [np.zeros(2), np.zeros(3, np.int32)], "differ along axis 0 alone"),
        (ops.Pad(axis=1), [np.zeros(2)], "is no axis"),
        (ops.Pad(value=-1), [np.zeros(2, np.uint8)], "is no uint8"),
        (ops.Pad(value=float("nan")), [np.zeros(2, np.int32)], "is no int32"),
        (ops.Pad(), [b"bytes"], "makes arrays of it"),
        (ops.Ragged(), [np.zeros((2, 3)), np.zeros((2, 4))], "differ along axis 0 alone"),
        (ops.Ragged(), ["text"], "makes arrays of it"),
        (ops.Pack(4), [np.zeros((2, 3)), np.zeros((2, 4))], "differ along axis 0 alone"),
        (ops.Pack(4, pad=300), [np.zeros((2, 3), np.uint8)], "pack.pad=300 is no uint8"),
        (ops.Pack(4, pad=1 << 40), [np.zeros(2, np.int64)], "pack.pad=1.*is no int32"),
        (ops.Pack(4), [np.array([7, 1 << 31])], "2147483648 .* is no token"),
        (ops.Pack(4), [np.array([-(1 << 31) - 1, 7])], "-2147483649 .* is no token"),
    ],
)
def test_what_cannot_be_joined_is_told(
    op: ops.Pad | ops.Ragged | ops.Pack, column: list[AnyArray], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        op.join({"tokens": list(column)})


@pytest.mark.parametrize(
    "make",
    [
        lambda: ops.Pad(to=0),
        lambda: ops.Pad(multiple=0),
        lambda: ops.Pad(to=8, multiple=4),
        lambda: ops.Pad(fields=("x", "y")),
        lambda: ops.Ragged(fields=()),
        lambda: ops.Truncate(0),
        lambda: ops.Pack(0),
        lambda: ops.Pack(4, eos=1 << 31),
    ],
)
def test_senseless_parameters_are_refused(make: object) -> None:
    with pytest.raises(ConfigError):
        make()  # type: ignore[operator]


def test_samples_are_cut_off_along_an_axis() -> None:
    array = np.arange(12).reshape(2, 6)
    cut = ops.Truncate(4, axis=-1).apply(array, DRAWS)
    np.testing.assert_array_equal(cut, array[:, :4])  # type: ignore[arg-type]
    assert ops.Truncate(2).apply(array, DRAWS) is array
    with pytest.raises(ConfigError, match="is no axis"):
        ops.Truncate(2, axis=2).apply(array, DRAWS)
    with pytest.raises(ConfigError, match="not as an array"):
        ops.Truncate(2).apply("text", DRAWS)


def test_columns_that_are_joined_know_their_rows() -> None:
    rows = {"x": np.array([0, 2])}
    columns: Columns = {"x": [np.arange(2), np.arange(3)], "label": [1, 2, 3]}
    padded = Program(Pipeline([ops.Pad(fields=("x",), mask=True)])).run_batch(dict(columns), rows)
    assert {name: of.tolist() for name, of in padded[1].items()} == {
        "x": [0, 2],
        "x_lengths": [0, 2],
        "x_mask": [0, 2],
    }
    ragged = Program(Pipeline([ops.Ragged(fields=("x",))])).run_batch(dict(columns), rows)
    assert {name: of.tolist() for name, of in ragged[1].items()} == {"x": [0, 0, 2, 2, 2]}
    whole = Program(Pipeline([ops.Ragged(fields=("x",))])).run_batch(dict(columns), {})
    assert whole[1]["x"].tolist() == [0, 0, 1, 1, 1]
    packed = Program(Pipeline([ops.Pack(4, fields=("x",))])).run_batch(dict(columns), rows)
    assert not packed[1]


def test_joined_columns_lie_in_the_memory_of_batches() -> None:
    given_memory: list[AnyArray] = []

    def memory(shape: tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
        given_memory.append(np.full(shape, 77, dtype))
        return given_memory[-1]

    made: list[tuple[ops.Pad | ops.Ragged | ops.Pack | ops.Segments, Sequence[str]]] = [
        (ops.Pad(), ["tokens"]),
        (ops.Ragged(), ["tokens"]),
        (ops.Pack(4), ["tokens", "segments", "positions"]),
        (ops.Segments(), ["segments", "positions"]),
    ]
    for op, names in made:
        program = Program(Pipeline([op]))
        columns: Columns = {
            "tokens": [np.arange(3, dtype=np.int32), np.arange(2, dtype=np.int32)],
            "documents": [np.array([2, 1]), np.array([2])],
        }
        if isinstance(op, ops.Segments):
            columns = {"tokens": np.zeros((1, 3), np.int32), "documents": [np.array([2, 1])]}
        given_memory.clear()
        joined, _ = program.run_batch(dict(columns), {}, memory)
        assert [id(joined[name]) for name in names] == [id(array) for array in given_memory]
        plain, _ = program.run_batch(dict(columns), {})
        for name in names:
            np.testing.assert_array_equal(joined[name], plain[name])


def test_they_round_trip_through_json() -> None:
    pipeline = Pipeline(
        [
            ops.Truncate(9, axis=-1, fields=("mel",)),
            ops.Pad(to=9, axis=-1, fields=("mel",)),
            ops.Pad(to="longest", multiple=8, value=-100, mask=True),
            ops.Ragged(fields=("patches",)),
        ]
    )
    assert Pipeline.from_json(pipeline.to_json()) == pipeline
