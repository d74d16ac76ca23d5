"""Removes checkpoints that are not to be kept, and none that somebody reads.

What is kept is told for each folder by itself, for each is of another run: the newest complete
checkpoints, all whose name tells no step (``best``, ``final``), and those that a link leads to or
a short file beside them names (``latest``).
What is removed disappears marker first, so that a half is never taken for a whole; what somebody
began to remove and did not end is removed on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from headrace.checkpoint.find import find_checkpoints
from headrace.checkpoint.layout import Checkpoint, CheckpointFile
from headrace.checkpoint.pins import (
    KINDS,
    lease_path,
    leases_of,
    new_lease,
    new_owner,
    pinned,
    pins,
    removals,
    store_time,
)
from headrace.checkpoint.pointers import is_pointed_to, named_beside
from headrace.core.errors import CallerError, NotFoundError, StorageError
from headrace.storage.port import Storage

YOUNG_S = 3600.0
"""What is not complete, and was written to within this time, may be a save that goes on [s]."""

REMOVAL_S = 3600.0
"""Within this time a removal that was begun is believed to go on [s]."""

REPLACEMENT_S = 120.0
"""After a replacement that was cut off, nobody can pin what is there for this long [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pruned:
    """What became of the checkpoints that are not to be kept; paths of their folders."""

    removed: tuple[str, ...]
    """Or, where nothing was to be done but told, those that would be removed."""

    read: tuple[str, ...] = ()
    """Stay for now: somebody pinned them."""

    young: tuple[str, ...] = ()
    """Stay for now: not complete, and perhaps still being written."""


def prune(
    storage: Storage, root: str = "", *, keep: int, below: bool = True, dry_run: bool = False
) -> Pruned:
    """Remove all checkpoints below a folder but the newest.

    Args:
        storage: The store.
        root: The folder, relative to the store's root.
        keep: Newest complete checkpoints of each folder that stay; at least 1.
        below: Also in folders below this one, such as those of other runs.
        dry_run: Only tell what would be removed.

    Raises:
        CallerError: ``keep`` is below 1.
        NotFoundError: there is no such folder.
        StorageError: the store failed; what was removed is removed.
    """
    if keep < 1:
        raise CallerError(f"keep={keep} would remove the newest checkpoint; keep at least 1")
    found = [
        one
        for one in find_checkpoints(storage, root)
        if below or one.path.rpartition("/")[0] == root.strip("/")
    ]
    surplus = _unnamed(storage, _unlinked(found, superseded(found, keep)))
    begun = removals(storage, {root, *(one.path.rpartition("/")[0] for one in found)})
    unfinished = [one for one in surplus if not one.complete and one.path not in begun]
    young = [one.path for one in unfinished if _is_young(storage, one.path)]
    old = [one for one in surplus if one.path not in young]
    read = pinned(storage, [one.path for one in old])
    free = [one for one in old if one.path not in read]
    removed = [one.path for one in free if dry_run or remove_checkpoint(storage, one)]
    if not dry_run:
        _clear_remains(storage, begun - {one.path for one in found})
    return Pruned(
        removed=tuple(removed),
        read=tuple(one.path for one in old if one.path not in removed),
        young=tuple(young),
    )


def _unnamed(storage: Storage, surplus: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Return those to which no pointer leads."""
    folders = {one.path.rpartition("/")[0] for one in surplus}
    named = {folder: named_beside(storage, folder) for folder in folders}
    return [
        one
        for one in surplus
        if one.name not in named[one.path.rpartition("/")[0]] and not is_pointed_to(storage, one)
    ]


def _unlinked(found: Sequence[Checkpoint], surplus: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Return those whose very files are not found under a name without a step as well. Pure."""
    stay = {_versions(one) for one in found if one.step is None}
    return [one for one in surplus if _versions(one) not in stay]


def _versions(checkpoint: Checkpoint) -> frozenset[tuple[str, int, str]]:
    return frozenset((file.path, file.size, file.version) for file in checkpoint.files)


def superseded(found: Sequence[Checkpoint], keep: int) -> list[Checkpoint]:
    """Return the checkpoints of which enough newer ones are complete, by folder and step. Pure.

    One that is not complete is returned only if its marker is what is missing: of others it is
    not known whether they are merely not understood here.

    Args:
        found: All of the folders that they are in.
        keep: Newest complete ones of each folder that stay.
    """
    folders: dict[str, list[Checkpoint]] = defaultdict(list)
    for one in _outermost(found):
        if one.path and one.step is not None:
            folders[one.path.rpartition("/")[0]].append(one)
    return [one for path in sorted(folders) for one in _superseded_in(folders[path], keep)]


def remove_checkpoint(storage: Storage, checkpoint: Checkpoint) -> bool:
    """Remove a checkpoint unless somebody pins it; return whether it was removed.

    Raises:
        StorageError: the store failed; to be repeated.
    """
    removal = new_lease(new_owner(), REMOVAL_S)
    path = lease_path("removals", checkpoint.path, removal.owner)
    storage.write(path, msgspec.json.encode(removal))
    if pinned(storage, [checkpoint.path]):
        storage.delete(path)
        return False
    for file in _in_order_of_removal(checkpoint):
        storage.delete(checkpoint.file_path(file.path))
    _remove_folder(storage, checkpoint.path)
    return True


@contextmanager
def replacing(storage: Storage, path: str, owner: str) -> Iterator[None]:
    """Keep everybody from pinning a checkpoint while it is replaced; after a failure for a while.

    Args:
        storage: The store.
        path: The checkpoint's folder, relative to the store's root.
        owner: Who replaces it; the same when it is tried again.

    Raises:
        StorageError: somebody pins it already, or the store failed; to be repeated.
    """
    lease = lease_path("removals", path, owner)
    storage.write(lease, msgspec.json.encode(new_lease(owner, REPLACEMENT_S)))
    readers = [pin.lease.owner for pin in pins(storage, [path]) if pin.counts]
    if readers:
        storage.delete(lease)
        raise StorageError(
            f"{storage.url}/{path} is read by {readers[0]}; it is replaced once nobody reads it"
        )
    yield
    storage.delete(lease)


def _remove_folder(storage: Storage, path: str) -> None:
    """Remove a folder that holds no checkpoint any more, and all that was noted about it."""
    storage.delete_folder(path)
    for kind in KINDS:
        storage.delete_folder(leases_of(kind, path))


def _clear_remains(storage: Storage, paths: Iterable[str]) -> None:
    """Remove what is left of checkpoints whose removal was cut off, unless it is a new save."""
    for path in sorted(paths):
        if not _is_young(storage, path):
            _remove_folder(storage, path)


def _in_order_of_removal(checkpoint: Checkpoint) -> Iterator[CheckpointFile]:
    """Yield what must go before the folder does.

    First what appeared last, the marker if there is one; then the weights, which without what
    describes them would pass for a checkpoint of another layout.
    """
    yield from checkpoint.files[-1:]
    yield from (file for file in checkpoint.files[:-1] if file.role == "weights")


def _outermost(found: Sequence[Checkpoint]) -> Iterator[Checkpoint]:
    """Yield the checkpoints that are not part of another one."""
    paths = {one.path for one in found}
    for one in found:
        above = one.path.split("/")[:-1]
        if not any("/".join(above[:count]) in paths for count in range(len(above) + 1)):
            yield one


def _superseded_in(folder: Sequence[Checkpoint], keep: int) -> list[Checkpoint]:
    steps = sorted((one.step_order for one in folder if one.complete), reverse=True)
    if not steps:
        return []
    oldest_kept = steps[min(keep, len(steps)) - 1]
    old = [one for one in folder if one.complete and one.step_order < oldest_kept]
    unfinished = [one for one in folder if _lacks_marker(one) and one.step_order < steps[0]]
    return sorted(old + unfinished, key=lambda one: one.step_order)


def _lacks_marker(checkpoint: Checkpoint) -> bool:
    marker = checkpoint.marker
    return marker is not None and all(file.path != marker for file in checkpoint.files)


def _is_young(storage: Storage, path: str) -> bool:
    """Tell whether a folder was written to a short time ago, or nobody knows when."""
    try:
        written = [info.modified_s for info in storage.list(path)]
    except NotFoundError:
        return False
    now = store_time(storage, path.rpartition("/")[0])
    return any(now is None or at is None or now - at < YOUNG_S for at in written)
