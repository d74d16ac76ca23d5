"""What tests of copies share: stores in directories, and tasks over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from headrace.storage.local import LocalStorage
from headrace.storage.port import Storage
from headrace.transfer.chunk import ChunkTask

MEBIBYTE = 1 << 20


@dataclass
class Taken:
    """A budget that grants all, and remembers what was asked."""

    pieces: list[int] = field(default_factory=list)

    def __call__(self, nbytes: int) -> None:
        self.pieces.append(nbytes)


def task_for(source: Storage, destination: Storage, path: str, **changes: object) -> ChunkTask:
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


def stores(place: Path) -> tuple[LocalStorage, LocalStorage]:
    """Make two empty stores, the source and the destination."""
    roots = [place / name for name in ("source", "destination")]
    for root in roots:
        root.mkdir()
    return LocalStorage(roots[0]), LocalStorage(roots[1])
