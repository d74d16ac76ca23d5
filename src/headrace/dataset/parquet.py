"""Scans Parquet files: a row with a medium or a text is a sample (``rowcolumns``)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.core.errors import HeadraceError
from headrace.dataset.leaves import leaf_column, require_distinct
from headrace.dataset.location import Member, SampleLocation
from headrace.dataset.parquetgroups import group_batches
from headrace.dataset.rowcolumns import (
    FieldColumn,
    choose_columns,
    class_names,
    no_columns,
    paths_of,
)
from headrace.dataset.rowsamples import Part, Row, RowSamples
from headrace.dataset.scan import ClassNames, Scan, ScanSource

BATCH_ROWS = 64
"""Rows whose media are in memory at once while headers are read [rows]."""


def scan_parquet(source: ScanSource) -> Scan:
    """Yield the rows of a Parquet file."""
    try:
        with source.open() as stream:
            file = pq.ParquetFile(stream)
            require_distinct(file.schema_arrow)
            columns = choose_columns(file.schema_arrow, source.options.text_field)
            if not columns:
                yield source.broken(no_columns(file.schema_arrow))
                return
            classes = class_names(file.schema_arrow, columns)
            yield ClassNames(source.file, classes)
            yield from _rows(file, columns, RowSamples(source, "parquet", columns, classes))
    except HeadraceError as error:
        yield source.broken(str(error))
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        yield source.broken(f"not a Parquet file that can be read: {str(error).strip()}")


def _rows(
    file: pq.ParquetFile, columns: tuple[FieldColumn, ...], samples: RowSamples
) -> Iterator[SampleLocation]:
    number = 0
    paths = paths_of(columns)
    for block in range(file.num_row_groups):
        chunks = _Chunks(file, block)
        row = 0
        for batch in group_batches(file, block, paths, BATCH_ROWS):
            arrays = {path: leaf_column(batch, path) for path in paths}
            for at in range(batch.num_rows):
                values = {path: array[at].as_py() for path, array in arrays.items()}
                yield samples.sample(Row(number, block, row, values), chunks.member)
                number, row = number + 1, row + 1


class _Chunks:
    """Where the columns of a row group lie.

    They are looked at once a batch was read, for the reason that ``group_batches`` has.
    """

    def __init__(self, file: pq.ParquetFile, block: int) -> None:
        self._file = file
        self._block = block
        self._places: dict[str, tuple[int, int]] = {}

    def member(self, part: Part) -> Member:
        """Return the chunk of a value's column; of a list, that of its first leaf."""
        path = part.column.path
        if path not in self._places:
            self._places[path] = self._place(path)
        offset, length = self._places[path]
        return Member(field=part.field, name=path, offset=offset, length=length)

    def _place(self, path: str) -> tuple[int, int]:
        leaves = self._file.schema
        at = next(at for at in range(len(leaves)) if f"{leaves[at].path}.".startswith(f"{path}."))
        chunk = self._file.metadata.row_group(self._block).column(at)
        if chunk.path_in_schema != leaves[at].path:
            raise ValueError(f"a row group has no chunk of its column {path!r}")
        start = chunk.data_page_offset
        if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
            start = min(start, chunk.dictionary_page_offset)
        return start, chunk.total_compressed_size
