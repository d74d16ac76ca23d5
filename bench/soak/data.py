"""A small dataset of every kind of sample, some of them broken, and the pipeline over it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import av
import msgspec
import numpy as np
from PIL import Image

from headrace import Pipeline, ops
from headrace.demo.encode import clip_bytes, photo_bytes, read_frames
from headrace.demo.recipes import SOURCE_FRAMES, ClipRecipe, PhotoRecipe
from headrace.demo.sources import carried_sources

SIDE = 96
PIPELINE = Pipeline(
    [
        ops.DecodeImage(),
        ops.DecodeVideo(frames=4),
        ops.DecodeAudio(rate=16_000, mono=True, seconds=1.0),
        ops.DecodeText(),
        ops.RandomResizedCrop(SIDE),
        ops.RandomHorizontalFlip(),
        ops.ToFloat(),
    ]
)

PHOTOS, TEXTS, SOUNDS, CLIPS = 360, 600, 60, 20
SAMPLES = PHOTOS + TEXTS + SOUNDS + CLIPS
BROKEN_EVERY = 40
"""One in so many photographs, sounds and clips is cut off in the middle."""

_SHARD_PHOTOS = 60
_SOUNDS = (("flac", "flac"), ("mp3", "libmp3lame"), ("adts", "aac"))
"""(container, codec) as FFmpeg names them; the first is also the file's extension."""


def write_dataset(root: Path) -> None:
    """Write the dataset; the same on every machine with the same encoders."""
    _write_photos(root)
    _write_texts(root / "texts.jsonl")
    for number in range(SOUNDS):
        container, codec = _SOUNDS[number % len(_SOUNDS)]
        suffix = "aac" if container == "adts" else container
        data = _sound(container, codec, seconds=1.5 + number % 7)
        (root / f"sound-{number:03}.{suffix}").write_bytes(_perhaps_cut(number, data))
    for number, data in enumerate(_clips()):
        (root / f"clip-{number:03}.mp4").write_bytes(_perhaps_cut(number, data))


def _write_photos(root: Path) -> None:
    """Write half of the photographs as files, half in tar shards."""
    for number, whole in enumerate(_photos()):
        data = _perhaps_cut(number, whole)
        if number % 2:
            (root / f"photo-{number:03}.jpg").write_bytes(data)
            continue
        with tarfile.open(root / f"shard-{number // _SHARD_PHOTOS:02}.tar", "a") as shard:
            entry = tarfile.TarInfo(f"{number:03}.jpg")
            entry.size = len(data)
            shard.addfile(entry, io.BytesIO(data))


def _perhaps_cut(number: int, data: bytes) -> bytes:
    return data[: len(data) // 2] if number % BROKEN_EVERY == BROKEN_EVERY // 2 else data


def _photos() -> Iterator[bytes]:
    sources = [source for source in carried_sources() if source.media == "photo"]
    pictures = [Image.open(source.path).convert("RGB") for source in sources]
    for number in range(PHOTOS):
        width = 160 + number * 37 % 480
        recipe = PhotoRecipe(
            file="", source="", width=width, height=width * 3 // 4,
            left=number % 10 / 10, top=number % 7 / 7,
        )  # fmt: skip
        yield photo_bytes(recipe, pictures[number % len(pictures)])


def _write_texts(path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = (rng.integers(97, 123, 100 + number * 131 % 8000) for number in range(TEXTS))
    lines = (msgspec.json.encode({"text": bytes(text.astype(np.uint8)).decode()}) for text in texts)
    path.write_bytes(b"\n".join(lines) + b"\n")


def _sound(container: str, codec: str, *, seconds: float) -> bytes:
    """Return a sweep, encoded."""
    rate, target = 44_100, io.BytesIO()
    at = np.arange(round(seconds * rate)) / rate
    wave = (0.5 * np.sin(2 * np.pi * (200 + 60 * at) * at)).astype(np.float32)
    with av.open(target, "w", format=container) as file:
        stream = file.add_stream(codec, rate=rate, layout="mono")
        assert isinstance(stream, av.AudioStream)
        frame = av.AudioFrame.from_ndarray(wave[np.newaxis], format="fltp", layout="mono")
        frame.sample_rate, frame.pts = rate, 0
        context = stream.codec_context
        packer = av.AudioResampler(
            context.format, "mono", rate, frame_size=context.frame_size or 4096
        )
        for packed in (*packer.resample(frame), *packer.resample(None)):
            file.mux(stream.encode(packed))
        file.mux(stream.encode(None))
    return target.getvalue()


def _clips() -> Iterator[bytes]:
    sources = [source for source in carried_sources() if source.media == "clip"]
    scenes = [read_frames(source.path, limit=SOURCE_FRAMES) for source in sources]
    for number in range(CLIPS):
        recipe = ClipRecipe(
            file="", source="", start=number, frames=24 + number, width=176, height=144, gop=12
        )
        yield clip_bytes(recipe, scenes[number % len(scenes)])
