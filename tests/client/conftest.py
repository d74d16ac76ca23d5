"""A small dataset of real files: pictures in class folders, clips, one truncated JPEG."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from headrace import Pipeline, ops

PICTURES, CLIPS = 22, 2


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("mixed")
    rng = np.random.default_rng(5)
    for number in range(PICTURES):
        folder = root / ("cat" if number % 2 else "dog")
        folder.mkdir(exist_ok=True)
        save_picture(folder / f"p{number:02d}.jpg", rng)
    broken = root / "cat" / "p07.jpg"
    broken.write_bytes(broken.read_bytes()[:-2000])
    (root / "clips").mkdir()
    for number in range(CLIPS):
        save_clip(root / "clips" / f"v{number}.mp4", rng)
    return root


def save_picture(path: Path, rng: np.random.Generator) -> None:
    width, height = (int(size) for size in rng.integers(60, 160, 2))
    coarse = rng.integers(0, 256, (height // 4, width // 4, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize((width, height)).save(path, quality=95)


def save_clip(path: Path, rng: np.random.Generator) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for _ in range(8):
            pixels = rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
            for packet in stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)


@pytest.fixture(scope="session")
def pipeline() -> Pipeline:
    return Pipeline(
        [
            ops.DecodeImage(),
            ops.DecodeVideo(frames=2),
            ops.RandomResizedCrop(24),
            ops.RandomHorizontalFlip(),
            ops.ToFloat(),
            ops.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
        ]
    )


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    """Every test ends with the threads it began with."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 5
    while (left := own_threads(before)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left, f"threads left running: {left}"


def own_threads(before: set[threading.Thread]) -> list[threading.Thread]:
    return [
        thread
        for thread in threading.enumerate()
        if thread not in before
        and thread.name.startswith("headrace")
        and not thread.name.startswith("headrace-storage")  # all stores of a process share these
    ]
