"""The folder at the destination in which a copy comes together.

It tells by itself what is done: a finished chunk's name says which bytes of which file it is, and
their digest. So a copy goes on after its process was killed, without a journal, and on another
host. What names nothing of the copy is of a file that was replaced, or was being written when
somebody died; it goes with the folder.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.core.errors import NotFoundError
from headrace.storage.port import FileInfo, Storage
from headrace.transfer.chunk import ChunkTask, part_path
from headrace.transfer.plan import STAGING, FilePlan, Route
from headrace.transfer.seal import Seal, read_seal

_SEAL = "seal.json"
_PART = re.compile(r"(.+/[0-9a-f]{16}-[0-9]+-([0-9]+))-([0-9a-f]{32})")


@dataclass(frozen=True, slots=True)
class Staged:
    """What a staging folder held when it was listed."""

    files: Mapping[str, FileInfo]
    """All in it, by path relative to the destination's root."""

    digests: Mapping[str, tuple[str, ...]]
    """Finished chunks: ``ChunkTask.staged`` → digests, that of what was written last at the end.
    There is more than one where a file was changed without getting another version."""

    seal: Seal | None

    def digest(self, task: ChunkTask) -> str | None:
        """Return the digest of a chunk's finished copy; None: it is not there."""
        digests = self.digests.get(task.staged, ())
        if task.digest is not None:
            return task.digest if task.digest in digests else None
        return digests[-1] if digests else None

    def part(self, task: ChunkTask) -> str | None:
        """Return the path of a chunk's finished copy; None: it is not there."""
        digest = self.digest(task)
        return None if digest is None else part_path(task.staged, digest)

    def missing(self, plans: Sequence[FilePlan]) -> tuple[ChunkTask, ...]:
        """Return the chunks that are still to be copied.

        Args:
            plans: The files; all of a checkpoint, or some.
        """
        if self.seal is not None and self.seal.is_of(plans):
            return ()
        return tuple(task for plan in plans for task in plan.tasks if self.digest(task) is None)


class Staging:
    """The staging folder of one copy. Keeps nothing; thread-safe."""

    def __init__(self, destination: Storage, route: Route) -> None:
        self._destination = destination
        self._folder = route.staging

    @property
    def seal_path(self) -> str:
        """Where the seal is, relative to the destination's root."""
        return f"{self._folder}/{_SEAL}"

    def look(self) -> Staged:
        """Return what is there now: one listing.

        Raises:
            StorageError: the destination does not answer.
        """
        files = {info.path: info for info in _listed(self._destination, self._folder)}
        digests: dict[str, tuple[str, ...]] = {}
        for path, info in sorted(files.items(), key=_written_at):
            match = _PART.fullmatch(path)
            if match and int(match[2]) == info.size:
                digests[match[1]] = (*digests.get(match[1], ()), match[3])
        sealed = self.seal_path in files
        seal = read_seal(self._destination, self.seal_path) if sealed else None
        return Staged(files, digests, seal)

    def remove(self) -> None:
        """Remove the folder.

        Raises:
            StorageError: something cannot be removed.
        """
        remove_staged(self._destination, self._folder)


def _written_at(item: tuple[str, FileInfo]) -> float:
    return item[1].modified_s or 0.0


def staged_bytes(destination: Storage) -> dict[str, int]:
    """Return how much lies in each copy's staging folder, by the folder's path [bytes].

    Raises:
        StorageError: the destination does not answer.
    """
    found: dict[str, int] = defaultdict(int)
    for info in _listed(destination, STAGING):
        found["/".join(info.path.split("/")[:3])] += info.size
    return dict(found)


def remove_staged(destination: Storage, folder: str) -> None:
    """Remove a copy's staging folder; the seal first, for without the files it says what is not so.

    Raises:
        StorageError: something cannot be removed.
    """
    destination.delete(f"{folder}/{_SEAL}")
    destination.delete_folder(folder)


def _listed(storage: Storage, folder: str) -> Iterator[FileInfo]:
    try:
        yield from storage.list(folder)
    except NotFoundError:
        return
