"""Random events, as fast as arrays are made, and the same as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from headrace.trace.events import Kind, arrow_schema

KINDS = np.array([kind.value for kind in Kind])
BEGIN_NS = 1_700_000_000_000_000_000


def random_batch(
    rows: int, seed: int, *, ranks: int = 8, files: int = 50, span_ns: int = 10**11
) -> pa.RecordBatch:
    """Events of all kinds with nulls where columns may have them."""
    rng = np.random.default_rng(seed)

    def nullable(values: Any) -> pa.Array:
        return pa.array(values, mask=rng.random(rows) < 0.1)

    rank = rng.integers(0, ranks, rows)
    columns: dict[str, Any] = {
        "kind": pa.array(KINDS[rng.integers(0, KINDS.size, rows)]),
        "begin_ns": pa.array(BEGIN_NS + rng.integers(0, span_ns, rows)),
        "duration_ns": nullable(rng.lognormal(15, 2, rows).astype(np.int64)),
        "name": nullable(np.array(["read", "open", "stat"])[rng.integers(0, 3, rows)]),
        "job": pa.array(["j"] * rows),
        "host": pa.array(np.char.add("h", (rank // 2).astype(str))),
        "rank": nullable(rank),
        "pid": pa.array(rank + 1000),
        "phase": nullable(np.array(["initialisation", "iteration"])[rng.integers(0, 2, rows)]),
        "step": nullable(rng.integers(0, 20, rows)),
        "sample": nullable(np.char.add("s", rng.integers(0, files, rows).astype(str))),
        "file": nullable(np.char.add("/d/f", rng.integers(0, files, rows).astype(str))),
        "bytes": nullable(rng.lognormal(10, 3, rows).astype(np.int64)),
        "is_write": nullable(rng.random(rows) < 0.2),
        "count": pa.array(rng.integers(1, 4, rows), mask=rng.random(rows) < 0.8),
    }
    return pa.RecordBatch.from_arrays(
        [
            columns.get(field.name, pa.nulls(rows, field.type)).cast(field.type)
            for field in arrow_schema()
        ],
        schema=arrow_schema(),
    )
