"""A training state with all that one may hold, and how two of them are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64,
    torch.complex128, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
    torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2,
)  # fmt: skip


def numbers(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    """Any bits, but for bools."""
    count = torch.Size(shape).numel() * dtype.itemsize
    octets = torch.randint(
        0, 256, (count,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed)
    )
    octets = octets % 2 if dtype is torch.bool else octets
    return octets.view(dtype).reshape(shape)


def state(fill: Callable[[torch.dtype, tuple[int, ...]], torch.Tensor]) -> dict[str, Any]:
    """All that a training state may hold."""
    return {
        "types": {str(dtype): fill(dtype, (5, 3)) for dtype in DTYPES},
        "empty": fill(torch.float32, (0, 4)),
        "scalar": fill(torch.float32, ()),
        "turned": fill(torch.float32, (6, 7)).t(),
        "large": fill(torch.float32, (300, 700)),
        "largest": fill(torch.bfloat16, (500, 900)),
        "list": [1, fill(torch.int64, (3,)), {"deep": fill(torch.float32, (2, 2, 2, 2, 2))}],
        "objects": {"text": "a", "number": 1.5, "none": None, "tuple": (1, 2)},
    }


def random_state() -> dict[str, Any]:
    return state(lambda dtype, shape: numbers(dtype, *shape, seed=len(shape)))


def blank_state() -> dict[str, Any]:
    blank = state(lambda dtype, shape: torch.zeros(shape, dtype=dtype))
    return {**blank, "objects": dict.fromkeys(blank["objects"], "")}


def same(a: Any, b: Any) -> bool:
    """Equal in structure, and tensors bit by bit."""
    if isinstance(a, torch.Tensor):
        bits = [one.contiguous().reshape(-1).view(torch.uint8) for one in (a, b)]
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(*bits)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)
