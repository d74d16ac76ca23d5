"""Small media and containers, made on the spot."""

from __future__ import annotations

import functools
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


@functools.lru_cache
def picture(width: int, height: int, format: str = "JPEG") -> bytes:
    ramp = np.add.outer(np.arange(height), np.arange(width)).astype(np.uint8)
    target = io.BytesIO()
    Image.fromarray(np.stack([ramp, ramp.T.copy().reshape(ramp.shape), 255 - ramp], -1)).save(
        target, format
    )
    return target.getvalue()


@functools.lru_cache
def clip(frames: int = 30, *, width: int = 64, height: int = 48, gop: int = 10) -> bytes:
    target = io.BytesIO()
    with av.open(target, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=10, options={"bf": "0"})
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = width, height, "yuv420p", gop
        stream.codec_context.options = {"sc_threshold": "0"}
        for number in range(frames):
            image = np.full((height, width, 3), number * 8 % 256, np.uint8)
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 10)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return target.getvalue()


@functools.lru_cache
def tone(seconds: float = 1.0, rate: int = 8000) -> bytes:
    target = io.BytesIO()
    with av.open(target, "w", format="wav") as container:
        stream = container.add_stream("pcm_s16le", rate=rate, layout="mono")
        samples = np.zeros((1, int(seconds * rate)), np.int16)
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
        frame.sample_rate = rate
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return target.getvalue()


def shard(members: Iterable[tuple[str, bytes]], format: int = tarfile.PAX_FORMAT) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=format) as archive:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return target.getvalue()


def json_lines(texts: Iterable[str], field: str = "text") -> bytes:
    rows = [json.dumps({"n": n, field: text}).encode() for n, text in enumerate(texts)]
    return b"".join(row + b"\n" for row in rows)


def parquet(columns: Mapping[str, object], row_group: int = 4) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), target, row_group_size=row_group)
    return target.getvalue()


def write_all(root: Path, files: Mapping[str, bytes]) -> Path:
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root
