"""MosaicML Streaming: shards of its own writer, and its dataset and loader; Pillow decodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import torch
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from streaming.base.util import clean_stale_shared_memory

from bench.peers.serving import BATCH, READY, Settings, serve
from bench.pictures import SIDE, write_crop

_LONG = 1 << 16
"""Samples of an epoch: it outlasts the benchmark, as the end of one has every loader wait."""


class Pictures(StreamingDataset):
    """One crop of each sample."""

    def __init__(self, shards: Path) -> None:
        super().__init__(local=str(shards), shuffle=True, batch_size=BATCH, epoch_size=_LONG)
        self._draw = Random()

    def __getitem__(self, at: int) -> torch.Tensor:
        """Return one normalised crop."""
        out = np.empty((3, SIDE, SIDE), np.float32)
        write_crop(super().__getitem__(at)["image"], self._draw, out)
        return torch.from_numpy(out)


def batches(folder: Path, settings: Settings) -> Iterator[torch.Tensor]:
    """Yield batches of ``workers`` processes."""
    clean_stale_shared_memory()
    shards, workers = folder.with_name("mds"), settings["workers"]
    if not shards.is_dir():
        write_shards(folder, shards)
    loader = StreamingDataLoader(
        Pictures(shards),
        batch_size=BATCH,
        num_workers=workers,
        prefetch_factor=max(2, READY // workers),
        persistent_workers=True,
    )
    return iter(loader)


def write_shards(folder: Path, shards: Path) -> None:
    """Write all photographs as they are."""
    with MDSWriter(out=str(shards), columns={"image": "bytes"}) as writer:
        for file in sorted(folder.glob("*.jpg")):
            writer.write({"image": file.read_bytes()})


if __name__ == "__main__":
    serve(batches)
