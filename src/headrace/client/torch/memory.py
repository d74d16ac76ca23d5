"""Where batches for PyTorch lie: pinned where there is a CUDA device, so that copies overlap."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from headrace.client.tail import Memory
from headrace.core.record import AnyArray


def batch_memory() -> Memory:
    """Return what allocates batches on this host."""
    return pinned if torch.cuda.is_available() else np.empty


def pinned(shape: tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
    """Return uninitialised page-locked memory as an array; torch's cache of it is used again."""
    wanted = np.dtype(dtype)
    nbytes = int(np.prod(shape, dtype=np.int64)) * wanted.itemsize
    memory = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)
    array: AnyArray = memory.numpy().view(wanted).reshape(shape)
    return array
