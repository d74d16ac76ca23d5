"""Makes a staged copy appear at the destination, all or nothing.

The order, and what a reader sees meanwhile:

1. The chunks are all there: a seal notes their digests.
2. Files of several chunks are put together within the staging folder; the seal notes that all is
   ready. Until here nothing is visible.
3. A file in the folder says that a checkpoint is arriving: for headrace nothing there is complete
   until the end. What is not of this copy is taken away, the marker first: what is to be replaced
   is not complete for others either, and is never seen mixed with the new one.
4. The files are moved into place: data, the manifest, metadata, and the marker last. With it the
   checkpoint is complete.
5. The pointer beside it is moved, nothing is arriving any more, and the staging folder removed.

Every step looks at what is there and does only what is left, so a call that was cut off anywhere
is simply repeated. One process at a time publishes a checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from headrace.checkpoint.arriving import arriving_path
from headrace.checkpoint.layout import Checkpoint
from headrace.checkpoint.manifest import FileDigests, encode_manifest, manifest_path
from headrace.checkpoint.pointers import is_pointed_to
from headrace.core.errors import CallerError, StaleError
from headrace.storage.port import Storage
from headrace.transfer.assembling import assemble
from headrace.transfer.chunk import part_path
from headrace.transfer.parallel import in_parallel
from headrace.transfer.place import Place, look_at_place
from headrace.transfer.plan import FilePlan, Route
from headrace.transfer.seal import Seal, SealedFile, write_seal
from headrace.transfer.staging import Staged, Staging

PARALLEL = 8
"""Files that are put together or moved at the same time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Publication:
    """A checkpoint that is to appear at the destination."""

    route: Route
    checkpoint: Checkpoint
    """As the source was listed just now."""

    plans: Sequence[FilePlan]
    """Of all its files, in their order."""

    replace: bool = False
    """Take away another checkpoint that lies at its place."""

    move_pointer: bool = True
    """Let the pointer beside checkpoints name this one; False: a newer one is there."""

    @property
    def copied_from(self) -> str:
        """URL of the checkpoint's folder at the source."""
        return f"{self.route.source}/{self.route.checkpoint}".rstrip("/")


def is_published(publication: Publication, destination: Storage) -> bool:
    """Tell whether the destination has the checkpoint, whole and as the source has it now.

    Raises:
        StorageError: the destination does not answer.
    """
    place = look_at_place(destination, publication.route, publication.plans)
    return place.is_copy(publication.plans, publication.copied_from)


def publish(publication: Publication, destination: Storage, *, parallel: int = PARALLEL) -> None:
    """Make a checkpoint appear whose chunks are all staged; nothing is done where it is already.

    Args:
        publication: What is to appear.
        destination: The store at ``publication.route.destination``.
        parallel: Files that are handled at the same time.

    Raises:
        StaleError: chunks of these files are not there, or are damaged: plan and copy what
            ``Staged.missing`` tells, and publish again. No part of it is visible as complete.
        CallerError: another checkpoint, or files of no checkpoint, lie at its place, and
            ``replace`` is not set.
        StorageError: the destination failed; to be repeated.
    """
    _Publishing(publication, destination, parallel).run()


