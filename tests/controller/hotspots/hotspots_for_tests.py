"""A store whose copies are numbers in memory, and what desks over it are asked."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from headrace.core.errors import NotFoundError, StorageError
from headrace.policy.hotspot.events import (
    Block,
    CopiesSet,
    Figures,
    FileGone,
    FileSeen,
    HotFile,
    SetCopies,
    SetElsewhere,
    StoredFile,
)
from headrace.wire.hotspots import HotspotAsked

MB = 1_000_000
STORE = "mem://store/"


def asked(*files: str, **changed: object) -> HotspotAsked:
    """Return an announcement of a thousand ranks."""
    told: dict[str, object] = {"url": STORE, "world_size": 1000, "files": files, "eta_s": 60.0}
    return HotspotAsked(**(told | changed))  # type: ignore[arg-type]


@dataclass
class MemoryStore:
    """Files with copies that are there at once."""

    copies: dict[str, int] = field(default_factory=lambda: {"a": 3, "b": 2})
    away: bool = False
    hangs: threading.Event | None = None
    """Calls wait until it is set."""

    breaks: Exception | None = None
    """Raised by the next set, as a bug would be."""

    sets: list[tuple[str, int]] = field(default_factory=list)

    def read(self, message: HotspotAsked) -> tuple[HotFile, ...]:
        """Return the files that are announced, as hot as can be."""
        for path in message.files:
            if path not in self.copies:
                raise NotFoundError(f"no file {path}; check the spelling")
        return tuple(
            HotFile(
                file=StoredFile(STORE, path),
                size=100 * MB,
                hot_bytes=100 * MB,
                readers=message.world_size,
            )
            for path in message.files
        )

    def opened(self, store: str) -> MemoryCarrier:
        """Return what makes copies."""
        assert store == STORE
        return MemoryCarrier(self)

    def touch(self) -> None:
        """Fail, or hang, as the store does now."""
        if self.hangs is not None:
            assert self.hangs.wait(30)
        if self.away:
            raise StorageError("the NameNode does not answer; is it running?")


class MemoryCarrier:
    """Makes copies in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def figures(self) -> Figures:
        self._store.touch()
        return Figures(replicates=True, nodes=20, transfers_per_node=0.0, free_bytes=1e15)

    def look(self, file: HotFile) -> FileSeen | FileGone:
        self._store.touch()
        if (copies := self._store.copies.get(file.file.path)) is None:
            return FileGone(file=file.file)
        return FileSeen(file=file.file, asked=copies, blocks=(Block(100 * MB, copies),))

    def set_copies(self, order: SetCopies, file: HotFile) -> CopiesSet | SetElsewhere | FileGone:
        assert file.file == order.file
        self._store.touch()
        if (error := self._store.breaks) is not None:
            self._store.breaks = None
            raise error
        path = order.file.path
        if path not in self._store.copies:
            return FileGone(file=order.file)
        if self._store.copies[path] not in (*order.expected, order.copies):
            return SetElsewhere(file=order.file, found=self._store.copies[path])
        self._store.copies[path] = order.copies
        self._store.sets.append((path, order.copies))
        return CopiesSet(file=order.file, copies=order.copies)

    def close(self) -> None:
        pass
