"""Finds the safetensors files that a URL names, and reads their headers and tensors' bytes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.checkpoint.huggingface import INDEX_SUFFIX, read_index
from headrace.checkpoint.jsonobject import shown
from headrace.checkpoint.naming import is_plain
from headrace.checkpoint.safetensors import (
    HEAD_BYTES,
    Header,
    TensorEntry,
    header_length,
    parse_header,
)
from headrace.checkpoint.safetensors_folder import SUFFIX
from headrace.client.checkpoint.coalescing import FetchLimits
from headrace.client.checkpoint.fetch import RangeFetcher
from headrace.client.checkpoint.tally import FetchStatistics
from headrace.core.errors import CallerError, CorruptDataError, NotFoundError
from headrace.storage.opening import open_storage
from headrace.storage.port import FileInfo, FileRange, Storage

Octets = npt.NDArray[np.uint8]
"""uint8 [n], writable, and aligned for any type of numbers."""

_SINGLE = "model" + SUFFIX
_INDEX = "model" + INDEX_SUFFIX
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

    def __init__(
        self,
        storage: Storage,
        files: Mapping[str, FileInfo],
        *,
        homes: Mapping[str, str] | None,
        limits: FetchLimits,
    ) -> None:
        """Read nothing yet.

        Args:
            storage: Where the files are; closed with this.
            files: Those with tensors, by path.
            homes: Which of them each tensor is in, as an index tells; None: headers tell.
            limits: How bytes are read.
        """
        self._storage = storage
        self._files = files
        self._fetcher = RangeFetcher(storage, limits)
        self._lock = threading.Lock()
        self._headers: dict[str, Header] = {}
        self._entries: dict[str, tuple[str, TensorEntry]] = {}
        self._homes = homes
        self._tensors = 0

    def names(self) -> list[str]:
        """Return all tensors' names, by file and offset, or in the index's order."""
        if self._homes is not None:
            return list(self._homes)
        self._require_headers(self._files)
        return list(self._entries)

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
        return [self._entries[name][1] for name in names]

    def read(self, blocks: Sequence[Block]) -> Iterator[tuple[int, Octets]]:
        """Yield the index and the bytes of each block, in the order in which they come.

        Each has memory of its own, and what was yielded is not held here. The tensors must have
        been described before.

        Raises:
            StorageError: bytes cannot be read.
        """
        wanted = [self._range(block) for block in blocks]
        with self._lock:
            self._tensors += len(blocks)
        for index, view in self._fetcher.fetch(wanted):
            yield index, _owned(view)

    def statistics(self) -> SafetensorsStatistics:
        """Return what was read up to now."""
        return SafetensorsStatistics(
            files=len(self._headers), tensors=self._tensors, fetch=self._fetcher.statistics()
        )

    def close(self) -> None:
        """Close the store; nothing can be read afterwards, and what was read stays."""
        self._storage.close()

    def _range(self, block: Block) -> FileRange:
        path, entry = self._entries[block.name]
        return FileRange(path, entry.offset + block.offset, block.length)

    def _require_headers_of(self, names: Sequence[str]) -> None:
        """Read the headers of the files that some tensors are in, and require that they are."""
        if self._homes is None:
            self._require_headers(self._files)
        known: Mapping[str, object] = self._entries if self._homes is None else self._homes
        for name in names:
            if name not in known:
                raise CallerError(self._unknown(name, list(known)))
        if self._homes is not None:
            self._require_headers({self._homes[name] for name in names})
            for name in names:
                self._require_at_home(name, self._homes[name])

    def _require_at_home(self, name: str, home: str) -> None:
        if name not in self._entries or self._entries[name][0] != home:
            raise CorruptDataError(
                f"{self._storage.url}: its index says that tensor {shown(name)} is in {home}, "
                "which has none of that name; save the checkpoint again"
            )

    def _require_headers(self, paths: Iterable[str]) -> None:
        """Read the headers that are not known yet, all at once."""
        with self._lock:
            lacking = [path for path in paths if path not in self._headers]
            if not lacking:
                return
            for path, header in zip(lacking, self._read_headers(lacking), strict=True):
                for entry in header.tensors:
                    self._require_new(entry.name, path)
                    self._entries[entry.name] = (path, entry)
                self._headers[path] = header

    def _require_new(self, name: str, path: str) -> None:
        other = self._entries.get(name, (path,))[0]
        if other != path:
            raise CorruptDataError(
                f"{self._storage.url}: {other} and {path} both have a tensor {shown(name)}; name "
                "one of the files instead of their folder"
            )

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

    def _unknown(self, name: str, known: list[str]) -> str:
        near = get_close_matches(name, known[:_MOST_COMPARED], n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {len(known)}, see keys()"
        return f"no tensor {shown(name)} in {self._storage.url}; {hint}"


def open_source(url: str, *, limits: FetchLimits | None = None) -> TensorSource:
    """Open the safetensors files that a URL names.

    Args:
        url: A file, or a folder: one with an index (``model.safetensors.index.json``), with
            ``model.safetensors``, or else with any safetensors files.
        limits: How bytes are read.

    Raises:
        CallerError: the scheme is not supported.
        NotFoundError: there is no such file or folder, or no safetensors file in it.
        CorruptDataError: the index is damaged or hostile.
        StorageError: the store cannot be reached.
    """
    is_file = url.endswith(SUFFIX)
    name = url.rpartition("/")[2] if is_file else ""
    storage = open_storage(url.removesuffix(name) or ".")
    try:
        files, homes = _one(storage, name) if is_file else _all(storage)
    except BaseException:
        storage.close()
        raise
    return TensorSource(storage, files, homes=homes, limits=limits or FetchLimits())


def _owned(view: memoryview) -> Octets:
    """Return bytes that were read with others in memory of their own; long ones have their own."""
    octets = np.frombuffer(view, np.uint8)
    return octets if octets.flags.writeable else octets.copy()


_Found = tuple[dict[str, FileInfo], dict[str, str] | None]
"""Files by path, and which of them each tensor is in; None: headers tell."""


def _one(storage: Storage, name: str) -> _Found:
    return {name: storage.stat(name)}, None


def _all(storage: Storage) -> _Found:
    index = _stat(storage, _INDEX)
    if index is not None:
        homes = read_index(storage, "", index)
        return {path: storage.stat(path) for path in sorted(set(homes.values()))}, homes
    single = _stat(storage, _SINGLE)
    files = [info for info in storage.list() if is_plain(info.path, SUFFIX)] if not single else []
    if not single and not files:
        raise NotFoundError(f"no safetensors file in {storage.url}; name the folder that has some")
    return {info.path: info for info in ([single] if single else files)}, None


def _stat(storage: Storage, path: str) -> FileInfo | None:
    try:
        return storage.stat(path)
    except NotFoundError:
        return None
