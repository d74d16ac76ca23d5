"""Files that break loaders, made on the spot: those that decode, and why others do not."""

from __future__ import annotations

import gzip
import io
import json
import os
import socket
import struct
import tarfile
import zlib
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

RATE = 10

CUTS = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9)
"""Where a JPEG is cut off, as parts of its length."""


@cache
def photograph(size: tuple[int, int] = (96, 64)) -> Image.Image:
    coarse = np.random.default_rng(4).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize(size)


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def turned_jpeg(orientation: int = 6) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(photograph(), "JPEG", exif=exif)


def animation(kind: str) -> bytes:
    frames = [Image.new("RGB", (16, 8), colour) for colour in ("red", "lime", "blue")]
    return encoded(frames[0], kind, save_all=True, append_images=frames[1:])


def deep_png() -> bytes:
    levels = np.arange(96 * 64, dtype=np.uint16).reshape(64, 96) * 10
    return encoded(Image.fromarray(levels), "PNG")


def many_pages(pages: int = 2000) -> bytes:
    """Return a TIFF of pages that all have the pixels of one: they differ in nothing."""
    one = encoded(photograph((8, 8)), "TIFF")
    (at,) = struct.unpack_from("<I", one, 4)
    (entries,) = struct.unpack_from("<H", one, at)
    directory = one[at : at + 2 + 12 * entries]
    pages_at, length = len(one), len(directory) + 4
    chain = (
        directory + struct.pack("<I", pages_at + number * length if number < pages else 0)
        for number in range(1, pages + 1)
    )
    return one[:4] + struct.pack("<I", pages_at) + one[8:] + b"".join(chain)


def many_scans(scans: int, size: tuple[int, int] = (64, 48)) -> bytes:
    """Return a progressive JPEG that repeats its last scan, each as costly as a whole picture."""
    file = encoded(photograph(size), "JPEG", progressive=True)
    begin, end = file.rindex(b"\xff\xda"), len(file) - 2
    return file[:end] + file[begin:end] * scans + file[end:]


def huge_png(side: int = 30_000) -> bytes:
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(bytes(1 << 20))),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )


def gif_bomb(side: int = 65_535) -> bytes:
    """Return a GIF of a few bytes whose picture is larger than its screen."""
    file = bytearray(encoded(Image.new("P", (4, 4)), "GIF"))
    at = file.index(b"\x2c", 13)
    struct.pack_into("<HH", file, at + 5, side, side)
    return bytes(file)


def clip(
    frames: int = 12,
    *,
    container: str = "mp4",
    gaps: Sequence[int] = (),
    rotation: int = 0,
    begin: int = 0,
    pixels: str = "yuv420p",
    streams: int = 1,
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
) -> bytes:
    """Return clips whose frame ``n`` of stream ``s`` is gray of level ``16 n + 4 s``."""
    target = io.BytesIO()
    periods = gaps or (1,) * frames
    with av.open(target, "w", format=container, options=container_options or {}) as output:
        made = []
        for _ in range(streams):
            stream = output.add_stream("libx264", rate=RATE, options=options or {"g": "4"})
            stream.width, stream.height, stream.pix_fmt = 64, 48, pixels
            if rotation:
                stream.set_display_rotation(rotation)
            made.append(stream)
        for number in range(frames):
            for which, stream in enumerate(made):
                level = np.full((48, 64, 3), 16 * number + 4 * which, np.uint8)
                frame = av.VideoFrame.from_ndarray(level, format="rgb24")
                frame.pts, frame.time_base = begin + sum(periods[:number]), Fraction(1, RATE)
                output.mux(stream.encode(frame))
        for stream in made:
            output.mux(stream.encode())
    return target.getvalue()


def growing_clip(sizes: Sequence[tuple[int, int]], container: str = "matroska") -> bytes:
    """Return a clip of JPEG frames that are not of the 64 x 48 pixels that its header says."""
    target = io.BytesIO()
    with av.open(target, "w", format=container) as output:
        stream = output.add_stream("mjpeg", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj420p"
        for number, size in enumerate(sizes):
            packet = av.Packet(encoded(Image.new("RGB", size), "JPEG"))
            packet.stream, packet.is_keyframe = stream, True
            packet.pts, packet.dts, packet.time_base = number, number, Fraction(1, RATE)
            output.mux(packet)
    return target.getvalue()


def claiming(samples: int) -> bytes:
    """Return a clip of two kilobytes whose tables count as many frames as they are told."""
    file = bytearray(clip(8))
    struct.pack_into(">II", file, file.index(b"stsz") + 8, 1, samples)
    struct.pack_into(">III", file, file.index(b"stsc") + 12, 1, samples, 1)
    struct.pack_into(">III", file, file.index(b"stts") + 8, 1, samples, 1)
    return bytes(file)


def sound_as_mp4() -> bytes:
    target = io.BytesIO()
    with av.open(target, "w", format="mp4") as output:
        stream = output.add_stream("aac", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 8000), np.float32), "fltp", "mono")
        frame.sample_rate = 8000
        output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return target.getvalue()


def archive(names: Sequence[str]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as shard:
        for name in names:
            data = encoded(photograph(), "JPEG")
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            shard.addfile(entry, io.BytesIO(data))
    return target.getvalue()


def table_without_end() -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.table({"text": ["one", "two"]}), target)
    return target.getvalue()[:-8] + b"\xff\xff\xff\x7fPAR1"


