"""The program of ``bench.tracing``: loops over a DataLoader and writes how long that took.

``python traced_loop.py FOLDER KIND WORKERS EPOCHS RESULT``
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

BATCH = 32
WARM_UP_S = 2.0


class Files(Dataset[torch.Tensor]):
    """Reads a file for each sample, and decodes it if it is a photograph."""

    def __init__(self, folder: Path, *, is_photo: bool) -> None:
        self._paths = sorted(folder.iterdir())
        self._is_photo = is_photo

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        with self._paths[index].open("rb") as file:
            data: Any = np.asarray(Image.open(file)) if self._is_photo else bytearray(file.read())
        return torch.as_tensor(np.array(data))


def main(folder: str, kind: str, workers: str, epochs: str, result: str) -> None:
    """Loop, after a while that does not count: the recorder begins in it."""
    dataset = Files(Path(folder), is_photo=kind == "photos")
    loader = DataLoader(
        dataset, BATCH, num_workers=int(workers), persistent_workers=bool(int(workers))
    )
    begin_s = time.perf_counter()
    while time.perf_counter() - begin_s < WARM_UP_S:
        _loop(loader, 1)
    begin_s = time.perf_counter()
    _loop(loader, int(epochs))
    Path(result).write_text(f"{time.perf_counter() - begin_s}")


def _loop(loader: DataLoader[torch.Tensor], epochs: int) -> None:
    for _ in range(epochs):
        for _batch in loader:
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])
