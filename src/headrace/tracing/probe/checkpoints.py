"""Watches reads and saves of checkpoints by torch, and by its distributed checkpoint."""

from __future__ import annotations

import functools
import io
import os
from pathlib import Path
from typing import Any

from .tracer import Call, Tracer, Watcher

READ, SAVE = "checkpoint_read", "checkpoint_save"


class Checkpoints:
    """Watches them in one process."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._files = Watcher("calls of torch.load and torch.save")
        self._folders = Watcher("distributed checkpoints")

    def watch_serialization(self, module: Any) -> None:
        """Watch ``torch.load`` and ``torch.save``."""
        for name, kind, place in (("load", READ, 0), ("save", SAVE, 1)):
            note = functools.partial(self._note_file, kind, f"torch.{name}", "f", place)
            setattr(module, name, self._files.timed(getattr(module, name), note))

    def watch_lightning(self, module: Any) -> None:
        """Watch saves of Lightning, which has ``torch.save`` write to memory first."""
        note = functools.partial(self._note_file, SAVE, "lightning.save", "filepath", 1)
        module._atomic_save = self._files.timed(module._atomic_save, note)

    def watch_distributed_loads(self, module: Any) -> None:
        """Watch loads of distributed checkpoints."""
        self._watch_folder(module, "load", READ)

    def watch_distributed_saves(self, module: Any) -> None:
        """Watch saves of distributed checkpoints.

        Of one in the background, ``async_save`` is what the loop stands still for; its ``save``
        is on a thread of its own.
        """
        self._watch_folder(module, "save", SAVE)
        self._watch_folder(module, "async_save", SAVE)

    def _watch_folder(self, module: Any, name: str, kind: str) -> None:
        note = functools.partial(self._note_folder, kind, f"torch.distributed.checkpoint.{name}")
        watched = self._folders.timed(getattr(module, name), note, before=self._tracer.moved_bytes)
        setattr(module, name, watched)

    def _note_file(self, kind: str, name: str, parameter: str, place: int, call: Call) -> None:
        target = call.argument(parameter, place)
        is_path = isinstance(target, str | os.PathLike)
        if isinstance(target, io.BytesIO) or (self._folders.is_anyone_inside and not is_path):
            return  # memory, or a part of a distributed checkpoint
        nbytes = size_of(target) if is_path and not call.named.get("mmap") else None
        self._tracer.record(
            kind, call.began, call.took, name=name, file=path_of(target), bytes=nbytes
        )

    def _note_folder(self, kind: str, name: str, call: Call) -> None:
        port = call.named.get("storage_reader") or call.named.get("storage_writer")
        file = path_of(call.named.get("checkpoint_id") or getattr(port, "path", None))
        before, after = call.before, self._tracer.moved_bytes()
        moved = after[kind == SAVE] - before[kind == SAVE]
        self._tracer.record(kind, call.began, call.took, name=name, file=file, bytes=moved or None)


def path_of(target: Any) -> str | None:
    """Return the path of a path, or of an open file; None where it has none."""
    if not isinstance(target, str | os.PathLike):
        target = getattr(target, "name", None) or getattr(target, "path", None)
    if not isinstance(target, str | os.PathLike):
        return None
    path = os.fsdecode(target)
    return path if "://" in path else str(Path(path).absolute())


def size_of(path: str | os.PathLike[str]) -> int | None:
    """Return a file's size [bytes]; None where it is not there, or not on a disk."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return None
