"""A small dataset of real files, written once for all integration tests."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from headrace import Pipeline, ops

SIDE = 96
"""Edge of the crops that the pipeline makes [pixels]."""


def _picture(seed: int, width: int, height: int) -> np.ndarray:
    """A picture with smooth and sharp parts, so that JPEG has something to do."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    picture = np.array(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))
    picture[::7, ::5] = rng.integers(0, 256, 3)
    return picture


def write_clip(
    path: Path, *, seed: int, frames: int = 48, width: int = 160, height: int = 120
) -> None:
    """Write an H.264 clip with a keyframe every 12 frames."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(
            "libx264", rate=24, options={"g": "12", "preset": "ultrafast"}
        )
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        base = _picture(seed, width, height)
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(np.roll(base, 3 * number, axis=1), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of pictures, some clips, and two pictures that were cut off."""
    root = tmp_path_factory.mktemp("dataset")
    for number in range(60):
        folder = root / ("cat", "dog")[number % 2]
        folder.mkdir(exist_ok=True)
        picture = Image.fromarray(
            _picture(number, 200 + 37 * (number % 9), 180 + 23 * (number % 7))
        )
        picture.save(
            folder / f"{number:03}.{('jpg', 'png', 'webp')[number % 10 // 8 + number % 30 // 29]}"
        )
    for number in range(4):
        write_clip(root / "dog" / f"clip{number}.mp4", seed=number)
    for number in range(2):
        whole = (root / "cat" / f"{number * 10:03}.jpg").read_bytes()
        (root / "cat" / f"cut{number}.jpg").write_bytes(whole[: len(whole) // 3])
    return root


@pytest.fixture(scope="session")
def pipeline() -> Pipeline:
    """Random crops of pictures and clips, to floats."""
    return Pipeline(
        [
            ops.DecodeImage(),
            ops.DecodeVideo(frames=4, sampling="random"),
            ops.RandomResizedCrop(SIDE, fields=("image", "video")),
            ops.RandomHorizontalFlip(0.5, fields=("image", "video")),
            ops.ColorJitter(brightness=0.2),
            ops.ToFloat(fields=("image", "video")),
            ops.Normalize(
                mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), fields=("image", "video")
            ),
        ]
    )
