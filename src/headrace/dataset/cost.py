"""How much CPU a sample will take to decode, guessed from its headers.

Measured on one core of an AMD EPYC on 2026-11-29, decoding to RGB, conversion included.
Pictures: the median of 8 decodes of a photograph at 960 x 720 with Pillow 13 (JPEG at
quality 90, WebP at 85). Clips: 50 frames of 1280 x 720 panned over a photograph, coded at
3 Mbit/s, with PyAV 18 on one thread; real footage cost up to twice as much. Sound: 20 s of
stereo at 48 kHz. Formats not listed get a guess. The estimates order samples by weight and
start a job off; measured times replace them where they matter.
"""

from __future__ import annotations

IMAGE_NS_PER_PIXEL = {
    "JPEG": 10.3,
    "MPO": 10.3,
    "PNG": 34.7,
    "WEBP": 22.3,
    "GIF": 11.9,
    "BMP": 10.0,
    "TIFF": 2.4,
    "AVIF": 3.4,
}
"""Format as Pillow names it → CPU per pixel [ns]."""

OTHER_IMAGE_NS_PER_PIXEL = 15.0

VIDEO_NS_PER_PIXEL = {
    "h264": 2.6,
    "hevc": 3.2,
    "vp9": 3.2,
    "vp8": 2.6,
    "av1": 2.5,
    "mpeg4": 1.6,
    "mjpeg": 2.5,
}
"""Codec as FFmpeg names it → CPU per pixel of each frame [ns]."""

OTHER_VIDEO_NS_PER_PIXEL = 3.5

AUDIO_NS_PER_SAMPLE = {"pcm": 4.0, "aac": 8.0, "flac": 10.0, "mp3": 10.0, "opus": 20.0}
"""Codec's family as FFmpeg names it → CPU per sample of one channel [ns]."""

OTHER_AUDIO_NS_PER_SAMPLE = 10.0

TEXT_NS_PER_BYTE = 1.0

FIXED_S = 40e-6
"""Opening any decoder [s]."""


def image_cost(image_format: str | None, width: int, height: int) -> float:
    """Return the estimated CPU to decode one picture [s]."""
    per_pixel = IMAGE_NS_PER_PIXEL.get(image_format or "", OTHER_IMAGE_NS_PER_PIXEL)
    return FIXED_S + width * height * per_pixel * 1e-9


def video_cost(codec: str, width: int, height: int, frames: int) -> float:
    """Return the estimated CPU to decode every frame of a clip [s]."""
    per_pixel = VIDEO_NS_PER_PIXEL.get(codec, OTHER_VIDEO_NS_PER_PIXEL)
    return FIXED_S + width * height * frames * per_pixel * 1e-9


def audio_cost(codec: str, samples: float) -> float:
    """Return the estimated CPU to decode that many samples of one channel [s]."""
    family = codec.partition("_")[0]
    per_sample = AUDIO_NS_PER_SAMPLE.get(family, OTHER_AUDIO_NS_PER_SAMPLE)
    return FIXED_S + samples * per_sample * 1e-9


def text_cost(length: int) -> float:
    """Return the estimated CPU to decode ``length`` bytes of UTF-8 [s]."""
    return length * TEXT_NS_PER_BYTE * 1e-9
