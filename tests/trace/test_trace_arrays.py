"""Columns made without pandas are those that pyarrow makes."""

from __future__ import annotations

import random
import string
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headrace.trace import arrays
from headrace.trace.arrays import COUNTS, array_of, counts, numbers, repeated

LETTERS = string.ascii_letters + "é𝄞\0\n"


def some(rng: random.Random, kind: pa.DataType) -> object:
    text = "".join(rng.choices(LETTERS, k=rng.randrange(6)))
    made = {
        pa.string(): text,
        pa.int64(): rng.choice([0, 1, -1, 2**63 - 1, -(2**63), rng.randrange(10**6)]),
        pa.bool_(): rng.random() < 0.5,
        COUNTS: {f"{text}{n}": n for n in range(rng.randrange(4))},
    }
    return made[kind]


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.bool_(), COUNTS], ids=str)
@pytest.mark.parametrize("null_share", [0.0, 0.3, 1.0])
def test_columns_are_those_of_pyarrow(kind: pa.DataType, null_share: float) -> None:
    for seed in range(40):
        rng = random.Random(seed)
        values = [
            None if rng.random() < null_share else some(rng, kind) for _ in range(rng.randrange(30))
        ]
        made = array_of(values, kind)
        made.validate(full=True)
        pairs = [tuple(one.items()) if isinstance(one, dict) else one for one in values]
        assert made.equals(pa.array(pairs, kind))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1.5, pa.int64()),
        (2**63, pa.int64()),
        (2**70, pa.int64()),
        ("1", pa.int64()),
        (1, pa.bool_()),
        (1, pa.string()),
        (b"x", pa.string()),
        ("x", COUNTS),
        ({"x": "y"}, COUNTS),
        ({1: 1}, COUNTS),
        ({"x": 1.5}, COUNTS),
    ],
)
def test_values_that_do_not_fit_are_refused(value: object, kind: pa.DataType) -> None:
    for values in ([value], [None, value]):
        with pytest.raises((TypeError, AttributeError, OverflowError)):
            array_of(values, kind)


def test_texts_that_are_too_long_for_one_batch_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_MOST", 10)
    assert array_of(["x" * 5] * 2, pa.string()).to_pylist() == ["xxxxx", "xxxxx"]
    with pytest.raises(OverflowError, match="11 bytes"):
        array_of(["x" * 5, "x" * 6], pa.string())


def test_whole_columns() -> None:
    assert numbers(np.arange(6).reshape(3, 2)[:, 1]).to_pylist() == [1, 3, 5]
    assert repeated("x", pa.string(), 3).to_pylist() == ["x"] * 3
    assert repeated(None, pa.int64(), 2).to_pylist() == [None] * 2
    made = counts(array_of(["a", "b"], pa.string()), numbers(np.array([1, 2])), np.array([0, 2]))
    assert made.to_pylist() == [[], [("a", 1), ("b", 2)]]


def test_recording_imports_no_pandas(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("print('pandas')\n")
    program = (
        "from headrace.trace.events import Event\n"
        "from headrace.trace.segments import Origin\n"
        "from headrace.trace.store import EventRecorder\n"
        "with EventRecorder('t', Origin(role='x', job='j')) as recorder:\n"
        "    recorder.record(Event(kind='k', begin_ns=1, is_write=True, counts={'x': 1}))\n"
        "    recorder.flush()\n"
        "    print(recorder.statistics().written_events)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == "1\n"
