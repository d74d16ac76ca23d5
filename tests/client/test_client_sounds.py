"""Sounds of all formats become the same batches with and without an agent, by explicit shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from epochs import digests, epoch, loading

from dataset.made_up_media import picture
from headrace import Batch, Pipeline, ops
from headrace.agent.local import LocalAgent
from headrace.dataset.cost import FIXED_S
from headrace.prepare.foreseen import Foreseen
from headrace.transform.program import Program
from integration.agents import wait_until_proven
from sounds import sound

FORMATS = {
    "wav": ("wav", "pcm_s16le"),
    "flac": ("flac", "flac"),
    "mp3": ("mp3", "libmp3lame"),
    "opus": ("ogg", "libopus"),
    "m4a": ("mp4", "aac"),
}


@pytest.fixture(scope="module")
def songs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("songs")
    for ending, (container, codec) in FORMATS.items():
        for seconds in (0.2, 0.8):
            data = sound(container, codec, seconds=seconds)
            (root / f"{seconds}.{ending}").write_bytes(data)
    (root / "broken.flac").write_bytes(sound("flac", "flac", seconds=0.8)[:9000])
    return root


AGENT = ("--workers", "1", "--memory", "64MiB", "--cpu-threshold", "1")
CUT = [ops.DecodeAudio(rate=16_000, mono=True, seconds=0.5), ops.LogMel(16_000)]


def test_an_agent_makes_the_same_batches_of_sounds(songs: Path) -> None:
    pipeline = Pipeline([*CUT, ops.Pad(to=50, axis=-1, mask=True, fields=("mel",))])
    options: dict[str, Any] = {"pipeline": pipeline, "tail": "short", "patience_s": 20}
    with LocalAgent([songs], options=AGENT) as agent:
        settings: dict[str, Any] = {"agents": [agent.address], "token": agent.token}
        with loading(songs, check_every=1, **options, **settings) as loader:
            wait_until_proven(agent)
            assert digests(loader) == epoch(songs, **options)
            counts = loader.summary().counts
            assert counts.tensor
            assert not counts.local
            assert loader.statistics().background.checks.different == 0
            (replaced,) = loader.summary().replaced
            assert (replaced.key, "cut off" in replaced.reason) == ("broken.flac", True)


def test_batches_of_sounds_have_the_shape_that_was_asked_for(songs: Path) -> None:
    def batches(*ways: ops.Pad | ops.Ragged) -> list[dict[str, object]]:
        with loading(songs, pipeline=Pipeline([*CUT, *ways]), batch_size=11) as loader:
            return [dict(batch) for batch in loader]

    ((plain,), (padded,), (ragged,)) = (
        batches(),
        batches(ops.Pad(axis=-1, fields=("mel",))),
        batches(ops.Ragged(axis=-1, fields=("mel",))),
    )
    lists, frames, flat = plain["mel"], padded["mel"], ragged["mel"]
    assert isinstance(lists, list)
    assert isinstance(frames, np.ndarray)
    assert isinstance(flat, np.ndarray)
    lengths, offsets = padded["mel_lengths"], ragged["mel_offsets"]
    assert isinstance(lengths, np.ndarray)
    assert isinstance(offsets, np.ndarray)
    assert frames.shape == (11, 80, 50)
    assert sorted({20, 50} & {*lengths.tolist()}) == [20, 50]
    for row, (mel, length) in enumerate(zip(lists, lengths, strict=True)):
        np.testing.assert_array_equal(frames[row, :, :length], mel)
        np.testing.assert_array_equal(flat[offsets[row] : offsets[row + 1]].T, mel)


def test_joined_columns_name_the_rows_that_they_are_of(tmp_path: Path) -> None:
    for number in range(2):
        seconds = 0.2 + number / 10
        (tmp_path / f"{number}.wav").write_bytes(sound("wav", "pcm_s16le", seconds=seconds))
        (tmp_path / f"{number}.jpg").write_bytes(picture(9, 9))

    def batch(way: ops.Pad | ops.Ragged) -> Batch:
        with loading(tmp_path, pipeline=Pipeline([*CUT, way]), batch_size=4) as loader:
            return next(iter(loader))

    padded = batch(ops.Pad(axis=-1, mask=True, fields=("mel",)))
    rows = padded.rows("mel")
    assert len(rows) == len(padded["mel"]) == 2
    assert sorted([*rows, *padded.rows("image")]) == [0, 1, 2, 3]
    for name in ("mel_lengths", "mel_mask"):
        np.testing.assert_array_equal(padded.rows(name), rows)
    lengths = padded["mel_lengths"]
    ragged = batch(ops.Ragged(axis=-1, fields=("mel",)))
    np.testing.assert_array_equal(ragged.rows("mel"), np.repeat(rows, lengths))


def test_a_cut_of_a_long_sound_is_foreseen_to_cost_little(tmp_path: Path) -> None:
    (tmp_path / "long.flac").write_bytes(sound("flac", "flac", seconds=40.0, rate=8_000))
    with loading(tmp_path, pipeline=Pipeline(CUT), batch_size=1) as loader:
        index = loader.job.sources[0].index
    (whole,) = Foreseen(index, Program(Pipeline([ops.DecodeAudio()]))).costs
    (cut,) = Foreseen(index, Program(Pipeline(CUT))).costs
    assert whole == index.costs[0]
    assert cut == pytest.approx((whole - FIXED_S) * 1.5 / 40 + FIXED_S)
