"""Decoding a part of a file, again and again, leaves no memory behind."""

from __future__ import annotations

import ctypes
import gc
import io
from collections.abc import Callable

import av
import numpy as np
import pytest

from headrace.transform.codecs.audio import Cut, SoundRules, decode_sound
from headrace.transform.codecs.video import ClipRules, decode_clip
from sounds import sound

TIMES = 200
PACKET_BYTES = 100.0
"""A reading that PyAV is not told the end of leaves more than this behind."""

_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class Mallinfo(ctypes.Structure):
    """What glibc tells of its heap."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _FIELDS.split())


def in_use() -> int:
    """Return what is allocated on the heap [bytes]."""
    gc.collect()
    try:
        mallinfo2 = ctypes.CDLL("libc.so.6").mallinfo2
    except (OSError, AttributeError):
        pytest.skip("only glibc from 2.33 on tells what is allocated")
    mallinfo2.restype = Mallinfo
    return int(mallinfo2().uordblks)


def left_by(decode: Callable[[], object]) -> float:
    """Return what each of many calls leaves behind [bytes]."""
    for _ in range(TIMES // 4):
        decode()
    before = in_use()
    for _ in range(TIMES):
        decode()
    return (in_use() - before) / TIMES


def clip() -> bytes:
    """Return 120 small frames, ten in a group of pictures."""
    target = io.BytesIO()
    with av.open(target, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=10, options={"g": "10"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(120):
            pixels = np.full((48, 64, 3), number, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return target.getvalue()


def test_a_cut_of_a_sound_leaves_no_memory_behind() -> None:
    data = sound("flac", "flac", seconds=1.0, rate=8_000, channels=1)
    rules = SoundRules(stream=0, rate=None, mono=True, max_samples=1 << 20)
    assert left_by(lambda: decode_sound(data, rules, Cut(0.1, 0.0))) < PACKET_BYTES


def test_frames_of_a_clip_that_are_sought_leave_no_memory_behind() -> None:
    data = clip()
    rules = ClipRules(stream=0, orientation="ignore", max_pixels=1 << 20, max_decoded=1000)
    moments = (1.0, 5.0, 9.0)
    assert left_by(lambda: decode_clip(data, rules, lambda _: moments, None)) < PACKET_BYTES
