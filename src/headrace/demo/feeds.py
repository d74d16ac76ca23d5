"""The loaders that a demo compares, behind one face: headrace's own, and torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from headrace.core.record import AnyArray, Value
from headrace.demo.protocol import SegmentEnd


@dataclass(frozen=True, kw_only=True, slots=True)
class Fed:
    """One batch, whoever made it."""

    step: int
    size: int
    columns: Mapping[str, AnyArray | list[Value]]
    rows: Callable[[str], AnyArray]
    """Field → which rows of the batch its column's entries belong to, ``int64``."""


class Feed(AbstractContextManager["Feed"], Protocol):
    """Yields the batches of a plan, from its first step on."""

    def __iter__(self) -> Iterator[Fed]: ...

    def ready_batches(self) -> int:
        """Return how many batches lie ready now."""
        ...

    def end(self) -> SegmentEnd:
        """Tell what became of the samples so far."""
        ...
