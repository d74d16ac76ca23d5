"""What the ``index.json`` of an MDS directory promises of its shards."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from headrace.core.errors import CorruptDataError, HeadraceError
from headrace.dataset.index import FileProblem
from headrace.storage.port import FileInfo, Storage

MANIFEST = "index.json"

MANIFEST_BYTES = 256 * 1024 * 1024
"""Largest manifest that is read [bytes]."""


class Promise(msgspec.Struct, frozen=True):
    """What is said of one file."""

    basename: str
    """Path below the manifest's folder."""

    bytes: int
    hashes: dict[str, str] = {}
    """Algorithm → hexadecimal digest of the file."""


class _Shard(msgspec.Struct, frozen=True):
    format: str = ""
    raw_data: Promise | None = None
    zip_data: Promise | None = None


class _Manifest(msgspec.Struct, frozen=True):
    shards: tuple[_Shard, ...]


@dataclass(frozen=True, slots=True)
class Promises:
    """What all manifests of a dataset say."""

    files: dict[str, Promise] = field(default_factory=dict)
    """Path of a shard, compressed or not → what is said of it."""

    problems: tuple[FileProblem, ...] = ()
    """Manifests that cannot be understood, shards that are missing."""

    def are_kept_by(self, file: FileInfo) -> bool:
        """Whether a file has the size that was promised, if any was."""
        return file.path not in self.files or self.files[file.path].bytes == file.size


def read_promises(
    storage: Storage, manifests: Iterable[FileInfo], present: Collection[str]
) -> Promises:
    """Read the manifests of a dataset.

    Args:
        storage: The dataset.
        manifests: Files called ``index.json``; those that are no manifest of MDS are passed over,
            unless shards lie beside them.
        present: Paths of the files that are there.
    """
    files: dict[str, Promise] = {}
    problems: dict[str, FileProblem] = {}
    folders = {posixpath.dirname(path) for path in present}
    for manifest in manifests:
        folder = posixpath.dirname(manifest.path)
        try:
            shards = _shards(storage, manifest)
        except (HeadraceError, msgspec.DecodeError, RecursionError) as error:
            if folder in folders:
                problems[manifest.path] = _problem(manifest, f"cannot be read: {error}")
            continue
        for shard in shards:
            told = {_path(folder, file.basename): file for file in _files(shard)}
            files |= told
            if told and not any(path in present for path in told):
                missing = next(iter(told))
                problems[missing] = _missing(manifest, missing, told[missing])
    return Promises(files, tuple(problems.values()))


def _shards(storage: Storage, manifest: FileInfo) -> Iterator[_Shard]:
    if manifest.size > MANIFEST_BYTES:
        raise CorruptDataError(f"it has more than {MANIFEST_BYTES >> 20} MiB")
    found = msgspec.json.decode(storage.read(manifest.path), type=_Manifest).shards
    return (shard for shard in found if shard.format == "mds")


def _files(shard: _Shard) -> Iterator[Promise]:
    return (file for file in (shard.raw_data, shard.zip_data) if file is not None)


def _path(folder: str, basename: str) -> str:
    """Return where a shard lies; a name that leads out of the dataset is no file's."""
    return posixpath.normpath(posixpath.join(folder, basename))


def _problem(manifest: FileInfo, reason: str) -> FileProblem:
    return FileProblem(
        file=manifest.path, size=manifest.size, version=manifest.version, reason=reason
    )


def _missing(manifest: FileInfo, path: str, promise: Promise) -> FileProblem:
    reason = (
        f"{manifest.path} names this shard, but it is not there; copy it, or write the dataset "
        "again without it"
    )
    return FileProblem(file=path, size=promise.bytes, version="", reason=reason)
