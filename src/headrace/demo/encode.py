"""Makes the files of the demo's dataset: enlarges, cuts and encodes photographs and clips.

A package's pictures are small; cameras' are not. Photographs are therefore enlarged and
given sensor-like noise, so that their bytes per pixel, and with them the time it takes to
decode them, are those of a camera's JPEG. The report says so.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image, ImageChops

from headrace.demo.recipes import ClipRecipe, PhotoRecipe

NOISE_LEVELS = 5.0
"""Standard deviation of the noise, in steps of 8 bits: a consumer camera at ISO 800."""

FRAME_RATE = 25
_MARGIN = 1.3
_MIDDLE = 128
_TILE = 512
_NOISE_SIDE = 4096


def photo_bytes(recipe: PhotoRecipe, source: Image.Image) -> bytes:
    """Return the encoded window of an enlarged source; cut short if the recipe says so."""
    window = _enlarged_window(recipe, source)
    buffer = io.BytesIO()
    match recipe.format:
        case "jpg":
            window.save(buffer, "JPEG", quality=recipe.quality)
        case "png":
            window.save(buffer, "PNG", compress_level=1)
        case "webp":
            window.save(buffer, "WEBP", quality=recipe.quality, method=0)
    data = buffer.getvalue()
    return data[: int(len(data) * recipe.keep)]


def _enlarged_window(recipe: PhotoRecipe, source: Image.Image) -> Image.Image:
    size = (recipe.width, recipe.height)
    scale = _MARGIN * max(recipe.width / source.width, recipe.height / source.height)
    width, height = recipe.width / scale, recipe.height / scale
    left = recipe.left * (source.width - width)
    top = recipe.top * (source.height - height)
    box = (left, top, left + width, top + height)
    enlarged = source.resize(size, Image.Resampling.BICUBIC, box=box)
    noise = _noise(source.mode).crop((0, 0, *size))
    return ImageChops.add(enlarged, noise, scale=1.0, offset=-_MIDDLE)


@lru_cache(maxsize=2)
def _noise(mode: str) -> Image.Image:
    shape = (_TILE, _TILE, 3) if mode == "RGB" else (_TILE, _TILE)
    values = np.random.default_rng(0).normal(_MIDDLE, NOISE_LEVELS, shape)
    tile = Image.fromarray(np.rint(values).astype(np.uint8))
    noise = Image.new(mode, (_NOISE_SIDE, _NOISE_SIDE))
    for left in range(0, _NOISE_SIDE, _TILE):
        for top in range(0, _NOISE_SIDE, _TILE):
            noise.paste(tile, (left, top))
    return noise


def read_frames(path: Path, *, limit: int) -> list[av.VideoFrame]:
    """Return the first ``limit`` frames of a clip, decoded."""
    frames: list[av.VideoFrame] = []
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            frames.append(frame)
            if len(frames) == limit:
                break
    return frames


def clip_bytes(recipe: ClipRecipe, frames: Sequence[av.VideoFrame]) -> bytes:
    """Return an MP4 of the recipe's frames, encoded by libx264 on one thread."""
    buffer = io.BytesIO()
    scene = list(frames[recipe.start :][: recipe.frames])
    if recipe.repeats:
        scene += scene[::-1]
    with av.open(buffer, "w", format="mp4") as container:
        stream = _h264_stream(container, recipe)
        packets = list(_encoded(stream, scene))
        for time in range(max(1, recipe.repeats)):
            container.mux([_later(packet, time * len(scene)) for packet in packets])
    return buffer.getvalue()


def _h264_stream(container: av.container.OutputContainer, recipe: ClipRecipe) -> av.VideoStream:
    options = {"preset": "superfast", "crf": str(recipe.crf), "g": str(recipe.gop), "threads": "1"}
    stream = container.add_stream("libx264", rate=FRAME_RATE, options=options)
    stream.width, stream.height, stream.pix_fmt = recipe.width, recipe.height, "yuv420p"
    return stream


def _encoded(stream: av.VideoStream, scene: Sequence[av.VideoFrame]) -> Iterator[av.Packet[Any]]:
    for number, frame in enumerate(scene):
        scaled = frame.reformat(stream.width, stream.height, "yuv420p")
        scaled.pts = number
        scaled.time_base = Fraction(1, FRAME_RATE)
        yield from stream.encode(scaled)
    yield from stream.encode()


def _later(packet: av.Packet[Any], frames: int) -> av.Packet[Any]:
    """Return the packet once more, so many frames later."""
    assert packet.pts is not None, "an encoder times its packets"
    assert packet.dts is not None, "an encoder times its packets"
    copy: av.Packet[Any] = av.Packet(bytes(packet))
    shift = round(frames / FRAME_RATE / packet.time_base)
    copy.stream, copy.time_base = packet.stream, packet.time_base
    copy.pts, copy.dts = packet.pts + shift, packet.dts + shift
    copy.duration, copy.is_keyframe = packet.duration, packet.is_keyframe
    return copy
