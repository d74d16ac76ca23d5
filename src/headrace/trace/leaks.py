"""Looks for words of a trace in what was to be anonymised of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.core.errors import CorruptDataError
from headrace.trace.wellknown import known_tokens, tokens

SHOWN_WORDS = 5
"""Words that an error names."""

_PENDING = 1 << 20


class Words:
    """The words of all names of a trace, 8 bytes for each."""

    def __init__(self) -> None:
        self._known = known_tokens()
        self._digests: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._pending: list[int] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in the words of a batch, but for those that are well known."""
        self._pending.extend(map(hash, self._own(batch)))
        if len(self._pending) >= _PENDING:
            self._settle()

    def require_absent(self, path: Path) -> None:
        """Return if none of the words is in a Parquet file of events.

        Raises:
            CorruptDataError: some are.
        """
        self._settle()
        found: set[str] = set()
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                found |= self._common(batch)
        if found:
            shown = ", ".join(repr(word) for word in sorted(found)[:SHOWN_WORDS])
            raise CorruptDataError(
                f"words of the original's names are still in the anonymised trace: {len(found)}, "
                f"such as {shown}; nothing was written; please report it, without them"
            )

    def _common(self, batch: pa.RecordBatch) -> set[str]:
        words = list(self._own(batch))
        digests = np.array([hash(word) for word in words], np.int64)
        return {words[place] for place in np.flatnonzero(np.isin(digests, self._digests)).tolist()}

    def _own(self, batch: pa.RecordBatch) -> set[str]:
        words = {word for text in _texts(batch) for word in tokens(text)}
        return words - self._known

    def _settle(self) -> None:
        digests = np.array(self._pending, np.int64)
        self._digests = np.union1d(self._digests, digests)
        self._pending.clear()


def _texts(batch: pa.RecordBatch) -> Iterator[str]:
    """Yield each text of each column once."""
    for column in batch.columns:
        texts = column.keys if pa.types.is_map(column.type) else column
        if pa.types.is_string(texts.type):
            yield from filter(None, texts.unique().to_pylist())
