"""Awkward files from other projects' tests, where the folder of them is there."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from PIL import Image

from headrace import ops
from headrace.core.draws import SampleKey
from headrace.core.errors import CorruptSampleError
from headrace.transform.pipeline import Pipeline
from headrace.transform.program import Program
from real_media import MEDIA, needs_media

pytestmark = needs_media
KEY = SampleKey(0, 0, 0)
BROKEN = {
    "broken_data_stream.png",
    "decompression_bomb.gif",
    "decompression_bomb.ico",
    "truncated_image.png",
    "truncated_jpeg.jpg",
    "ultrahdr.jpg",
}
PICTURES = (".png", ".jpg", ".webp", ".apng", ".gif", ".ico")
CLIPS = (".mp4", ".mkv")


def names(*endings: str) -> list[str]:
    found = MEDIA.iterdir() if MEDIA.is_dir() else ()
    return sorted(path.name for path in found if path.suffix in endings)


def read(name: str) -> bytes:
    return (MEDIA / name).read_bytes()


@pytest.mark.parametrize("name", names(*PICTURES))
def test_each_picture_decodes_as_pillow_converts_it_or_is_corrupt(name: str) -> None:
    program = Program(Pipeline([ops.DecodeImage()]))
    if name in BROKEN:
        with pytest.raises(CorruptSampleError):
            program.run({"image": read(name)}, KEY, stop=1)
        return
    pixels = program.run({"image": read(name)}, KEY, stop=1)["image"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = Image.open(MEDIA / name).convert("RGB")
    assert np.array_equal(pixels, np.asarray(expected))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", names(*CLIPS))
def test_each_clip_decodes_alike_from_bytes_and_from_a_stream(name: str) -> None:
    program = Program(Pipeline([ops.DecodeVideo(5), ops.Resize(64), ops.CenterCrop(64)]))
    pixels = program.run({"video": read(name)}, KEY, stop=3)["video"]
    with (MEDIA / name).open("rb") as stream:
        streamed = program.run({"video": stream}, KEY, stop=3)["video"]
    assert isinstance(pixels, np.ndarray)
    assert pixels.shape == (5, 64, 64, 3)
    assert np.array_equal(pixels, streamed)  # type: ignore[arg-type]


def test_of_two_video_streams_the_first_is_taken_unless_said_otherwise() -> None:
    clip = read("nasa_13013.mp4")
    for stream, shape in ((0, (1, 180, 320, 3)), (1, (1, 270, 480, 3))):
        program = Program(Pipeline([ops.DecodeVideo(1, stream=stream)]))
        pixels = program.run({"video": clip}, KEY, stop=1)["video"]
        assert isinstance(pixels, np.ndarray)
        assert pixels.shape == shape


@pytest.mark.parametrize("name", names(".mp3", ".wav"))
def test_what_is_no_clip_is_corrupt(name: str) -> None:
    with pytest.raises(CorruptSampleError):
        Program(Pipeline([ops.DecodeVideo(1)])).run({"video": read(name)}, KEY, stop=1)


@pytest.mark.parametrize(
    ("name", "stream", "shape"),
    [
        ("sine_mono_s16.wav", 0, (1, 64_000)),
        ("nasa_13013.mp4.audio.mp3", 0, (2, 208_896)),
        ("nasa_13013.mp4", 0, (2, 208_896)),
        ("nasa_13013.mp4", 1, (2, 208_896)),
    ],
)
@pytest.mark.parametrize("seconds", [None, 2.0])
def test_each_sound_decodes_alike_from_bytes_and_from_a_stream(
    name: str, stream: int, shape: tuple[int, int], seconds: float | None
) -> None:
    decoder = ops.DecodeAudio(rate=16_000, stream=stream, seconds=seconds)
    program = Program(Pipeline([decoder]))
    sound = program.run({"audio": read(name)}, KEY, stop=1)["audio"]
    with (MEDIA / name).open("rb") as file:
        streamed = program.run({"audio": file}, KEY, stop=1)["audio"]
    assert isinstance(sound, np.ndarray)
    assert sound.shape == (shape if seconds is None else (shape[0], 32_000))
    assert 0.01 < abs(sound).max() <= 1.5
    np.testing.assert_array_equal(sound, streamed)  # type: ignore[arg-type]
