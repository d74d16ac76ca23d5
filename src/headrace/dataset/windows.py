"""Cuts a row of sequences into windows of tokens, as Megatron's GPT dataset does.

A window has one token more than a training sequence, and begins with the last token of the
window before. It goes on over the ends of documents; what is left at the end is not enough for
a window and is dropped. Pure arithmetic on arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headrace.dataset.tokenindex import Longs, TokenIndex

WINDOWS_AT_ONCE = 65_536
PARTS_AT_ONCE = 1_000_000
"""Windows, and parts of documents in them, that are in memory at once."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Parts of a ``.bin``, one after another, by window; each is of one document."""

    counts: Longs
    """Parts of each window, ``int64 [windows]``; at least 1."""

    offsets: Longs
    """First byte of each part, ``int64 [parts]``."""

    lengths: Longs
    """Bytes of each part, ``int64 [parts]``."""


def cut_documents(index: TokenIndex) -> Iterator[Spans]:
    """Yield each document that has tokens as one window."""
    row = _Row(index, np.arange(index.lengths.size, dtype=np.int64))
    bounds = row.starts[index.documents]
    filled = bounds[1:] > bounds[:-1]
    return row.cut(bounds[:-1][filled], bounds[1:][filled])


def cut_windows(index: TokenIndex, window: int, document_seed: int | None) -> Iterator[Spans]:
    """Yield the windows of ``window`` tokens each.

    Args:
        index: The sequences.
        window: Tokens of a window: the length of a training sequence plus 1.
        document_seed: Seed by which Megatron would shuffle the sequences for one epoch before it
            cuts (its ``random_seed``); None leaves them in the order of the file.
    """
    order = np.arange(index.lengths.size, dtype=np.int64)
    if document_seed is not None:
        np.random.RandomState(document_seed).shuffle(order)
    row = _Row(index, order)
    starts = np.arange(max(0, row.tokens - 1) // (window - 1), dtype=np.int64) * (window - 1)
    return row.cut(starts, starts + window)


class _Row:
    """Sequences laid end to end."""

    def __init__(self, index: TokenIndex, order: Longs) -> None:
        lengths = index.lengths[order]
        self._index = index
        self._order = order
        self._documents = np.searchsorted(index.documents, order, side="right")
        self.starts = np.concatenate(([0], np.cumsum(lengths)))
        """First token of each sequence in the row, and the end, ``int64 [sequences + 1]``."""

    @property
    def tokens(self) -> int:
        """Return how many tokens the row has."""
        return int(self.starts[-1])

    def cut(self, begins: Longs, ends: Longs) -> Iterator[Spans]:
        """Yield the spans of windows of the row, each from a token up to another."""
        at = 0
        while at < begins.size:
            some = slice(at, at + WINDOWS_AT_ONCE)
            first = np.searchsorted(self.starts, begins[some], side="right") - 1
            last = np.searchsorted(self.starts, ends[some], side="left")
            parts = np.cumsum(last - first)
            count = max(1, int(np.searchsorted(parts, PARTS_AT_ONCE, side="right")))
            some = slice(at, at + count)
            yield self._spans(begins[some], ends[some], first[:count], last[:count])
            at += count

    def _spans(self, begins: Longs, ends: Longs, first: Longs, last: Longs) -> Spans:
        """Return the spans of windows that reach from sequence ``first`` to before ``last``."""
        counts = last - first
        window = np.repeat(np.arange(counts.size), counts)
        place = np.arange(window.size) - np.repeat(np.cumsum(counts) - counts - first, counts)
        begin = np.maximum(self.starts[place], begins[window])
        end = np.minimum(self.starts[place + 1], ends[window])
        filled = end > begin
        window, place, begin, end = window[filled], place[filled], begin[filled], end[filled]
        size = self._index.token_bytes
        offsets = self._index.pointers[self._order[place]] + (begin - self.starts[place]) * size
        return self._joined(window, self._documents[place], offsets, (end - begin) * size)

    @staticmethod
    def _joined(window: Longs, document: Longs, offsets: Longs, lengths: Longs) -> Spans:
        """Join parts of one document that lie end to end in the file as well."""
        follows = (
            (window[1:] == window[:-1])
            & (document[1:] == document[:-1])
            & (offsets[1:] == offsets[:-1] + lengths[:-1])
        )
        heads = np.flatnonzero(np.concatenate(([True], ~follows)))
        counts = np.unique(window[heads], return_counts=True)[1]
        return Spans(counts, offsets[heads], np.add.reduceat(lengths, heads))
