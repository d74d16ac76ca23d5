"""Reads safetensors files whole, with all that is known of them asked for at once.

Nothing is asked for after something else has come: files are read from their first byte to their
last without waiting for their headers, together with the index that says which of them are wanted.
Only files that the index names otherwise than files are usually named are read after it. Over a
line with a round trip of 30 ms, each wait for another answer costs 30 ms or, for a new connection,
three times as much.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from headrace.checkpoint.huggingface import parse_index
from headrace.checkpoint.safetensors import (
    DTYPES,
    LENGTH_BYTES,
    Header,
    TensorEntry,
    header_length,
    parse_header,
)
from headrace.client.checkpoint.checkpointlog import CheckpointLog
from headrace.client.checkpoint.coalescing import FetchLimits
from headrace.client.checkpoint.fetch import RangeFetcher
from headrace.client.checkpoint.tensorfiles import Contents, TensorFiles
from headrace.client.checkpoint.tensorsource import Octets
from headrace.storage.port import FileInfo, FileRange


def read_whole(
    found: TensorFiles,
    *,
    limits: FetchLimits,
    check: Callable[[TensorEntry], None],
    log: CheckpointLog,
) -> list[tuple[TensorEntry, Octets]]:
    """Return all tensors with their bytes: by file and offset, or in the index's order.

    Bytes lie in the memory that their whole file was read into, aligned for their type, and are
    writable; only those that lie unaligned in the file are copied.

    Args:
        found: The files.
        limits: How bytes are read; the memory for all files comes on top.
        check: Refuses a tensor by raising; called as soon as the header has come.
        log: Records what is read.

    Raises:
        NotFoundError: a file is not there.
        CorruptDataError: a header or the index is damaged or hostile.
        StorageError: something cannot be read.
    """
    begin = time.monotonic()
    fetcher = RangeFetcher(found.storage, limits, log=log)
    whole = _WholeFiles(found, fetcher, limits.request_bytes, check)
    whole.read()
    tensors = whole.tensors()
    log.read(begin, whole.nbytes, {"tensors": len(tensors)})
    return tensors


class _WholeFiles:
    """Files as they come. For one thread."""

    def __init__(
        self,
        found: TensorFiles,
        fetcher: RangeFetcher,
        request_bytes: int,
        check: Callable[[TensorEntry], None],
    ) -> None:
        self._found = found
        self._fetcher = fetcher
        self._request_bytes = request_bytes
        self._check = check
        self._files: dict[str, _File] = {}
        self._homes: dict[str, str] | None = None
        self._named: Mapping[str, FileInfo] = {} if found.index else found.present

    @property
    def nbytes(self) -> int:
        """Read of files [bytes]."""
        return sum(file.nbytes for file in self._files.values())

    def read(self) -> None:
        """Read everything that is wanted."""
        self._fetch(self._found.likely.values(), self._found.index)
        self._fetch([info for path, info in self._named.items() if path not in self._files])

    def tensors(self) -> list[tuple[TensorEntry, Octets]]:
        """Return all tensors once everything was read."""
        contents = Contents(self._found.storage.url, self._homes)
        for path in self._named:
            header = self._files[path].header
            assert header is not None
            contents.add(path, header)
        places = map(contents.place, contents.names())
        return [(entry, self._files[path].octets_of(entry)) for path, entry in places]

    def _fetch(self, infos: Iterable[FileInfo], index: FileInfo | None = None) -> None:
        """Read some files, and the index before them."""
        files = [_File(info, self._request_bytes) for info in infos]
        self._files |= {file.path: file for file in files}
        parts = [part for file in files for part in file.parts]
        first = [] if index is None else [FileRange(index.path, 0, index.size)]
        wanted = first + [part.range for part in parts]
        into = {number: part.memory for number, part in enumerate(parts, len(first))}
        for number, view in self._fetcher.fetch(wanted, into):
            if number in into:
                part = parts[number - len(first)]
                part.came = True
                self._look_at(self._files[part.range.path])
            else:
                self._take_index(wanted[number].path, bytes(view))

    def _take_index(self, index: str, text: bytes) -> None:
        self._homes = parse_index(text, index)
        self._named = self._found.named(self._homes)
        for file in self._files.values():
            self._look_at(file)

    def _look_at(self, file: _File) -> None:
        """Refuse what is wrong with a file as early as it shows; one that nobody wants may be."""
        header = file.find_header() if file.path in self._named else None
        for entry in header.tensors if header else ():
            self._check(entry)


class _File:
    """One file, its memory and what came of it."""

    def __init__(self, info: FileInfo, request_bytes: int) -> None:
        self._info = info
        self._octets = np.empty(info.size, np.uint8)
        self._address = self._octets.ctypes.data
        self.parts = tuple(self._cut(request_bytes))

        self.header: Header | None = None
        """Once it was found."""

    @property
    def path(self) -> str:
        return self._info.path

    @property
    def nbytes(self) -> int:
        return self._info.size

    def find_header(self) -> Header | None:
        """Return the header the first time that it can be; it is None before and after."""
        if self.header is not None or not self.parts[0].came:
            return None
        is_whole = all(part.came for part in self.parts)
        known = self._octets.data if is_whole else self.parts[0].memory
        name, size = self._info.path, self._info.size
        is_told = is_whole or len(known) >= LENGTH_BYTES
        if is_told and header_length(known, file=name, size=size) <= len(known):
            self.header = parse_header(known, file=name, size=size)
        return self.header

    def octets_of(self, entry: TensorEntry) -> Octets:
        """Return a tensor's bytes, aligned; called once the file has come."""
        octets = self._octets[entry.offset : entry.offset + entry.length]
        item = max(1, DTYPES[entry.dtype].bits // 8)
        return octets if (self._address + entry.offset) % item == 0 else octets.copy()

    def _cut(self, request_bytes: int) -> Iterator[_Part]:
        """Yield parts of a request each, so that files take turns and many nodes are busy."""
        for begin in range(0, max(1, self._info.size), request_bytes):
            memory = self._octets.data[begin : begin + request_bytes]
            yield _Part(FileRange(self._info.path, begin, len(memory)), memory)


@dataclass(slots=True)
class _Part:
    """Consecutive bytes of a file."""

    range: FileRange
    memory: memoryview
    came: bool = False
