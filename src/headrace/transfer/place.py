"""What lies where a checkpoint is to appear, and whether it is that checkpoint already."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.checkpoint.arriving import ARRIVING
from headrace.checkpoint.manifest import MANIFEST, Manifest
from headrace.core.errors import NotFoundError
from headrace.storage.port import FileInfo, Storage
from headrace.transfer.held import noted_at
from headrace.transfer.plan import FilePlan, Route


@dataclass(frozen=True, slots=True)
class Place:
    """What the destination has in a checkpoint's folder."""

    files: Mapping[str, FileInfo]
    """By path relative to the folder, without headrace's own. Where the checkpoint is the root
    itself, only files of its names: others there may be anything."""

    manifest: Manifest

    def is_copy(self, plans: Sequence[FilePlan], copied_from: str) -> bool:
        """Tell whether all of a source's files are there, as they were listed.

        Args:
            plans: The files of the checkpoint at the source.
            copied_from: URL of its folder there.
        """
        return all(self._has_copy(plan, copied_from) for plan in plans)

    def _has_copy(self, plan: FilePlan, copied_from: str) -> bool:
        info = self.files.get(plan.file.path)
        if info is None or info.size != plan.file.size:
            return False
        noted = self.manifest.note(plan.file.path, size=info.size, version=info.version)
        if noted is None:
            return False
        if (self.manifest.copied_from, noted.copied_version) == (copied_from, plan.file.version):
            return True
        known = tuple(task.digest for task in plan.tasks)
        return (plan.chunk_bytes, known) == (noted.chunk_bytes, noted.digests)


def look_at_place(destination: Storage, route: Route, plans: Sequence[FilePlan]) -> Place:
    """Return what lies where a checkpoint is to appear.

    Args:
        destination: The store.
        route: The checkpoint's way.
        plans: Of its files.

    Raises:
        StorageError: the destination does not answer.
    """
    files = dict(_found(destination, route, plans))
    for own in (MANIFEST, ARRIVING):
        files.pop(own, None)
    return Place(files, noted_at(destination, route.checkpoint))


def _found(
    destination: Storage, route: Route, plans: Sequence[FilePlan]
) -> Iterator[tuple[str, FileInfo]]:
    with contextlib.suppress(NotFoundError):
        if route.checkpoint:
            for info in destination.list(route.checkpoint):
                yield info.path[len(route.checkpoint) + 1 :], info
            return
    for plan in plans if not route.checkpoint else ():
        with contextlib.suppress(NotFoundError):
            yield plan.file.path, destination.stat(plan.file.path)
