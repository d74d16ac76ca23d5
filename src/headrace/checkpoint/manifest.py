"""What a checkpoint's files hold, chunk by chunk, in a small file beside them.

Who writes a checkpoint has its bytes at hand and notes their digests, so that nobody has to read
it again to know which chunks another checkpoint has as well. A note counts for the very file it
was made of: one that was replaced since, or copied by something else, has another version, and
nothing is known of it then. The name is hidden; no layout counts the file as its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias

import msgspec

from headrace.core.digest import Buffer, ContentDigest
from headrace.core.errors import CorruptDataError, NotFoundError
from headrace.storage.paths import join
from headrace.storage.port import Storage

MANIFEST = ".headrace-manifest.json"
"""Name of the file, in the checkpoint's folder."""

CHUNK_BYTES = 64 << 20
"""Length of chunks, but for the last of each file [bytes]: half a block of HDFS, so that a file
put together of chunks has no more than twice the blocks."""

MOST_BYTES = 64 << 20
"""A manifest is not read beyond this [bytes]; it is enough for 100 TB."""

Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
"""XXH3-128 of a chunk, hex."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive bytes of a file."""

    offset: int
    length: int
    digest: str | None
    """None: not known."""


class FileDigests(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file as it was written."""

    size: Annotated[int, msgspec.Meta(ge=0)]
    version: str
    """As ``FileInfo.version``."""

    chunk_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 30)] = CHUNK_BYTES
    """Length of each chunk but the last."""

    digests: tuple[Digest, ...]
    """Of its chunks, in order; an empty file has one chunk without bytes."""

    copied_version: str | None = None
    """Of the file at ``Manifest.copied_from``, if it is a copy."""

    def chunks(self) -> tuple[Chunk, ...]:
        """Return the file's chunks."""
        return tuple(
            replace(chunk, digest=digest)
            for chunk, digest in zip(cut(self.size, self.chunk_bytes), self.digests, strict=True)
        )


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The digests of all files of a checkpoint."""

    format: Literal[1] = 1
    files: Mapping[str, FileDigests]
    """By path, relative to the checkpoint's folder."""

    copied_from: str | None = None
    """URL of the checkpoint's folder that it is a copy of; None: it was written here."""

    def note(self, path: str, *, size: int, version: str) -> FileDigests | None:
        """Return what is noted of a file; None: nothing of this version."""
        noted = self.files.get(path)
        if noted is None or (noted.size, noted.version) != (size, version):
            return None
        return noted


def cut(size: int, chunk_bytes: int = CHUNK_BYTES) -> tuple[Chunk, ...]:
    """Return the chunks of a file of ``size`` bytes; one without bytes if it is empty."""
    return tuple(
        Chunk(offset, min(chunk_bytes, size - offset), None)
        for offset in range(0, max(size, 1), chunk_bytes)
    )


class Digester:
    """Notes the digests of a file's chunks while it is written. For one thread."""

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._chunk_bytes = chunk_bytes
        self._finished: list[str] = []
        self._state = ContentDigest()
        self._room = chunk_bytes

    def update(self, data: Buffer) -> None:
        """Take the file's next bytes."""
        view = memoryview(data).cast("B")
        while view:
            if not self._room:
                self._finish_chunk()
            self._state.update(view[: self._room])
            taken = min(self._room, len(view))
            self._room -= taken
            view = view[taken:]

    def digests(self) -> tuple[str, ...]:
        """Return those of the chunks so far, the last of which may not be full."""
        return (*self._finished, self._state.hexdigest())

    def _finish_chunk(self) -> None:
        self._finished.append(self._state.hexdigest())
        self._state.reset()
        self._room = self._chunk_bytes


def manifest_path(folder: str) -> str:
    """Return where the manifest of the checkpoint in ``folder`` lies, relative to the root."""
    return join(folder, MANIFEST)


def write_manifest(storage: Storage, folder: str, manifest: Manifest) -> None:
    """Write a checkpoint's manifest; to be done before its marker is there.

    Raises:
        StorageError: it cannot be written.
    """
    storage.write(manifest_path(folder), encode_manifest(manifest))


def encode_manifest(manifest: Manifest) -> bytes:
    """Return what is written of a manifest."""
    return msgspec.json.encode(manifest)


def read_manifest(storage: Storage, folder: str) -> Manifest | None:
    """Return a checkpoint's manifest; None: it has none.

    Raises:
        CorruptDataError: it is damaged, or no manifest of a format that is known here.
        StorageError: it cannot be read.
    """
    path = manifest_path(folder)
    try:
        size = storage.stat(path).size
        data = storage.read(path, 0, size) if size <= MOST_BYTES else None
    except NotFoundError:
        return None
    if data is None:
        raise _corrupt(storage, path, f"it has {size} bytes, more than {MOST_BYTES}")
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _corrupt(storage, path, str(error)) from error
    for file, noted in manifest.files.items():
        flaw = _flaw(file, noted)
        if flaw:
            raise _corrupt(storage, path, f"{file!r}: {flaw}")
    return manifest


def _flaw(file: str, noted: FileDigests) -> str:
    """Return what cannot be in a note of a file; empty: nothing."""
    if "\0" in file or any(part in ("", ".", "..") for part in file.split("/")):
        return "no path below the checkpoint's folder"
    chunks = max(1, -(-noted.size // noted.chunk_bytes))
    if len(noted.digests) != chunks:
        return f"{len(noted.digests)} digests for {chunks} chunks"
    return ""


def _corrupt(storage: Storage, path: str, reason: str) -> CorruptDataError:
    return CorruptDataError(
        f"{storage.url}/{path} is no manifest of a checkpoint: {reason}; delete it, and the "
        "checkpoint's chunks count as unknown"
    )
