"""Lets pointers at the destination follow those that writers move beside their checkpoints.

``CheckpointWriter`` lets its user choose what the pointer is called, so a pointer is told by what
it holds: the name of a checkpoint beside it. (Those that a layout itself has are moved as its
checkpoints are published.) What the source's pointer named at one time or another is remembered:
it may be two saves ahead of what has arrived.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from headrace.checkpoint.find import open_checkpoint
from headrace.checkpoint.layout import Checkpoint
from headrace.checkpoint.naming import step_of
from headrace.checkpoint.pointers import named_by
from headrace.core.errors import CallerError, CorruptDataError, NotFoundError
from headrace.storage.paths import join
from headrace.storage.port import FileInfo, Storage

log = logging.getLogger("headrace.controller.replicating")


class WriterPointers:
    """The pointers of one replication. Thread-safe.

    Args:
        source: Where writers move them.
        destination: Where they are to follow.
    """

    def __init__(self, source: Storage, destination: Storage) -> None:
        self._source = source
        self._destination = destination
        self._lock = threading.Lock()
        self._named: dict[str, list[str]] = {}
        """Checkpoints that each pointer was seen to name, by its path; the last one last."""

        self._told: dict[str, str] = {}

    def look(self, seen: Mapping[str, Checkpoint], files: Iterable[FileInfo]) -> None:
        """Take in what pointers at the source name now.

        Args:
            seen: The source's checkpoints, by path.
            files: Those beside them.

        Raises:
            StorageError: one cannot be read.
        """
        of_layouts = {one.pointer.path for one in seen.values() if one.pointer is not None}
        others = [info for info in files if info.path not in of_layouts]
        named = {path: _beside(path, name) for path, name in named_by(self._source, others).items()}
        with self._lock:
            for path, now in named.items():
                before = self._named.get(path, [])
                self._named[path] = [one for one in before if one != now] + [now]
            left = {
                path: [one for one in ever if one in seen] for path, ever in self._named.items()
            }
            self._named = {path: ever for path, ever in left.items() if ever}

    def move(self, copies: Collection[str]) -> bool:
        """Let each name the newest that its pointer at the source named and that has arrived.

        Args:
            copies: Paths of the checkpoints that are complete at the destination.

        Returns:
            Whether one of them moved.

        Raises:
            StorageError: the destination failed; to be repeated.
        """
        with self._lock:
            arrived = {
                path: [one for one in reversed(ever) if one in copies]
                for path, ever in self._named.items()
            }
            moved = [
                self._move(path, max(ever, key=_step_order))
                for path, ever in arrived.items()
                if ever
            ]
        return any(moved)

    def _move(self, path: str, checkpoint: str) -> bool:
        try:
            moves = self._moves_on(path, checkpoint)
            if moves:
                self._destination.write(path, checkpoint.rpartition("/")[2].encode())
            self._told.pop(path, None)
        except CallerError as error:
            if self._told.get(path) != str(error):
                log.warning("%s/%s does not move: %s", self._destination.url, path, error)
            self._told[path] = str(error)
            return False
        return moves

    def _moves_on(self, path: str, checkpoint: str) -> bool:
        """Tell whether a pointer is to be written: it would not move back, nor name a half."""
        try:
            info = self._destination.stat(path)
        except NotFoundError:
            self._require_no_folder(path)
            return self._is_whole(checkpoint)
        name = named_by(self._destination, [info]).get(path, "")
        now = _beside(path, name)
        if info.size and not (name and (_step_order(now) >= 0 or self._is_whole(now))):
            raise CallerError("it names no checkpoint; remove it, and it follows the source's")
        is_newer = now != checkpoint and _step_order(now) <= _step_order(checkpoint)
        return is_newer and self._is_whole(checkpoint)

    def _require_no_folder(self, path: str) -> None:
        with suppress(NotFoundError):
            next(iter(self._destination.list(path, recursive=False)), None)
            raise CallerError("a folder is called so; remove it, and it follows the source's")

    def _is_whole(self, checkpoint: str) -> bool:
        try:
            return open_checkpoint(self._destination, checkpoint).complete
        except (NotFoundError, CorruptDataError):
            return False


def _beside(path: str, name: str) -> str:
    return join(path.rpartition("/")[0], name)


def _step_order(path: str) -> int:
    step = step_of(path)
    return -1 if step is None else step
