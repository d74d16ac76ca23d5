"""Folders that Hugging Face's ``datasets`` saved: which shards they should have.

``state.json`` names the shards of ``save_to_disk``. Files called ``cache-….arrow`` are results of
``map`` and ``filter`` that the library keeps beside them, and no part of the dataset.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

import msgspec

from headrace.core.errors import HeadraceError
from headrace.dataset.index import FileProblem
from headrace.storage.port import FileInfo, Storage

STATE = "state.json"
STATE_BYTES = 16 * 1024 * 1024
"""Longest ``state.json`` that is read [bytes]."""


class _Shard(msgspec.Struct, frozen=True):
    filename: str


class _State(msgspec.Struct, frozen=True):
    shards: tuple[_Shard, ...] = msgspec.field(name="_data_files")


def is_derived(path: str) -> bool:
    """Whether a file is kept by the library for itself."""
    name = posixpath.basename(path)
    return name.startswith("cache-") and name.endswith(".arrow")


def take_states(files: Sequence[FileInfo], others: dict[str, FileInfo]) -> list[FileInfo]:
    """Take the files that tell the shards of a folder out of the others."""
    folders = {posixpath.dirname(file.path) for file in files if file.path.endswith(".arrow")}
    paths = (posixpath.join(folder, STATE) for folder in sorted(folders))
    return [others.pop(path) for path in paths if path in others]


def missing_shards(
    storage: Storage, states: Sequence[FileInfo], files: Sequence[FileInfo]
) -> Iterator[FileProblem]:
    """Name what folders should have and have not."""
    there = {file.path for file in files} if states else set()
    for state in states:
        folder = posixpath.dirname(state.path)
        try:
            data = storage.read(state.path, 0, min(state.size, STATE_BYTES))
            names = [shard.filename for shard in msgspec.json.decode(data, type=_State).shards]
        except (HeadraceError, msgspec.DecodeError, RecursionError) as error:
            yield _problem(state, f"it does not tell the shards of its folder: {error}")
            continue
        gone = [name for name in names if posixpath.join(folder, name) not in there]
        if gone:
            yield _problem(
                state, f"of {len(names)} shards {len(gone)} are missing, such as {gone[0]}"
            )


def _problem(file: FileInfo, reason: str) -> FileProblem:
    return FileProblem(file=file.path, size=file.size, version=file.version, reason=reason)
