"""torch's DataLoader: worker processes that decode with Pillow, and its own collation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler

from bench.peers.serving import BATCH, READY, Settings, serve
from bench.pictures import SIDE, write_crop

_LONG = 1 << 20
"""Samples of an epoch: it outlasts the benchmark, as the end of one has every loader wait."""


class Pictures(Dataset[torch.Tensor]):
    """One crop of each file."""

    def __init__(self, folder: Path) -> None:
        self._files = sorted(folder.glob("*.jpg"))
        self._draw = Random()

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, number: int) -> torch.Tensor:
        """Return one normalised crop."""
        out = np.empty((3, SIDE, SIDE), np.float32)
        write_crop(self._files[number].read_bytes(), self._draw, out)
        return torch.from_numpy(out)


def batches(folder: Path, settings: Settings) -> Iterator[torch.Tensor]:
    """Yield batches of ``workers`` processes."""
    pictures, workers = Pictures(folder), settings["workers"]
    loader = DataLoader(
        pictures,
        batch_size=BATCH,
        sampler=RandomSampler(pictures, num_samples=_LONG),
        num_workers=workers,
        prefetch_factor=max(2, READY // workers),
        persistent_workers=True,
    )
    return iter(loader)


if __name__ == "__main__":
    serve(batches)