def json_lines(texts: Sequence[str]) -> bytes:
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


JPEG = encoded(photograph(), "JPEG")
PROGRESSIVE = encoded(photograph(), "JPEG", progressive=True)

GOOD_PICTURES: dict[str, bytes] = {
    "plain.jpg": JPEG,
    "cmyk.jpg": encoded(photograph().convert("CMYK"), "JPEG"),
    "turned.jpg": turned_jpeg(),
    "progressive.jpg": PROGRESSIVE,
    "animated.png": animation("PNG"),
    "animated.webp": animation("WEBP"),
    "deep.png": deep_png(),
    "pages.tiff": many_pages(),
    "photo.avif": encoded(photograph(), "AVIF"),
    "new\nline \x1b[31m.jpg": JPEG,
}
"""Pictures that decode."""

GOOD_CLIPS: dict[str, Callable[[], bytes]] = {
    "plain.mp4": clip,
    "uneven.mp4": lambda: clip(gaps=(1, 5, 1, 1, 9, 1, 2, 1, 1, 7, 1, 1)),
    "turned.mp4": lambda: clip(rotation=90),
    "deep.mp4": lambda: clip(pixels="yuv420p10le"),
    "interlaced.mp4": lambda: clip(options={"x264-params": "interlaced=1", "g": "4"}),
    "two.mp4": lambda: clip(streams=2),
    "before.mp4": lambda: clip(begin=-3, options={"bf": "2", "g": "4"}),
    "edited.mp4": lambda: clip(options={"bf": "3", "g": "12"}),
    "cueless.mkv": lambda: clip(container="matroska", container_options={"live": "1"}),
    "pieces.mp4": lambda: clip(container_options={"movflags": "frag_keyframe+empty_moov"}),
}
"""Clips that decode."""

BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty.jpg": (lambda: b"", "none of the formats"),
    **{
        f"cut{number}.jpg": ((lambda part=part: JPEG[: int(part * len(JPEG))]), "cannot")
        for number, part in enumerate(CUTS)
    },
    "cut-progressive.jpg": (lambda: PROGRESSIVE[: len(PROGRESSIVE) // 2], "truncated"),
    "cut.webp": (lambda: animation("WEBP")[:60], "cannot"),
    "cut.avif": (lambda: encoded(photograph(), "AVIF")[:-50], "cannot"),
    "cut.png": (lambda: deep_png()[:-200], "cannot"),
    "noise.jpg": (lambda: bytes(range(256)) * 8, "none of the formats"),
    "huge.png": (huge_png, "exceeds limit"),
    "bomb.gif": (gif_bomb, "exceeds limit"),
    "scans.jpg": (lambda: many_scans(5000), "max_scans=100"),
    "headless.mp4": (lambda: clip()[: clip().index(b"moov")], "cannot"),
    "half-headed.mp4": (lambda: clip()[:-900], "video stream 0 was asked for"),
    "noise.mp4": (lambda: bytes(range(256)) * 8, "cannot"),
    "sound.mp4": (sound_as_mp4, "video stream 0 was asked for"),
    "claims.mp4": (lambda: claiming(60_000_000), "counts 60000000 samples"),
    "grows.mkv": (lambda: growing_clip([(64, 48)] * 2 + [(4000, 3000)] * 4), "max_pixels"),
}
"""Files that do not decode, and what is said of each."""


def write_media(root: Path) -> None:
    """Write every medium as a file of its own."""
    for name, data in GOOD_PICTURES.items():
        (root / name).write_bytes(data)
    for name, make in GOOD_CLIPS.items():
        (root / name).write_bytes(make())
    for name, (make, _) in BROKEN.items():
        (root / name).write_bytes(make())


def write_containers(root: Path) -> None:
    """Write files of many samples that are damaged or oddly named."""
    (root / "climbing.tar").write_bytes(archive(("/etc/a.jpg", "../../b.jpg", "./c.jpg")))
    (root / "cut.tar").write_bytes(archive(("d.jpg", "e.jpg", "f.jpg"))[: 2 * (512 + 2048)])
    (root / "footer.parquet").write_bytes(table_without_end())
    lines = json_lines(("first", "second"))
    (root / "lines.jsonl").write_bytes(lines + b'{"text": "bro\n\0\0\0\n' + json_lines(("last",)))
    members = gzip.compress(lines) + gzip.compress(json_lines(("third", "fourth")))
    (root / "members.jsonl.gz").write_bytes(members)


def write_odd_entries(root: Path, outside: Path) -> None:
    """Make entries of folders that are no plain files: links, a pipe, a socket, a loop."""
    outside.write_bytes(JPEG)
    (root / "outside.jpg").symlink_to(outside)
    (root / "nowhere.jpg").symlink_to(root / "gone.jpg")
    (root / "loop").symlink_to(root)
    os.mkfifo(root / "pipe.jpg")
    with socket.socket(socket.AF_UNIX) as listening:
        folder = os.open(root, os.O_RDONLY)
        listening.bind(f"/proc/self/fd/{folder}/socket.jpg")
        os.close(folder)
    (root / os.fsdecode(b"\xff\xfe.jpg")).write_bytes(JPEG)
    with (root / "sparse.jpg").open("wb") as file:
        file.write(JPEG)
        file.truncate(2 << 30)
