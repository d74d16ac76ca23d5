from __future__ import annotations

import random
from pathlib import Path

import pytest

from headrace.core.errors import StorageError
from headrace.trace import sorting
from headrace.trace.events import Event, batch_of
from headrace.trace.sorting import sorted_events


def events(seed: int, count: int) -> list[Event]:
    rng = random.Random(seed)
    return [
        Event(kind="step", begin_ns=rng.randrange(count // 2 + 1), step=n, counts={"n": n})
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [0, 1, 90, 100, 101, 1000])
@pytest.mark.parametrize("seed", [1, 2])
def test_events_come_sorted_whatever_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, count: int
) -> None:
    monkeypatch.setattr(sorting, "RUN_EVENTS", 100)
    monkeypatch.setattr(sorting, "MERGE_EVENTS", 7)
    some = events(seed, count)
    batches = (batch_of(some[begin : begin + 30]) for begin in range(0, count, 30))
    rows = [row for batch in sorted_events(batches, tmp_path) for row in batch.to_pylist()]
    assert [row["begin_ns"] for row in rows] == sorted(one.begin_ns for one in some)
    assert sorted(row["step"] for row in rows) == list(range(count))
    assert all(row["counts"] == [("n", row["step"])] for row in rows)
    assert list(tmp_path.iterdir()) == []


def test_a_scratch_folder_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorting, "RUN_EVENTS", 10)
    batches = [batch_of(events(1, 30)), batch_of(events(2, 30))]
    with pytest.raises(StorageError, match="cannot sort"):
        list(sorted_events(batches, tmp_path / "none"))
