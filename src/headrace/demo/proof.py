"""Digests of batches: the proof that both loaders hand over the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from headrace.core.digest import Buffer, payload_digest
from headrace.core.record import AnyArray, Value


def batch_digest(
    columns: Mapping[str, AnyArray | list[Value]], rows: Callable[[str], AnyArray]
) -> str:
    """Return a digest of every column, every byte, and which rows the columns belong to."""
    return f"{payload_digest(_parts(columns, rows)):016x}"


def _parts(
    columns: Mapping[str, AnyArray | list[Value]], rows: Callable[[str], AnyArray]
) -> Iterator[Buffer]:
    for name in sorted(columns):
        yield name.encode()
        yield np.ascontiguousarray(rows(name), dtype=np.int64).tobytes()
        column = columns[name]
        for value in [column] if isinstance(column, np.ndarray) else column:
            yield from _value(value)


def _value(value: Value) -> Iterator[Buffer]:
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        yield f"{array.dtype.str}{array.shape}".encode()
        yield array.reshape(-1).view(np.uint8).data if array.size else b""
    else:
        yield repr(value).encode()
