"""SPDL: one pipeline of threads in the training process; Pillow decodes.

SPDL's own decoder needs FFmpeg's shared libraries of the system, which are not part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
from spdl.pipeline import PipelineBuilder

from bench.peers.serving import BATCH, READY, Settings, serve
from bench.pictures import SIDE, write_crop

_draw = Random()


def batches(folder: Path, settings: Settings) -> Iterator[np.ndarray]:
    """Yield batches of ``threads``; each makes samples, or whole batches."""
    files, threads = sorted(folder.glob("*.jpg")), settings["threads"]
    builder = PipelineBuilder()
    if settings["whole_batches"]:
        builder.add_source(_shuffled_batches(files)).pipe(
            _batch, concurrency=threads, output_order="input"
        )
    else:
        builder.add_source(_shuffled(files)).pipe(
            _sample, concurrency=threads, output_order="input"
        ).aggregate(BATCH).pipe(np.stack)
    pipeline = builder.add_sink(READY).build(num_threads=threads)
    with pipeline.auto_stop():
        yield from pipeline


def _shuffled(files: Sequence[Path]) -> Iterator[Path]:
    while True:
        yield from _draw.sample(files, len(files))


def _shuffled_batches(files: Sequence[Path]) -> Iterator[list[Path]]:
    order = _shuffled(files)
    while True:
        yield [next(order) for _ in range(BATCH)]


def _sample(file: Path) -> np.ndarray:
    out = np.empty((3, SIDE, SIDE), np.float32)
    write_crop(file.read_bytes(), _draw, out)
    return out


def _batch(files: Sequence[Path]) -> np.ndarray:
    out = np.empty((len(files), 3, SIDE, SIDE), np.float32)
    for file, row in zip(files, out, strict=True):
        write_crop(file.read_bytes(), _draw, row)
    return out


if __name__ == "__main__":
    serve(batches)
