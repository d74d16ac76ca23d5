"""Looks into what a collate function returned: its bytes, and its tensors to be pinned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from copy import copy
from typing import Any

import numpy as np
import torch


def nbytes_of(value: Any) -> int:
    """Return the bytes of the tensors, arrays and texts in a batch."""
    return sum(
        leaf.nbytes if isinstance(leaf, torch.Tensor | np.ndarray) else len(leaf)
        for leaf in _leaves(value)
    )


def pinned(value: Any) -> Any:
    """Return a batch with its tensors in page-locked memory, as a ``DataLoader`` pins them.

    Mappings, lists and tuples are searched; anything else is asked for its ``pin_memory()``.
    """
    if isinstance(value, Mapping):
        return _like(value, {key: pinned(item) for key, item in value.items()})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(pinned, value))
    if type(value) in (list, tuple):
        return type(value)(map(pinned, value))
    return value.pin_memory() if hasattr(value, "pin_memory") else value


def _like(value: Mapping[Any, Any], items: dict[Any, Any]) -> Mapping[Any, Any]:
    """Return a mapping of the same type with these items in the place of its own."""
    if isinstance(value, MutableMapping):
        other = copy(value)  # some types cannot be made of their items alone
        for key, item in items.items():
            other[key] = item
        return other
    return type(value)(items)  # type: ignore[call-arg]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor | np.ndarray | str | bytes):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
