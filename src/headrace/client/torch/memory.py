"""Where batches for PyTorch lie: pinned where there is a CUDA device, so that copies overlap."""

from __future__ import annotations

import torch

from headrace.client.memory import Allocate, Octets, plain


def batch_memory() -> Allocate:
    """Return what allocates batches on this host."""
    return pinned if torch.cuda.is_available() else plain


def pinned(nbytes: int) -> Octets:
    """Return uninitialised page-locked memory."""
    memory: Octets = torch.empty(nbytes, dtype=torch.uint8, pin_memory=True).numpy()
    return memory
