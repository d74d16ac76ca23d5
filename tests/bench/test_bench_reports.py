"""Each benchmark runs on a few samples and reports under its fixed names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from headrace import Loader

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is no package of the wheel

from bench import loader, recorder, wire
from bench.measuring import Report, Spent, interleaved, publish, quotients

KEYS = {"name", "date", "machine", "commit", "settings", "baseline", "headrace", "ratio", "repeats"}


def _loader() -> Report:
    return loader.measure(loader.Scale(batch=4, steps=2, pictures=8, workers=(1,), repeats=1))


def _wire() -> Report:
    return wire.measure(wire.Scale(batch=4, steps=2, pictures=8, repeats=1))


def _recorder() -> Report:
    texts = recorder.Load(batch=4, steps=8, samples=64)
    photos = recorder.Load(batch=4, steps=2, samples=16)
    return recorder.measure(recorder.Scale(texts=texts, photos=photos, repeats=1))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("measure", "name", "ratios"),
    [
        (_loader, "loader", {"vs_bare_loop", "vs_dataloader", "vs_spdl"}),
        (_wire, "wire", {"vs_raw_tcp", "cpu_vs_raw"}),
        (
            _recorder,
            "recorder",
            {"throughput", "throughput_photos", "per_cpu", "per_cpu_photos"},
        ),
    ],
)
def test_a_report_has_the_keys_and_ratios_that_stay(
    measure: Callable[[], Report], name: str, ratios: set[str], tmp_path: Path
) -> None:
    publish(measure(), tmp_path)
    written: dict[str, Any] = msgspec.json.decode((tmp_path / f"{name}.json").read_bytes())
    assert written.keys() >= KEYS
    assert written["ratio"].keys() >= ratios
    assert all(ratio > 0 for ratio in written["ratio"].values())


def test_the_bare_loop_makes_the_pictures_that_headrace_makes(tmp_path: Path) -> None:
    files = loader.write_pictures(tmp_path, 4)
    with Loader(tmp_path, pipeline=loader.PIPELINE, batch_size=4) as ours:
        batch = next(iter(ours))
    for row, sample in enumerate(batch["sample"]):
        bare = np.empty((3, loader.SIDE, loader.SIDE), np.float32)
        loader.normalised(loader.decoded(loader._task(files[sample], int(sample))), bare)
        np.testing.assert_allclose(batch["image"][row], bare, atol=1e-5)


def test_contenders_take_turns_after_a_round_that_does_not_count() -> None:
    turns: list[str] = []

    def contender(name: str) -> Callable[[], Spent]:
        return lambda: turns.append(name) or Spent(1.0, float(len(turns)))  # type: ignore[func-returns-value]

    runs = interleaved({"a": contender("a"), "b": contender("b")}, repeats=2)
    assert turns == ["a", "b"] * 3
    assert [one.cpu_s for one in runs["b"]] == [4.0, 6.0]


def test_ratios_are_taken_within_each_turn() -> None:
    assert quotients([1.0, 10.0, 3.0], [1.0, 5.0, 1.0]).median == 2.0


def test_the_interval_of_a_median_leaves_out_what_chance_puts_at_the_ends() -> None:
    assert recorder.interval([1.0]) == (1.0, 1.0)
    assert recorder.interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert recorder.interval([float(number) for number in range(15)]) == (3.0, 11.0)
