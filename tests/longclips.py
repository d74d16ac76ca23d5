"""Small clips that an index calls costly, so that they are made in parts, among pictures."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pyarrow as pa
from PIL import Image

from headrace.dataset.build import build_index
from headrace.dataset.index import Index
from headrace.storage.opening import open_storage
from headrace.transform import ops
from headrace.transform.pipeline import Pipeline

PIPELINE = Pipeline(
    [
        ops.DecodeImage(),
        ops.DecodeVideo(frames=12),
        ops.RandomResizedCrop(24),
        ops.RandomHorizontalFlip(),
        ops.ToFloat(),
        ops.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
    ]
)
PARTS = 3
"""Parts in which ``long_clips`` has its clips made."""


def save_clip(
    path: Path, *, frames: int = 48, gop: int = 6, size: tuple[int, int] = (64, 48), seed: int = 0
) -> None:
    """Write a clip of a moving texture with libx264, 24 frames a second."""
    width, height = size
    texture = np.random.default_rng(seed).integers(0, 255, (height, 4 * width, 3), np.uint8)
    with av.open(str(path), "w") as output:
        options = {"g": str(gop), "bf": "2", "sc_threshold": "0", "preset": "ultrafast"}
        stream = output.add_stream("libx264", rate=24, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(frames):
            begin = 2 * number % (3 * width)
            picture = np.ascontiguousarray(texture[:, begin : begin + width])
            output.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        output.mux(stream.encode())


def long_clips(root: Path, *, clips: int = 2, pictures: int = 6) -> Path:
    """Make a dataset whose clips are made in ``PARTS``."""
    root.mkdir(parents=True)
    rng = np.random.default_rng(7)
    for number in range(pictures):
        pixels = rng.integers(0, 256, (40, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / f"p{number}.jpg")
    for number in range(clips):
        save_clip(root / f"v{number}.mp4", seed=number)
    set_costs(root, 1.4)
    return root


def set_costs(root: Path, cost_s: float) -> None:
    """Index a dataset anew, as if decoding every frame of any of its clips took so long."""
    storage = open_storage(str(root))
    index = build_index(storage)
    table = index.table
    costs = [
        cost_s if kind == "video" else cost
        for kind, cost in zip(
            table.column("kind").to_pylist(), table.column("cost_s").to_pylist(), strict=True
        )
    ]
    place = table.schema.get_field_index("cost_s")
    column = pa.array(costs, type=table.schema.field(place).type)
    Index(table.set_column(place, table.schema.field(place), column), index.meta).save(storage)
