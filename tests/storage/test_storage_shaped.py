from __future__ import annotations

from pathlib import Path

import pytest

from contract.storage_contract import StorageContract
from headrace.core.clock import ManualClock
from headrace.core.errors import ConfigError
from headrace.storage.local import LocalStorage
from headrace.storage.shaped import PIECE_BYTES, Shape, ShapedStorage, _Medium

MB = 1_000_000


def shaped(root: Path, shape: Shape) -> tuple[ShapedStorage, ManualClock]:
    clock = ManualClock()
    return ShapedStorage(LocalStorage(root), shape, clock=clock, sleep=clock.advance), clock


class TestShapedStorage(StorageContract):
    def make(self, place: Path) -> ShapedStorage:
        root = place / "root"
        root.mkdir()
        return shaped(root, Shape(bytes_per_s=100 * MB, seek_s=0.01, jitter=0.5))[0]


def test_a_read_takes_its_seek_and_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(10 * MB))
    storage, clock = shaped(tmp_path, Shape(bytes_per_s=100 * MB, seek_s=0.008))
    storage.read("x")
    assert clock.now() == pytest.approx(0.108)


def test_reading_on_where_the_last_read_ended_needs_no_seek(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(3000))
    storage, _ = shaped(tmp_path, Shape(seek_s=0.008))
    for offset in (0, 1000, 2000, 1000):
        storage.read("x", offset, 1000)
    assert storage.statistics().seeks == 2
    assert storage.statistics().bytes == 4000


def test_readers_at_the_same_time_share_the_bandwidth() -> None:
    medium = _Medium(Shape(bytes_per_s=100 * MB))
    ends = [medium.occupy("x", n * MB, MB, now=0.0) for n in range(10)]
    assert ends[-1] == pytest.approx(0.1)
    assert ends == sorted(ends)


def test_a_short_read_waits_for_a_piece_of_a_long_one_not_for_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(bytes(8 * PIECE_BYTES))
    (tmp_path / "short").write_bytes(bytes(100))
    clock, ends = ManualClock(), []

    def sleep(seconds: float) -> None:
        if not ends:
            ends.append(0.0)
            storage.read("short")
            ends.append(clock.now())
        clock.advance(seconds)

    shape = Shape(bytes_per_s=PIECE_BYTES)
    storage = ShapedStorage(LocalStorage(tmp_path), shape, clock=clock, sleep=sleep)
    storage.read("long")
    assert ends[1] < 2.1
    assert clock.now() > 8


def test_latency_overlaps_and_seeks_do_not() -> None:
    medium = _Medium(Shape(latency_s=0.03, seek_s=0.01))
    assert [medium.start_request() for _ in range(2)] == [0.03, 0.03]
    assert [medium.occupy(name, 0, 1, now=0.0) for name in "ab"] == pytest.approx([0.01, 0.02])


def test_jitter_is_the_same_for_the_same_seed_and_stays_in_its_bounds(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(1000))

    def times(seed: int) -> list[float]:
        storage, clock = shaped(tmp_path, Shape(seek_s=0.01, jitter=0.3, seed=seed))
        ends = []
        for _ in range(20):
            storage.read("x")
            ends.append(clock.now())
        return [after - before for before, after in zip([0.0, *ends], ends, strict=False)]

    assert times(1) == times(1)
    assert times(1) != times(2)
    assert all(0.007 <= seconds <= 0.013 for seconds in times(3))
    assert len(set(times(1))) > 10


@pytest.mark.parametrize("wrong", [{"bytes_per_s": 0}, {"seek_s": -1}, {"jitter": 1}])
def test_an_impossible_shape_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Shape(**wrong)
