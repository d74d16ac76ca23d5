"""What tests compare: the digest of every batch of an epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from headrace import Batch, Loader
from headrace.core.digest import name_digest


def digest(batch: Batch) -> str:
    state = hashlib.sha256()
    for name in sorted(batch):
        column = batch[name]
        values = [column] if isinstance(column, np.ndarray) else column
        for value in values:
            described = (name, getattr(value, "dtype", type(value)), getattr(value, "shape", ()))
            state.update(repr(described).encode())
            state.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
    return state.hexdigest()[:16]


def rows(batch: Batch) -> list[str]:
    """Name every byte of each row."""
    texts = [f"{sample}:" for sample in batch["sample"].tolist()]
    for name in sorted(batch):
        for row, value in zip(batch.rows(name).tolist(), batch[name], strict=True):
            texts[row] += f"{name}={np.asarray(value).tobytes()!r}"
    return [name_digest(text.encode()) for text in texts]


def digests(batches: Iterable[Batch]) -> list[str]:
    return [digest(batch) for batch in batches]


@contextmanager
def loading(dataset: Path | str, **options: Any) -> Iterator[Loader]:
    """Make a loader; no agent is too late for it because the machine is busy."""
    usual = {"batch_size": 6, "seed": 3, "workers": 2, "patience_s": 10.0}
    with Loader(dataset, **{**usual, **options}) as loader:
        yield loader


def epoch(dataset: Path | str, **options: Any) -> list[str]:
    """Return the digests of the first epoch."""
    with loading(dataset, **options) as loader:
        return digests(loader)
