"""Finds the safetensors files that a URL names, and which of them each tensor is in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

from headrace.checkpoint.huggingface import INDEX_SUFFIX, parse_index, require_index_size
from headrace.checkpoint.jsonobject import shown
from headrace.checkpoint.naming import is_plain
from headrace.checkpoint.safetensors import Header, TensorEntry
from headrace.checkpoint.safetensors_folder import SUFFIX
from headrace.core.errors import CorruptDataError, NotFoundError
from headrace.storage.opening import open_storage
from headrace.storage.port import FileInfo, Storage

_SINGLE = "model" + SUFFIX
_INDEX = "model" + INDEX_SUFFIX
_NUMBERED = re.compile(r"model-(\d{5})-of-(\d{5})\.safetensors")


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorFiles:
    """The safetensors files of a URL; a context manager that closes their store."""

    storage: Storage
    """Where they are."""

    present: Mapping[str, FileInfo]
    """By path: those that are wanted, or of which the index names some."""

    index: FileInfo | None = None
    """Says which of them each tensor is in; its length is that of an index. None: headers say."""

    @property
    def likely(self) -> Mapping[str, FileInfo]:
        """Those that are wanted, as far as their names tell before the index is read."""
        if self.index is None:
            return self.present
        numbered = {path: found for path in self.present if (found := _NUMBERED.fullmatch(path))}
        is_complete = {int(found[2]) for found in numbered.values()} == {len(numbered)}
        return {path: self.present[path] for path in numbered} if is_complete else {}

    def named(self, homes: Mapping[str, str]) -> dict[str, FileInfo]:
        """Return the files that an index names, by path.

        Raises:
            NotFoundError: one is not there.
            AccessError: one is a link out of the folder.
        """
        wanted = sorted(set(homes.values()))
        for path in wanted:
            if path not in self.present:
                raise NotFoundError(
                    f"no {path} in {self.storage.url}, which its index names; copy it there, or "
                    "save the checkpoint again"
                )
        return {path: _readable(self.storage, self.present[path]) for path in wanted}

    def read_homes(self) -> dict[str, str] | None:
        """Return which file each tensor is in, as the index says; None: there is no index.

        Raises:
            CorruptDataError: the index is damaged or hostile.
            StorageError: it cannot be read.
        """
        if self.index is None:
            return None
        return parse_index(self.storage.read(_INDEX), _INDEX)

    def __enter__(self) -> TensorFiles:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.storage.close()


class Contents:
    """Which file each tensor is in, as headers tell. Not thread-safe."""

    def __init__(self, url: str, homes: Mapping[str, str] | None) -> None:
        """Know of no header yet.

        Args:
            url: Of the files' folder, for errors.
            homes: Which file each tensor is in, as an index tells; None: headers tell.
        """
        self._url = url
        self._homes = homes
        self._places: dict[str, tuple[str, TensorEntry]] = {}

    def add(self, path: str, header: Header) -> None:
        """Take in a file's header.

        Raises:
            CorruptDataError: another file has a tensor of the same name.
        """
        for entry in header.tensors:
            other = self._places.get(entry.name, (path,))[0]
            if other != path:
                raise CorruptDataError(
                    f"{self._url}: {other} and {path} both have a tensor {shown(entry.name)}; name "
                    "one of the files instead of their folder"
                )
            self._places[entry.name] = (path, entry)

    def names(self) -> list[str]:
        """Return all tensors' names: in the index's order, or else as the headers were added."""
        return list(self._places if self._homes is None else self._homes)

    def __contains__(self, name: str) -> bool:
        return name in (self._places if self._homes is None else self._homes)

    def place(self, name: str) -> tuple[str, TensorEntry]:
        """Return the file of a tensor, whose header was added, and where it lies there.

        Raises:
            CorruptDataError: the index says that it is in a file which has none of that name.
        """
        home = self._places[name][0] if self._homes is None else self._homes[name]
        if name not in self._places or self._places[name][0] != home:
            raise CorruptDataError(
                f"{self._url}: its index says that tensor {shown(name)} is in {home}, "
                "which has none of that name; save the checkpoint again"
            )
        return self._places[name]


def find_files(url: str) -> TensorFiles:
    """Find the safetensors files that a URL names.

    Args:
        url: A file, or a folder: one with an index (``model.safetensors.index.json``), with
            ``model.safetensors``, or else with any safetensors files.

    Raises:
        CallerError: the scheme is not supported.
        NotFoundError: there is no such file or folder, or no safetensors file in it.
        CorruptDataError: the index is longer than any is.
        StorageError: the store cannot be reached.
    """
    name = url.rpartition("/")[2] if url.endswith(SUFFIX) else ""
    storage = open_storage((url.removesuffix(name) or ".") if name else url)
    try:
        return _one(storage, name) if name else _all(storage)
    except BaseException:
        storage.close()
        raise


def _one(storage: Storage, name: str) -> TensorFiles:
    return TensorFiles(storage=storage, present={name: storage.stat(name)})


def _all(storage: Storage) -> TensorFiles:
    listed = {info.path: info for info in storage.list(hidden=False, recursive=False)}
    present = {path: info for path, info in listed.items() if is_plain(path, SUFFIX)}
    if (index := listed.get(_INDEX)) is not None:
        require_index_size(index, _INDEX)
        return TensorFiles(storage=storage, present=present, index=_readable(storage, index))
    if not present:
        raise NotFoundError(f"no safetensors file in {storage.url}; name the folder that has some")
    wanted = [present[_SINGLE]] if _SINGLE in present else present.values()
    return TensorFiles(
        storage=storage, present={info.path: _readable(storage, info) for info in wanted}
    )


def _readable(storage: Storage, info: FileInfo) -> FileInfo:
    """Return a file that was listed; a link that leads nowhere is listed as empty."""
    return info if info.size else storage.stat(info.path)
