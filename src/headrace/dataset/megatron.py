"""Scans Megatron's token files: a ``.bin`` of tokens and the ``.idx`` beside it.

Each document is a sample, or, where a window is asked for, each window of tokens. A sample's
members are its parts, each of one document; their bytes joined are its tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.errors import CorruptDataError, HeadraceError
from headrace.dataset.cost import text_cost
from headrace.dataset.rows import Rows, rows_of
from headrace.dataset.scan import Scan, ScanSource
from headrace.dataset.tokenindex import Longs, TokenIndex, read_token_index
from headrace.dataset.windows import Spans, cut_documents, cut_windows

INDEX_BYTES = 4 * 1024 * 1024 * 1024
"""Largest ``.idx`` that is read [bytes]."""


def scan_megatron(source: ScanSource) -> Scan:
    """Yield the samples of a token file, many at a time."""
    options = source.options
    try:
        index = _token_index(source)
        cut = (
            cut_documents(index)
            if options.window is None
            else cut_windows(index, options.window, options.document_seed)
        )
        yield from _samples(source, index.dtype, cut)
    except (HeadraceError, pa.ArrowException) as error:
        yield source.broken(str(error))


def index_path(path: str) -> str:
    """Return where the ``.idx`` of a ``.bin`` lies."""
    return f"{path[:-4]}.idx"


def _token_index(source: ScanSource) -> TokenIndex:
    path = index_path(source.file.path)
    size = source.storage.stat(path).size
    if size > INDEX_BYTES:
        raise CorruptDataError(f"the .idx beside it has more than {INDEX_BYTES >> 30} GiB")
    return read_token_index(source.storage.read(path, 0, size), source.file.size)


def _samples(source: ScanSource, dtype: str, cut: Iterator[Spans]) -> Iterator[Rows]:
    done = 0
    for spans in cut:
        yield _rows(source, dtype, spans, done)
        done += spans.counts.size


def _rows(source: ScanSource, dtype: str, spans: Spans, done: int) -> Rows:
    count = spans.counts.size
    bounds = np.concatenate(([0], np.cumsum(spans.counts)))
    numbers = pa.array(np.arange(done, done + count))
    lengths = np.add.reduceat(spans.lengths, bounds[:-1])
    file = source.file
    columns = {
        "key": pc.binary_join_element_wise(f"{file.path}#", numbers.cast(pa.string()), ""),
        "kind": _same("text", count),
        "container": _same("megatron", count),
        "file": _same(file.path, count),
        "file_size": _same(file.size, count),
        "file_version": _same(file.version, count),
        "offset": pa.array(spans.offsets[bounds[:-1]]),
        "length": pa.array(lengths),
        "fields": _layouts(dtype, spans.counts),
        "member_offsets": _lists(bounds, spans.offsets),
        "member_lengths": _lists(bounds, spans.lengths),
        "row": numbers,
        "block": _same(-1, count),
        "cost_s": pa.array(lengths * text_cost(1)),
    }
    return rows_of(columns, count)


def _same(value: str | int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), count)


def _lists(bounds: Longs, values: Longs) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pa.array(values))


def _layouts(dtype: str, counts: Longs) -> pa.Array:
    """Return the layout of each sample's members; there are as many as different counts."""
    distinct, codes = np.unique(counts, return_inverse=True)
    layouts = [msgspec.json.encode([("tokens", dtype)] * n).decode() for n in distinct.tolist()]
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(layouts))
