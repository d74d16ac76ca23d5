"""What tests of copies share: stores in directories, checkpoints in them, and whole copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.checkpoint.layout import Checkpoint, CheckpointFile, Pointer
from headrace.checkpoint.manifest import Digester, FileDigests, Manifest, write_manifest
from headrace.core.errors import NotFoundError
from headrace.storage.local import LocalStorage
from headrace.storage.port import Storage
from headrace.transfer.chunk import ChunkTask
from headrace.transfer.group import copy_group, grouped
from headrace.transfer.held import noted_at
from headrace.transfer.plan import NOTHING_HELD, Held, Route, plan_file
from headrace.transfer.publishing import Publication, publish
from headrace.transfer.staging import Staging

MEBIBYTE = 1 << 20
MARKER = ".metadata"
FOLDER = "run/step-10"
FILES = {"__0_0.distcp": b"0123456789", "sub/tiny": b"x", "empty": b"", MARKER: b"what is where"}
"""Of a checkpoint: the first and the last file are cut into chunks of 4 bytes."""

OTHERS = {**FILES, "__0_0.distcp": b"9876543210", MARKER: b"what was where"}
"""Of another one with the same names."""


@dataclass
class Taken:
    """A budget that grants all, and remembers what was asked."""

    pieces: list[int] = field(default_factory=list)

    def __call__(self, nbytes: int) -> None:
        self.pieces.append(nbytes)

    @property
    def nbytes(self) -> int:
        return sum(self.pieces)


def stores(place: Path) -> tuple[LocalStorage, LocalStorage]:
    """Make two empty stores, the source and the destination."""
    roots = [place / name for name in ("source", "destination")]
    for root in roots:
        root.mkdir()
    return LocalStorage(roots[0]), LocalStorage(roots[1])


def task_for(source: Storage, destination: Storage, path: str, **changes: object) -> ChunkTask:
    """Return the task of copying a whole file in one chunk."""
    info = source.stat(path)
    values = {
        "source": source.url,
        "destination": destination.url,
        "path": path,
        "version": info.version,
        "offset": 0,
        "length": info.size,
        "staged": f".headrace/staging/x/{path}/0",
    }
    return ChunkTask(**{**values, **changes})  # type: ignore[arg-type]


def save(
    storage: Storage,
    files: Mapping[str, bytes] = FILES,
    *,
    folder: str = FOLDER,
    chunk_bytes: int | None = 4,
) -> None:
    """Write a checkpoint, with a manifest unless ``chunk_bytes`` is None."""
    notes: dict[str, FileDigests] = {}
    for path, data in files.items():
        info = storage.write(f"{folder}/{path}" if folder else path, data)
        if chunk_bytes is not None:
            digester = Digester(chunk_bytes)
            digester.update(data)
            notes[path] = FileDigests(
                size=info.size,
                version=info.version,
                chunk_bytes=chunk_bytes,
                digests=digester.digests(),
            )
    if notes:
        write_manifest(storage, folder, Manifest(files=notes))


def listed(
    storage: Storage,
    paths: Sequence[str] = tuple(FILES),
    *,
    folder: str = FOLDER,
    marker: str | None = MARKER,
    pointer: Pointer | None = None,
) -> Checkpoint:
    """Describe a checkpoint as a layout would."""
    infos = [storage.stat(f"{folder}/{path}" if folder else path) for path in paths]
    files = tuple(
        CheckpointFile(
            path=path,
            size=info.size,
            version=info.version,
            role="metadata" if path == MARKER else "weights",
        )
        for path, info in zip(paths, infos, strict=True)
    )
    return Checkpoint(
        path=folder,
        layout="dcp",
        step=10,
        files=files,
        missing="",
        marker=marker,
        pointer=pointer,
    )


def publication_of(
    source: Storage,
    destination: Storage,
    checkpoint: Checkpoint | None = None,
    *,
    held: Held = NOTHING_HELD,
    replace: bool = False,
    move_pointer: bool = True,
) -> Publication:
    """Plan the copy of a checkpoint."""
    checkpoint = checkpoint or listed(source)
    route = Route(source=source.url, destination=destination.url, checkpoint=checkpoint.path)
    manifest = noted_at(source, checkpoint.path)
    plans = [plan_file(route, file, manifest=manifest, held=held) for file in checkpoint.files]
    return Publication(
        route=route,
        checkpoint=checkpoint,
        plans=plans,
        replace=replace,
        move_pointer=move_pointer,
    )


def stage(
    publication: Publication,
    source: Storage,
    destination: Storage,
    take: Callable[[int], None] | None = None,
) -> None:
    """Copy the chunks that are not staged."""
    missing = Staging(destination, publication.route).look().missing(publication.plans)
    for group in grouped(missing):
        copy_group(group, source, destination, take or Taken())


def copy(
    source: Storage, destination: Storage, checkpoint: Checkpoint | None = None, **how: bool
) -> None:
    """Copy a checkpoint and let it appear."""
    publication = publication_of(source, destination, checkpoint, **how)
    stage(publication, source, destination)
    publish(publication, destination)


def content(storage: Storage, folder: str = FOLDER) -> dict[str, bytes]:
    """Return all files below a folder, without those of the copying itself."""
    found: dict[str, bytes] = {}
    try:
        for info in storage.list(folder):
            path = info.path[len(folder) + 1 :] if folder else info.path
            if ".headrace" not in path:
                found[path] = storage.read(info.path)
    except NotFoundError:
        pass
    return found
