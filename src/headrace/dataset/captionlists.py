"""Files that list the captions of media files, line by line.

``metadata.csv``, ``metadata.jsonl`` and ``metadata.parquet`` have a column ``file_name`` and one of
text, as Hugging Face's image folders do; ``captions.txt`` has a name, a tab and a caption in each
line. Names are relative to the list's folder.
"""

from __future__ import annotations

import codecs
import csv
import posixpath
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.core.errors import CorruptDataError
from headrace.dataset.media import TEXT_NAMES
from headrace.dataset.rowcolumns import is_text

LINE_BYTES = 1024 * 1024
"""Longest line of a list, and longest caption in a file of its own [bytes]."""

ROWS = 4096
"""Rows of a Parquet file that are in memory at once."""

FILE_NAME = "file_name"

Line = tuple[str, str | None]
"""Name of a file, and its caption if it has one."""


def caption_lines(path: str, stream: BinaryIO, text_field: str) -> Iterator[Line]:
    """Yield what a list says; its name tells its format.

    Raises:
        CorruptDataError: it is damaged from here on; says in which line.
    """
    return CAPTION_LISTS[posixpath.basename(path)](stream, text_field)


def _from_csv(stream: BinaryIO, text_field: str) -> Iterator[Line]:
    rows = csv.reader(_texts(stream), strict=True)
    try:
        header = next(rows, [])
        name, text = _columns(header, header, text_field)
        for row in rows:
            if len(row) != len(header):
                raise CorruptDataError(
                    f"line {rows.line_num} has {len(row)} fields, the first {len(header)}"
                )
            yield row[name], row[text] or None
    except csv.Error as error:
        raise CorruptDataError(f"line {rows.line_num}: {error}") from error


def _from_json_lines(stream: BinaryIO, text_field: str) -> Iterator[Line]:
    decoder = msgspec.json.Decoder(dict[str, object])
    for number, line in enumerate(_lines(stream), 1):
        if not line.strip():
            continue
        try:
            found = decoder.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise CorruptDataError(f"line {number} is not a JSON object: {error}") from error
        name, text = found.get(FILE_NAME), _first_text(found, text_field)
        if not isinstance(name, str):
            raise CorruptDataError(f"line {number} has no string {FILE_NAME!r}")
        yield name, text


def _from_parquet(stream: BinaryIO, text_field: str) -> Iterator[Line]:
    try:
        file = pq.ParquetFile(stream)
        strings = [column.name for column in file.schema_arrow if is_text(column.type)]
        columns = [strings[place] for place in _columns(strings, strings, text_field)]
        for batch in file.iter_batches(ROWS, columns=columns, use_threads=False):
            names, texts = (batch.column(name).cast(pa.large_string()) for name in columns)
            if (pc.max(pc.binary_length(texts)).as_py() or 0) > LINE_BYTES:
                raise CorruptDataError(f"a caption is longer than {LINE_BYTES >> 20} MiB")
            for name, text in zip(names.to_pylist(), texts.to_pylist(), strict=True):
                yield name or "", text or None
    except (pa.ArrowException, OSError, EOFError, ValueError, LookupError) as error:
        raise CorruptDataError(f"not a Parquet file that can be read: {error}") from error


def _from_tabbed(stream: BinaryIO, text_field: str) -> Iterator[Line]:  # noqa: ARG001 - one text
    for number, line in enumerate(_texts(stream), 1):
        name, tab, text = line.rstrip("\r\n").partition("\t")
        if name and not tab:
            raise CorruptDataError(f"line {number} has no tab between a name and a caption")
        if name:
            yield name, text or None


CAPTION_LISTS: dict[str, Callable[[BinaryIO, str], Iterator[Line]]] = {
    "metadata.csv": _from_csv,
    "metadata.jsonl": _from_json_lines,
    "metadata.parquet": _from_parquet,
    "captions.txt": _from_tabbed,
}
"""Name of a list → what reads it; of several in a folder the first says most."""


def _columns(names: Sequence[str], texts: Sequence[str], text_field: str) -> tuple[int, int]:
    """Return the places of the column of names and of that of captions."""
    if FILE_NAME not in names:
        raise CorruptDataError(f"it has no column {FILE_NAME!r}, but: {', '.join(names)}")
    others = [name for name in texts if name != FILE_NAME]
    wanted = (name for name in (text_field, *TEXT_NAMES) if name in others)
    text = next(wanted, others[0] if others else None)
    if text is None:
        raise CorruptDataError(f"it has no column of text beside {FILE_NAME!r}")
    return names.index(FILE_NAME), names.index(text)


def _first_text(found: dict[str, object], text_field: str) -> str | None:
    texts = {name: text for name, text in found.items() if isinstance(text, str) and text}
    texts.pop(FILE_NAME, None)
    wanted = (texts[name] for name in (text_field, *TEXT_NAMES) if name in texts)
    return next(wanted, next(iter(texts.values()), None))


def _texts(stream: BinaryIO) -> Iterator[str]:
    for number, line in enumerate(_lines(stream), 1):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise CorruptDataError(f"line {number} is not UTF-8: {error}") from error


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    number = 1
    while line := stream.readline(LINE_BYTES + 1):
        if len(line) > LINE_BYTES:
            raise CorruptDataError(f"line {number} is longer than {LINE_BYTES >> 20} MiB")
        yield line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        number += 1
