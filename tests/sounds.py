"""Sounds made on the spot, in the formats that people have."""

from __future__ import annotations

import functools
import io
import struct

import av
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

LOSSLESS = (
    ("wav", "pcm_s16le"),
    ("wav", "pcm_s24le"),
    ("wav", "pcm_f32le"),
    ("wav", "pcm_f64le"),
    ("flac", "flac"),
    ("aiff", "pcm_s16be"),
    ("ogg", "flac"),
)
LOSSY = (("mp3", "libmp3lame"), ("ogg", "libopus"), ("mp4", "aac"), ("adts", "aac"))
"""(container, codec) as FFmpeg names them."""


def waves(seconds: float, rate: int, channels: int) -> Floats:
    """Return a sweep and a tone, ``float32 [channels, samples]``."""
    at = np.arange(round(seconds * rate)) / rate
    sweep = 0.5 * np.sin(2 * np.pi * (200 + 60 * at) * at)
    tone = 0.3 * np.sin(2 * np.pi * 440 * at)
    return np.stack([sweep, tone][:channels]).astype(np.float32)


@functools.lru_cache
def sound(
    container: str, codec: str, *, seconds: float = 3.0, rate: int = 48_000, channels: int = 2
) -> bytes:
    """Return ``waves`` as a file."""
    target = io.BytesIO()
    layout = {1: "mono", 2: "stereo"}[channels]
    with av.open(target, "w", format=container) as file:
        stream = file.add_stream(codec, rate=rate, layout=layout)
        assert isinstance(stream, av.AudioStream)
        context = stream.codec_context
        frame = av.AudioFrame.from_ndarray(
            waves(seconds, rate, channels), format="fltp", layout=layout
        )
        frame.sample_rate, frame.pts = rate, 0
        packer = av.AudioResampler(
            format=context.format, layout=layout, rate=rate, frame_size=context.frame_size or 4096
        )
        for packed in (*packer.resample(frame), *packer.resample(None)):
            file.mux(stream.encode(packed))
        file.mux(stream.encode(None))
    return target.getvalue()


def wav(
    data: bytes = bytes(3200),
    *,
    rate: int = 16_000,
    channels: int = 1,
    bits: int = 16,
    tag: int = 1,
    told: int | None = None,
) -> bytes:
    """Return a WAV file with whatever header is wanted; ``tag`` 3 is floats."""
    width = min(channels * bits // 8, 0xFFFF)
    told = len(data) if told is None else told
    form = struct.pack("<HHIIHH", tag, channels, rate, rate * width % 2**32, width, bits)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", told) + data
    return b"RIFF" + struct.pack("<I", min(told + 36, 0xFFFF_FFFF)) + body
