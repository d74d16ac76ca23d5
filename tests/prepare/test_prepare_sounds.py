"""Sounds are read at once, but for a cut of a long one, and are the same however they are read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from headrace import Pipeline, ops
from headrace.core.draws import SampleKey
from headrace.dataset.build import build_index
from headrace.dataset.reader import SampleReader
from headrace.prepare import sample
from headrace.prepare.sample import Preparer, finish_cut, finish_raw
from headrace.storage.local import LocalStorage
from headrace.storage.port import ByteRange, FileInfo
from headrace.transform.program import Program
from sounds import LOSSY, sound

FORMATS = [("wav", "pcm_s16le"), ("flac", "flac"), *LOSSY]
WHOLE = Program(Pipeline([ops.DecodeAudio(rate=16_000), ops.LogMel(16_000)]))
CUT = Program(Pipeline([ops.DecodeAudio(rate=16_000, seconds=0.5), ops.LogMel(16_000)]))


class CountingStorage(LocalStorage):
    reads = 0
    count = 0

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = super().read(path, offset, length)
        self.reads += 1
        self.count += len(data)
        return data

    def read_described(
        self, path: str, ranges: Sequence[ByteRange]
    ) -> tuple[Sequence[bytes], FileInfo]:
        data, info = super().read_described(path, ranges)
        self.reads += 1
        self.count += sum(map(len, data))
        return data, info


@pytest.mark.parametrize("program", [WHOLE, CUT])
def test_sounds_are_the_same_as_streams_as_bytes_and_from_a_cut(
    tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    for container, codec in FORMATS:
        ending = {"mp4": "m4a", "adts": "aac"}.get(container, container)
        (tmp_path / f"x.{ending}").write_bytes(sound(container, codec, seconds=1.0))
    storage = LocalStorage(tmp_path)
    index = build_index(storage)
    assert len(index) == len(FORMATS)
    preparer = Preparer(program, SampleReader(storage))
    monkeypatch.setattr(sample, "LONG_BYTES", 0)
    for number in range(len(index)):
        key, location = SampleKey(3, 1, number), index.location(number)
        (expected,) = preparer.prepare(location, key, stop=2).record.values()
        raw = finish_raw(program, location, preparer.raw(location), key, stop=2).record
        decoded = preparer.prepare(location, key, stop=1).record
        finished = finish_cut(program, decoded, key, cut=1, stop=2).record
        for (got,) in (raw.values(), finished.values()):
            np.testing.assert_array_equal(got, expected)  # type: ignore[arg-type]


def test_only_cuts_of_long_sounds_are_read_in_parts(tmp_path: Path) -> None:
    (tmp_path / "short.wav").write_bytes(sound("wav", "pcm_s16le"))
    (tmp_path / "tall.wav").write_bytes(sound("wav", "pcm_s16le", seconds=40.0))
    storage = CountingStorage(tmp_path)
    index = build_index(storage)
    reads = {}
    for name, program in (("whole", WHOLE), ("cut", CUT)):
        preparer = Preparer(program, SampleReader(storage))
        for number in range(2):
            storage.reads = storage.count = 0
            preparer.prepare(index.location(number), SampleKey(3, 1, number), stop=1)
            reads[name, index.location(number).file] = (storage.reads, storage.count)
    size = (tmp_path / "tall.wav").stat().st_size
    assert reads["whole", "tall.wav"] == (1, size)
    assert reads["cut", "short.wav"][0] == reads["whole", "short.wav"][0] == 1
    assert reads["cut", "tall.wav"][1] < size / 4
