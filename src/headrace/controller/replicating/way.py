"""The two stores of one replication: what lies there, and the steps of a copy between them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain

from headrace.checkpoint.layout import Checkpoint
from headrace.checkpoint.pins import pins
from headrace.checkpoint.retention import prune, replacing
from headrace.controller.replicating.destination import require_apart
from headrace.controller.replicating.pointing import WriterPointers
from headrace.controller.replicating.sourcepins import OWNER_PREFIX, SourcePins
from headrace.controller.replicating.watching import Damaged, RootWatcher
from headrace.core.errors import NotFoundError, StaleError
from headrace.policy.replication.events import (
    Chunk,
    CopyKey,
    HeldCheckpoint,
    Listed,
    Prepared,
    SeenCheckpoint,
    SeenFile,
)
from headrace.storage.port import Storage
from headrace.transfer.chunk import ChunkTask
from headrace.transfer.group import grouped
from headrace.transfer.held import held_chunks, noted_at
from headrace.transfer.plan import FilePlan, Route, plan_file
from headrace.transfer.publishing import Publication, is_published, publish
from headrace.transfer.staging import Staging, remove_staged, staged_bytes

log = logging.getLogger("headrace.controller.replicating")


@dataclass(slots=True)
class _Planned:
    """How the files of one checkpoint are cut."""

    plans: dict[str, FilePlan] = field(default_factory=dict)
    groups: dict[str, tuple[ChunkTask, ...]] = field(default_factory=dict)


class Way:
    """From one root to another. Thread-safe; each step may wait for the stores.

    Args:
        name: Of the replication.
        source: The store that has the checkpoints.
        destination: The store that gets them.

    Raises:
        CallerError: one of the roots is the other, or lies in it.
    """

    def __init__(self, name: str, source: Storage, destination: Storage) -> None:
        require_apart(source.url, destination.url)
        self.name = name
        self.source, self.destination = source, destination
        self._source_root = RootWatcher(source)
        self._destination_root = RootWatcher(destination)
        self._pins = SourcePins(source, destination.url)
        self._pointers = WriterPointers(source, destination)
        self._lock = threading.Lock()
        self._pointing = threading.Lock()
        self._pointed_steps: dict[str, int] = {}
        """By folder the newest that was published here; the last look need not know of it yet."""

        self._seen: dict[str, Checkpoint] = {}
        self._held: tuple[Checkpoint, ...] = ()
        self._copies: set[str] = set()
        self._planned: dict[str, _Planned] = {}
        self._described: dict[str, tuple[Checkpoint | Damaged, SeenCheckpoint]] = {}
        self._same: dict[str, tuple[Checkpoint, Checkpoint, bool]] = {}

    def look(self, now: float) -> Listed:
        """Return what lies at both roots.

        Args:
            now: Monotonic time [s].

        Raises:
            NotFoundError: the source is not there.
            StorageError: a store does not answer; the message says which and why.
        """
        found = self._source_root.look()
        held = [one for one in self._look_at_destination() if one.complete]
        seen = {one.path: one for one in found if isinstance(one, Checkpoint)}
        with self._lock:
            self._seen = seen
            self._held = tuple(held)
            self._planned = {path: one for path, one in self._planned.items() if path in seen}
        there = {one.path for one in found}
        self._same = {path: one for path, one in self._same.items() if path in there}
        self._described = {path: one for path, one in self._described.items() if path in there}
        described = tuple(self._describe_held(one, seen.get(one.path)) for one in held)
        copies = {one.path for one in described if one.is_copy}
        self._pins.release_others(there - copies)
        with self._lock:
            self._copies = copies
        beside = (self._source_root.files_in(run) for run in {_run(path) for path in seen if path})
        self._pointers.look(seen, chain.from_iterable(beside))
        return Listed(
            replication=self.name,
            looked_at=now,
            seen=tuple(self._describe(one) for one in found),
            held=described,
        )

    def point(self) -> bool:
        """Let the destination's pointers name what the source's name, as far as it has arrived.

        Returns:
            Whether one of them moved.

        Raises:
            StorageError: the destination failed.
        """
        with self._lock:
            copies = frozenset(self._copies)
        return self._pointers.move(copies)

    def tidy(self) -> dict[str, int]:
        """Remove what was staged of checkpoints that are copied, or not at the source any more.

        Returns:
            What is staged of the others, by path [bytes].

        Raises:
            StorageError: it cannot be removed.
        """
        with self._lock:
            open_ones = [path for path in self._seen if not self._is_held_copy(path)]
            paths = {self._route(path).staging: path for path in open_ones}
        staged = staged_bytes(self.destination)
        for folder in sorted(staged.keys() - paths.keys()):
            remove_staged(self.destination, folder)
            log.info("removed %s at %s, which is of no checkpoint", folder, self.destination.url)
        return {paths[folder]: nbytes for folder, nbytes in staged.items() if folder in paths}

    def prepare(self, path: str, files: Iterable[str]) -> Prepared:
        """Cut files of a checkpoint into chunks, and look which of them are there already.

        Raises:
            StaleError: the files are not there as they were seen.
            StorageError: a store does not answer.
        """
        checkpoint = self._checkpoint(path)
        manifest = noted_at(self.source, path)
        newest_first = sorted(self._held, key=lambda one: -one.step_order)
        folders = [one.path for one in newest_first]
        held = held_chunks(self.destination, folders) if manifest.files else {}
        wanted = set(files)
        plans = [
            plan_file(self._route(path), file, manifest=manifest, held=held)
            for file in checkpoint.files
            if file.path in wanted
        ]
        if len(plans) != len(wanted):
            raise StaleError(f"{self.source.url}/{path} changed while it was looked at")
        missing = Staging(self.destination, self._route(path)).look().missing(plans)
        groups = {_key(group): group for group in grouped(missing)}
        with self._lock:
            planned = self._planned.setdefault(path, _Planned())
            planned.plans.update((plan.file.path, plan) for plan in plans)
            planned.groups.update(groups)
        whole = sum(plan.file.size for plan in plans)
        return Prepared(
            key=CopyKey(self.name, path),
            chunks=tuple(_chunk(key, group, path) for key, group in groups.items()),
            here_bytes=whole - sum(task.length for task in missing),
        )

    def tasks(self, path: str, chunk: str) -> tuple[ChunkTask, ...]:
        """Return what a chunk consists of; its checkpoint is pinned at the source from then on.

        Raises:
            StaleError: the checkpoint is not there any more.
        """
        with self._lock:
            planned = self._planned.get(path)
            if planned is None or chunk not in planned.groups:
                raise StaleError(f"{self.source.url}/{path} is not there any more")
            tasks = planned.groups[chunk]
        self._pins.hold(path)
        return tasks

    def chunk_is_done(self, path: str, chunk: str) -> None:
        """Forget a chunk that is staged."""
        with self._lock:
            if path in self._planned:
                self._planned[path].groups.pop(chunk, None)

    def publish(self, path: str, *, replace: bool = False) -> None:
        """Make a checkpoint appear whose chunks are all staged.

        Args:
            path: Its folder's.
            replace: Take away another one that lies in its place.

        Raises:
            StaleError: not all that is there now is staged.
            CallerError: another one lies in its place.
            StorageError: the destination failed, or somebody reads what is to be replaced.
        """
        checkpoint = self._checkpoint(path)
        with ExitStack() as held:
            # The pointer must not move back: of those that move it one at a time is published.
            if checkpoint.pointer is not None:
                held.enter_context(self._pointing)
            if replace and path and any(one.path == path for one in self._held):
                held.enter_context(replacing(self.destination, path, self._pins.owner))
            publish(self._publication(checkpoint, replace=replace), self.destination)
            self._pointed_steps[_run(path)] = max(self._newest_step(path), checkpoint.step_order)
        with self._lock:
            self._copies.add(path)
        self.point()
        self.forget(path)

    def forget(self, path: str) -> None:
        """Forget how a checkpoint was cut; the source may remove it."""
        with self._lock:
            self._planned.pop(path, None)
        self._pins.release(path)

    def unstage(self, path: str) -> None:
        """Remove what was staged of a checkpoint.

        Raises:
            StorageError: it cannot be removed.
        """
        self.forget(path)
        Staging(self.destination, self._route(path)).remove()

    def prune(self, keep: int) -> bool:
        """Rid the destination of all but the newest; return whether some only wait for readers.

        Raises:
            StorageError: the destination failed.
        """
        try:
            pruned = prune(self.destination, keep=keep)
        except NotFoundError:  # nothing was copied yet
            return False
        return bool(pruned.read)

    def readers(self) -> frozenset[tuple[str, str]]:
        """Return who reads which checkpoint of the destination, as far as they say so by pins.

        Raises:
            StorageError: the destination does not answer.
        """
        with self._lock:
            held = [one.path for one in self._held]
        found = pins(self.destination, held)
        return frozenset(
            (pin.checkpoint, pin.lease.owner)
            for pin in found
            if pin.counts and not pin.lease.owner.startswith(OWNER_PREFIX)
        )

    def close(self) -> None:
        """Remove the pins, and close both stores."""
        self._pins.release_others(frozenset())
        self.source.close()
        self.destination.close()

    def _describe(self, found: Checkpoint | Damaged) -> SeenCheckpoint:
        """Return what the policy is told; the very same while nothing changed."""
        known = self._described.get(found.path)
        if known is None or known[0] is not found:
            known = self._described[found.path] = found, _described(found)
        return known[1]

    def _look_at_destination(self) -> list[Checkpoint]:
        try:
            found = self._destination_root.look()
        except NotFoundError:  # it is made with the first file
            return []
        return [one for one in found if isinstance(one, Checkpoint)]

    def _describe_held(self, held: Checkpoint, seen: Checkpoint | None) -> HeldCheckpoint:
        is_copy = seen is not None and seen.complete and self._is_copy(seen, held)
        return HeldCheckpoint(path=held.path, step=held.step, is_copy=is_copy)

    def _is_copy(self, seen: Checkpoint, held: Checkpoint) -> bool:
        known = self._same.get(seen.path)
        if known is None or known[:2] != (seen, held):
            manifest = noted_at(self.source, seen.path)
            route = self._route(seen.path)
            plans = [plan_file(route, file, manifest=manifest) for file in seen.files]
            publication = Publication(route=route, checkpoint=seen, plans=plans)
            known = (seen, held, is_published(publication, self.destination))
            self._same[seen.path] = known
        return known[2]

    def _is_held_copy(self, path: str) -> bool:
        """Tell whether the last look found a copy of a checkpoint."""
        known = self._same.get(path)
        return known is not None and known[2] and any(one.path == path for one in self._held)

    def _publication(self, checkpoint: Checkpoint, *, replace: bool) -> Publication:
        with self._lock:
            planned = self._planned.get(checkpoint.path, _Planned()).plans
            plans = [planned.get(file.path) for file in checkpoint.files]
        whole = [plan for plan in plans if plan is not None]
        if [plan.file for plan in whole] != list(checkpoint.files):
            raise StaleError(f"{self.source.url}/{checkpoint.path} changed while it was copied")
        return Publication(
            route=self._route(checkpoint.path),
            checkpoint=checkpoint,
            plans=whole,
            replace=replace,
            move_pointer=checkpoint.step_order >= self._newest_step(checkpoint.path),
        )

    def _newest_step(self, path: str) -> int:
        """Return the newest step at the destination of the run that a checkpoint is of."""
        steps = (one.step_order for one in self._held if _run(one.path) == _run(path))
        return max(self._pointed_steps.get(_run(path), -1), *steps, -1)

    def _checkpoint(self, path: str) -> Checkpoint:
        with self._lock:
            if path not in self._seen:
                raise StaleError(f"{self.source.url}/{path} is not there any more")
            return self._seen[path]

    def _route(self, path: str) -> Route:
        return Route(source=self.source.url, destination=self.destination.url, checkpoint=path)


def _run(path: str) -> str:
    """Return the folder that a checkpoint's is in: each is of another run."""
    return path.rpartition("/")[0]


def _described(found: Checkpoint | Damaged) -> SeenCheckpoint:
    if isinstance(found, Damaged):
        return SeenCheckpoint(path=found.path, unreadable=found.reason)
    return SeenCheckpoint(
        path=found.path,
        step=found.step,
        files={file.path: SeenFile(file.size, file.version) for file in found.files},
        missing=found.missing,
        marker=found.marker,
    )


def _key(group: Sequence[ChunkTask]) -> str:
    """Name a group: the first of its tasks is in no other."""
    return group[0].staged


def _chunk(key: str, group: Sequence[ChunkTask], path: str) -> Chunk:
    below = len(path) + 1 if path else 0
    return Chunk(
        key=key,
        nbytes=sum(task.length for task in group),
        files=tuple(dict.fromkeys(task.path[below:] for task in group)),
    )
