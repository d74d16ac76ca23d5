"""Reads headers of safetensors files, and the bytes of some of their tensors."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.checkpoint.jsonobject import shown
from headrace.checkpoint.safetensors import (
    HEAD_BYTES,
    Header,
    TensorEntry,
    header_length,
    parse_header,
)
from headrace.client.checkpoint.checkpointlog import CheckpointLog, open_log
from headrace.client.checkpoint.coalescing import FetchLimits
from headrace.client.checkpoint.fetch import RangeFetcher
from headrace.client.checkpoint.tally import FetchStatistics
from headrace.client.checkpoint.tensorfiles import Contents, TensorFiles, find_files
from headrace.core.errors import CallerError
from headrace.storage.port import FileRange

Octets = npt.NDArray[np.uint8]
"""uint8 [n], writable, and aligned for any type of numbers."""

_MOST_COMPARED = 20_000


class Block(NamedTuple):
    """Consecutive bytes of one tensor."""

    name: str
    offset: int
    """From the tensor's first byte on."""

    length: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SafetensorsStatistics:
    """What was read of safetensors files up to now."""

    files: int = 0
    """Files whose headers were read."""

    tensors: int = 0
    """Tensors and slices of tensors that were read."""

    fetch: FetchStatistics = field(default_factory=FetchStatistics)
    """Of all requests, those for headers among them."""

    @property
    def requests_per_tensor(self) -> float:
        """Requests for each tensor: below 1 where neighbours were read together."""
        return self.fetch.requests / self.tensors if self.tensors else 0.0

    def __str__(self) -> str:
        fetch = self.fetch
        return (
            f"{self.tensors} tensors of {self.files} files, {fetch.wanted_bytes / 1e6:.1f} MB in "
            f"{fetch.wall_s:.2f} s: {fetch.requests} requests ({self.requests_per_tensor:.2f} for "
            f"each tensor) of {fetch.bytes_per_request / 1e6:.2f} MB, {fetch.retries} again, "
            f"{fetch.round_trip_share:.0%} of their time in round trips"
        )


