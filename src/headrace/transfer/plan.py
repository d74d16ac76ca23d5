"""Cuts the files of a checkpoint into chunks, and says where the copy of each is staged. Pure.

A staged chunk's name begins with a key of the very file it is of: its store, path, size, version
and how it is cut. So chunks of a file that was replaced are never taken for those of the new one,
and whoever plans the same copy again, on whatever host, finds what was done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from headrace.checkpoint.layout import CheckpointFile
from headrace.checkpoint.manifest import CHUNK_BYTES, Manifest, cut
from headrace.core.digest import name_digest
from headrace.storage.paths import join
from headrace.transfer.chunk import ChunkTask, HeldChunk

STAGING = ".headrace/staging"
"""Folder at the destination that has a folder for each checkpoint that is on its way."""

Held: TypeAlias = Mapping[tuple[str, int], HeldChunk]
"""Where a store has the bytes of a digest and a length."""

NOTHING_HELD: Held = MappingProxyType({})
NOTHING_NOTED = Manifest(files={})


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """Which checkpoint is copied from where to where."""

    source: str
    """URL of the store that has it, as ``Storage.url`` says."""

    destination: str
    """URL of the store that gets it."""

    checkpoint: str
    """Path of its folder, relative to the roots of both."""

    @property
    def staging(self) -> str:
        """Folder that is the copy's own until it is published, relative to the destination."""
        name = re.sub(r"[^A-Za-z0-9._=-]", "_", self.checkpoint.rpartition("/")[2])[:80] or "root"
        return f"{STAGING}/{name}-{name_digest(self.checkpoint.encode())[:12]}"

    def path(self, file: str) -> str:
        """Return a file's path relative to the root of either store."""
        return join(self.checkpoint, file)


@dataclass(frozen=True, kw_only=True, slots=True)
class FilePlan:
    """One file and the chunks that it is copied in."""

    file: CheckpointFile
    key: str
    """Beginning of the names of what is staged of it."""

    chunk_bytes: int
    tasks: tuple[ChunkTask, ...]
    """In order; together they are the whole file."""


def plan_file(
    route: Route,
    file: CheckpointFile,
    *,
    manifest: Manifest = NOTHING_NOTED,
    held: Held = NOTHING_HELD,
    read_back: bool = False,
) -> FilePlan:
    """Cut a file into chunks.

    Args:
        route: Its checkpoint's way.
        file: As the source was listed.
        manifest: What the checkpoint's writer noted at the source. Without a note nobody can
            know which chunks the destination has, so all are sent.
        held: What the destination has, by digest; see ``headrace.transfer.held``.
        read_back: As ``ChunkTask.read_back``.
    """
    noted = manifest.note(file.path, size=file.size, version=file.version)
    chunks = noted.chunks() if noted else cut(file.size)
    chunk_bytes = noted.chunk_bytes if noted else CHUNK_BYTES
    key = _key(route, file, chunk_bytes)
    tasks = tuple(
        ChunkTask(
            source=route.source,
            destination=route.destination,
            path=route.path(file.path),
            version=file.version,
            offset=chunk.offset,
            length=chunk.length,
            staged=f"{route.staging}/{key}-{chunk.offset}-{chunk.length}",
            digest=chunk.digest,
            held=held.get((chunk.digest, chunk.length)) if chunk.digest else None,
            read_back=read_back,
        )
        for chunk in chunks
    )
    return FilePlan(file=file, key=key, chunk_bytes=chunk_bytes, tasks=tasks)


def _key(route: Route, file: CheckpointFile, chunk_bytes: int) -> str:
    words = (route.source, file.path, file.version, str(file.size), str(chunk_bytes))
    return name_digest(*(word.encode() for word in words))[:16]