class _Publishing:
    """One call of ``publish``."""

    def __init__(self, publication: Publication, destination: Storage, parallel: int) -> None:
        self._publication = publication
        self._route = publication.route
        self._plans = publication.plans
        self._marker = publication.checkpoint.marker
        self._destination = destination
        self._staging = Staging(destination, publication.route)
        self._parallel = parallel

    def run(self) -> None:
        place = look_at_place(self._destination, self._route, self._plans)
        if not place.is_copy(self._plans, self._publication.copied_from):
            self._put(place)
        self._point()  # who finds it complete, and does nothing more, finds the pointer moved
        self._destination.delete(arriving_path(self._route.checkpoint))
        self._staging.remove()

    def _put(self, place: Place) -> None:
        staged = self._staging.look()
        seal = staged.seal
        if seal is None or not seal.is_of(self._plans):
            seal = Seal(files={})
        foreign = [path for path, info in place.files.items() if not seal.has(path, info)]
        self._require_free(foreign)
        if not seal.files:
            seal = self._sealed(staged)
        if not seal.ready:
            seal = self._made_ready(seal, staged)
        self._write(arriving_path(self._route.checkpoint), b"")
        self._clear(foreign)
        self._move(seal, place)

    def _require_free(self, foreign: Sequence[str]) -> None:
        """Refuse to take away what is, or may be, somebody's."""
        names = {plan.file.path for plan in self._plans}
        leftover = self._marker is not None and self._marker not in foreign
        strays = sorted(set(foreign) - names) if leftover else sorted(foreign)
        if strays and not self._publication.replace:
            raise CallerError(
                f"{self._destination.url}/{self._route.checkpoint} has {len(strays)} files that "
                f"are not of this copy, such as {strays[0]}; remove them, or have them replaced "
                "(--replace)"
            )

    def _sealed(self, staged: Staged) -> Seal:
        """Note the digests of all chunks, which are there."""
        missing = staged.missing(self._plans)
        if missing:
            raise StaleError(
                f"{len(missing)} chunks of {self._publication.copied_from} are not staged, such "
                f"as {missing[0].path} from byte {missing[0].offset} on; files changed since they "
                "were copied, or somebody removed them: copy what is missing"
            )
        seal = Seal(files={plan.file.path: _sealed_file(plan, staged) for plan in self._plans})
        write_seal(self._destination, self._staging.seal_path, seal)
        return seal

    def _made_ready(self, seal: Seal, staged: Staged) -> Seal:
        """Put files together, and note which versions they have then."""

        def put_together(plan: FilePlan) -> None:
            parts = [part for part in _parts(plan, seal) if part in staged.files]
            if len(parts) < len(plan.tasks) and self._is_together(plan, staged):
                return
            try:
                assemble(self._destination, self._whole(plan), parts, plan.file.size)
            except StaleError:
                self._destination.delete(self._staging.seal_path)
                raise

        split = [plan for plan in self._plans if len(plan.tasks) > 1]
        in_parallel(put_together, split, width=self._parallel)
        ready = self._with_versions(seal)
        write_seal(self._destination, self._staging.seal_path, ready)
        return ready

    def _is_together(self, plan: FilePlan, staged: Staged) -> bool:
        info = staged.files.get(self._whole(plan))
        return info is not None and info.size == plan.file.size

    def _with_versions(self, seal: Seal) -> Seal:
        found = self._staging.look().files
        files: dict[str, SealedFile] = {}
        for plan in self._plans:
            sealed = seal.files[plan.file.path]
            info = found.get(self._ready_path(plan, sealed))
            if info is None or info.size != plan.file.size:
                raise self._damaged(plan)
            noted = msgspec.structs.replace(sealed.noted, version=info.version)
            files[plan.file.path] = msgspec.structs.replace(sealed, noted=noted)
        return Seal(files=files, ready=True)

    def _clear(self, foreign: Sequence[str]) -> None:
        """Take away what lies at the place and is not of this copy; first what completes it."""
        if not foreign:
            return
        if self._marker is not None and self._marker in foreign:
            self._destination.delete(self._route.path(self._marker))
        elif self._marker is None:
            self._unpoint()
        paths = [self._route.path(path) for path in foreign]
        in_parallel(self._destination.delete, paths, width=self._parallel)

    def _move(self, seal: Seal, place: Place) -> None:
        """Move files into place: data, the manifest, metadata, the marker."""
        staged = self._staging.look().files
        left = [plan for plan in self._plans if not self._is_moved(plan, seal, place)]
        for plan in left:
            sealed = seal.files[plan.file.path]
            info = staged.get(self._ready_path(plan, sealed))
            if info is None or not seal.has(plan.file.path, info):
                raise self._damaged(plan)

        def move(plan: FilePlan) -> None:
            ready = self._ready_path(plan, seal.files[plan.file.path])
            self._destination.rename(ready, self._route.path(plan.file.path))

        last = self._last()
        in_parallel(move, [plan for plan in left if plan not in last], width=self._parallel)
        manifest = seal.manifest(self._publication.copied_from)
        self._write(manifest_path(self._route.checkpoint), encode_manifest(manifest))
        for plan in last:
            if plan in left:
                move(plan)

    def _last(self) -> list[FilePlan]:
        """Return what is moved one after another once all else is there; the marker at the end."""
        last = [plan for plan in self._plans if self._completes(plan)] or list(self._plans[-1:])
        return sorted(last, key=lambda plan: plan.file.path == self._marker)

    def _completes(self, plan: FilePlan) -> bool:
        return plan.file.role == "metadata" or plan.file.path == self._marker

    def _is_moved(self, plan: FilePlan, seal: Seal, place: Place) -> bool:
        info = place.files.get(plan.file.path)
        return info is not None and seal.has(plan.file.path, info)

    def _damaged(self, plan: FilePlan) -> StaleError:
        """Forget the seal, so that what is missing is known as missing; return what to raise."""
        self._destination.delete(self._staging.seal_path)
        return StaleError(
            f"{self._route.path(plan.file.path)} is neither staged nor in place at "
            f"{self._destination.url}, or was changed there; copy what is missing"
        )

    def _whole(self, plan: FilePlan) -> str:
        """Where a file of several chunks is put together."""
        return f"{self._route.staging}/{plan.key}-whole"

    def _ready_path(self, plan: FilePlan, sealed: SealedFile) -> str:
        """Where a file is that waits to be moved into place."""
        if len(plan.tasks) > 1:
            return self._whole(plan)
        return part_path(plan.tasks[0].staged, sealed.noted.digests[0])

    def _unpoint(self) -> None:
        """Remove the pointer if it names this checkpoint, which nothing else completes."""
        checkpoint = self._publication.checkpoint
        if checkpoint.pointer is not None and is_pointed_to(self._destination, checkpoint):
            self._destination.delete(checkpoint.pointer.path)

    def _point(self) -> None:
        pointer = self._publication.checkpoint.pointer
        if pointer is not None and self._publication.move_pointer:
            self._write(pointer.path, pointer.content)

    def _write(self, path: str, data: bytes) -> None:
        """Write a small file; who is killed meanwhile leaves nothing beside it."""
        aside = f"{self._route.staging}/aside"
        self._destination.write(aside, data)
        self._destination.rename(aside, path)


def _parts(plan: FilePlan, seal: Seal) -> list[str]:
    """Return the paths of a file's chunks, in order."""
    digests = seal.files[plan.file.path].noted.digests
    pairs = zip(plan.tasks, digests, strict=True)
    return [part_path(task.staged, digest) for task, digest in pairs]


def _sealed_file(plan: FilePlan, staged: Staged) -> SealedFile:
    noted = FileDigests(
        size=plan.file.size,
        version="",
        chunk_bytes=plan.chunk_bytes,
        digests=tuple(digest for task in plan.tasks if (digest := staged.digest(task))),
        copied_version=plan.file.version,
    )
    return SealedFile(key=plan.key, noted=noted)
