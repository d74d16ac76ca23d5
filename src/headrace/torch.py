"""PyTorch users' entrance: batches of tensors, loaders over datasets, checkpoints on any store.

What is for datasets of torch and for checkpoints is imported when it is asked for: torch takes two
seconds for its own part.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headrace.client.torch.batch import TensorBatch
from headrace.client.torch.loader import Loader

if TYPE_CHECKING:
    from headrace.client.torch.checkpoint.reader import CheckpointReader
    from headrace.client.torch.checkpoint.writer import CheckpointWriter
    from headrace.client.torch.mapstyle.errors import DatasetError
    from headrace.client.torch.wrap import WrappedLoader, wrap

__all__ = [
    "CheckpointReader",
    "CheckpointWriter",
    "DatasetError",
    "Loader",
    "TensorBatch",
    "WrappedLoader",
    "wrap",
]

_HOMES = {
    "CheckpointReader": "headrace.client.torch.checkpoint.reader",
    "CheckpointWriter": "headrace.client.torch.checkpoint.writer",
    "DatasetError": "headrace.client.torch.mapstyle.errors",
    "WrappedLoader": "headrace.client.torch.wrap",
    "wrap": "headrace.client.torch.wrap",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"headrace.torch has no {name!r}; it has {', '.join(__all__)}")