class TensorSource:
    """The tensors of one safetensors file, or of several with or without an index. Thread-safe.

    Headers are read when they are needed, each in one request.
    """

    def __init__(self, found: TensorFiles, limits: FetchLimits, log: CheckpointLog) -> None:
        """Read the index, if there is one.

        Args:
            found: The files; their store is closed with this.
            limits: How bytes are read.
            log: Records what is read.

        Raises:
            NotFoundError: a file that the index names is not there.
            CorruptDataError: the index is damaged or hostile.
            StorageError: it cannot be read.
        """
        self._storage = found.storage
        self._homes = found.read_homes()
        self._files = found.present if self._homes is None else found.named(self._homes)
        self._fetcher = RangeFetcher(found.storage, limits, log=log)
        self._log = log
        self._lock = threading.Lock()
        self._headers: dict[str, Header] = {}
        self._contents = Contents(found.storage.url, self._homes)
        self._tensors = 0

    def names(self) -> list[str]:
        """Return all tensors' names, by file and offset, or in the index's order."""
        if self._homes is None:
            self._require_headers(self._files)
        return self._contents.names()

    def metadata(self) -> dict[str, str] | None:
        """Return the texts that the headers carry, the last file's of one name; None: none do."""
        self._require_headers(self._files)
        found: dict[str, str] = {}
        for path in self._files:
            found.update(self._headers[path].metadata or {})
        return found or None

    def entries(self, names: Sequence[str]) -> list[TensorEntry]:
        """Describe some tensors.

        Raises:
            CallerError: there is none of a name; names the nearest.
            CorruptDataError: the header of a file is damaged, or the index says what is not so.
            StorageError: a header cannot be read.
        """
        self._require_headers_of(names)
        return [self._contents.place(name)[1] for name in names]

    def read(self, blocks: Sequence[Block]) -> Iterator[tuple[int, Octets]]:
        """Yield the index and the bytes of each block, in the order in which they come.

        Each has memory of its own, and what was yielded is not held here. The tensors must have
        been described before.

        Raises:
            StorageError: bytes cannot be read.
        """
        begin, wanted = time.monotonic(), [self._range(block) for block in blocks]
        with self._lock:
            self._tensors += len(blocks)
        for index, view in self._fetcher.fetch(wanted):
            yield index, _owned(view)
        nbytes = sum(one.length for one in wanted)
        self._log.read(begin, nbytes, {"tensors": len(blocks)})

    def statistics(self) -> SafetensorsStatistics:
        """Return what was read up to now."""
        return SafetensorsStatistics(
            files=len(self._headers), tensors=self._tensors, fetch=self._fetcher.statistics()
        )

    def close(self) -> None:
        """Close the store; nothing can be read afterwards, and what was read stays."""
        self._storage.close()
        self._log.leave()

    def _range(self, block: Block) -> FileRange:
        path, entry = self._contents.place(block.name)
        return FileRange(path, entry.offset + block.offset, block.length)

    def _require_headers_of(self, names: Sequence[str]) -> None:
        """Read the headers of the files that some tensors are in."""
        if self._homes is None:
            self._require_headers(self._files)
        for name in names:
            if name not in self._contents:
                raise CallerError(self._unknown(name))
        if self._homes is not None:
            self._require_headers({self._homes[name] for name in names})

    def _require_headers(self, paths: Iterable[str]) -> None:
        """Read the headers that are not known yet, all at once."""
        with self._lock:
            lacking = [path for path in paths if path not in self._headers]
            if not lacking:
                return
            for path, header in zip(lacking, self._read_headers(lacking), strict=True):
                self._contents.add(path, header)
                self._headers[path] = header

    def _read_headers(self, paths: Sequence[str]) -> list[Header]:
        """Return files' headers: of most of them, one read brings the whole."""
        infos = [self._files[path] for path in paths]
        heads = self._fetch([FileRange(info.path, 0, min(HEAD_BYTES, info.size)) for info in infos])
        lengths = [
            header_length(head, file=info.path, size=info.size)
            for info, head in zip(infos, heads, strict=True)
        ]
        rests = self._fetch(
            [
                FileRange(info.path, len(head), max(0, length - len(head)))
                for info, head, length in zip(infos, heads, lengths, strict=True)
            ]
        )
        return [
            parse_header(head + rest, file=info.path, size=info.size)
            for info, head, rest in zip(infos, heads, rests, strict=True)
        ]

    def _fetch(self, wanted: Sequence[FileRange]) -> list[bytes]:
        """Return the bytes of some ranges, in their order."""
        found = {index: bytes(view) for index, view in self._fetcher.fetch(wanted)}
        return [found[index] for index in range(len(wanted))]

    def _unknown(self, name: str) -> str:
        known = self._contents.names()
        near = get_close_matches(name, known[:_MOST_COMPARED], n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {len(known)}, see keys()"
        return f"no tensor {shown(name)} in {self._storage.url}; {hint}"


def open_source(
    url: str, *, limits: FetchLimits | None = None, trace: str | os.PathLike[str] | bool = True
) -> TensorSource:
    """Open the safetensors files that a URL names.

    Args:
        url: As ``find_files`` takes it.
        limits: How bytes are read.
        trace: Where that is recorded, as of :class:`headrace.Loader`.

    Raises:
        CallerError: the scheme is not supported.
        NotFoundError: there is no such file or folder, or no safetensors file in it.
        CorruptDataError: the index is damaged or hostile.
        StorageError: the store cannot be reached.
    """
    with ExitStack() as opened:
        log = opened.enter_context(open_log(url, trace))
        found = opened.enter_context(find_files(url))
        source = TensorSource(found, limits or FetchLimits(), log)
        opened.pop_all()  # the source closes them
    return source


def _owned(view: memoryview) -> Octets:
    """Return bytes that were read with others in memory of their own; long ones have their own."""
    octets = np.frombuffer(view, np.uint8)
    return octets if octets.flags.writeable else octets.copy()
