"""The writer that ``torch.distributed.checkpoint.save`` and ``async_save`` take."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch.distributed.checkpoint._extension import StreamTransformExtension
from torch.distributed.checkpoint.filesystem import CURRENT_DCP_VERSION, _StorageWriterTransforms
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future

from headrace.checkpoint.dcp import METADATA, SHARD_SUFFIX
from headrace.checkpoint.manifest import Manifest, write_manifest
from headrace.checkpoint.pins import pinned
from headrace.checkpoint.retention import prune
from headrace.client.checkpoint.burst import AnnouncedSave, SaveAnnouncement
from headrace.client.checkpoint.checkpointlog import CheckpointLog, open_log
from headrace.client.checkpoint.place import Place, open_place
from headrace.client.held import Held
from headrace.client.limiter import DirectLimiter
from headrace.client.torch.checkpoint.opened import own_rank
from headrace.client.torch.checkpoint.places import can_open
from headrace.client.torch.checkpoint.saving import FileResult, Saving, item_bytes
from headrace.client.torch.checkpoint.statistics import WriterStatistics
from headrace.core.errors import (
    CallerError,
    ConfigError,
    HeadraceError,
    NotFoundError,
    StorageError,
)
from headrace.storage.paths import join

_log = logging.getLogger("headrace.checkpoint")

VISIBLE_S = 60.0
"""Longest wait until this host sees what others wrote: NFS keeps listings for a minute [s]."""

LOOK_AGAIN_S = 1.0
"""Between two looks [s]."""

_LEAST_BYTES_PER_S = 1e6
"""What a rank may write at least, as objects are not counted [B/s]."""

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class _Orders:
    """What the coordinator tells a rank, in its plan."""

    naming: str
    """Of its files, with ``{}`` for their number."""

    bytes_per_s: float | None = None
    """Its rate; None: as fast as it can [B/s]."""


class CheckpointWriter(StorageWriter):
    """Writes a checkpoint of ``torch.distributed.checkpoint`` to any store.

    ``dcp.save(state_dict, storage_writer=CheckpointWriter("hdfs:///runs/7/step-1000"))``. The
    files are those that torch writes itself, but for names that no other save gives to its files.
    Nobody sees the checkpoint before all of it is durable; saved over an older one, that one is
    whole until the new one takes its place in one step. For one save at a time.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        streams: int = 4,
        overwrite: bool = True,
        pointer: str | None = None,
        keep: int | None = None,
        announcement: SaveAnnouncement | None = None,
        extensions: Sequence[StreamTransformExtension] | None = None,
        trace: str | os.PathLike[str] | bool = True,
    ) -> None:
        """Prepare to write; the store is asked when a save begins.

        Args:
            url: The checkpoint's folder; it need not be there.
            streams: Files that each rank writes at once.
            overwrite: Save over a checkpoint that is there; else it is an error.
            pointer: Name of a file beside the checkpoint's folder, such as ``latest``, that is
                to name the newest checkpoint; written after everything else.
            keep: Complete checkpoints to keep in the folder above; older ones are removed after a
                save, unless somebody pinned them. None: all.
            announcement: Announce saves to the controller, and hold all ranks together to the
                rate that it gives.
            extensions: Transform each item as it is saved, as for torch's ``FileSystemWriter``.
            trace: Where saves are recorded, as of :class:`headrace.Loader`.

        Raises:
            ConfigError: a value is out of its range.
        """
        super().__init__()
        if streams < 1:
            raise ConfigError(f"streams={streams} must be 1 or more")
        if pointer is not None and ("/" in pointer or pointer in ("", ".", "..")):
            raise ConfigError(f"pointer={pointer!r} must be the name of a file, without a folder")
        if keep is not None and keep < 1:
            raise ConfigError(f"keep={keep} would remove the checkpoint itself; keep 1 or more")
        self._url = os.fspath(url)
        self._streams = streams
        self._overwrite = overwrite
        self._pointer = pointer
        self._keep = keep
        self._announcement = announcement
        self._announced: AnnouncedSave | None = None
        self._transforms = _StorageWriterTransforms(extensions)
        self._place: Place | None = None
        self._trace = trace
        self._recorded: CheckpointLog | None = None
        self._written_at: float | None = None
        """When this rank's files were durable, monotonic [s]."""

        self._save_id = ""
        self._before: tuple[str, ...] = ()
        """Shards, and beginnings of some, that were there when the save began."""
        self._alone: int | None = None
        self._statistics = WriterStatistics()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is open: ``async_save`` may send the writer to another process."""
        return {**self.__dict__, "_place": None, "_announced": None, "_recorded": None}

    @property
    def checkpoint_id(self) -> str:
        """The checkpoint's folder."""
        return self._url

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Tell whether this is a URL or path of a store that can be written here."""
        return can_open(checkpoint_id)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin another save, to another folder if one is named (a URL or path)."""
        self.close()
        if checkpoint_id:
            self._url = os.fspath(checkpoint_id)

    def storage_meta(self) -> StorageMeta:
        """Return what metadata says of the save itself."""
        return StorageMeta(checkpoint_id=self._url, save_id=self._save_id)

    def set_up_storage_writer(
        self,
        is_coordinator: bool,  # noqa: ARG002 - all ranks do the same
        *_: Any,
        rank: int | None = None,
        use_collectives: bool = True,
        **kwargs: Any,  # noqa: ARG002 - torch looks for the name and gives more in time
    ) -> None:
        """Begin a save; take note of whether this rank saves by itself, without the others.

        Raises:
            CallerError: it does, so that nobody knows when all are done, and a pointer is to move.
        """
        if not use_collectives and (self._pointer is not None or self._keep is not None):
            raise CallerError(
                f"without collectives no rank knows when {self._url} is complete; save with them, "
                "or without pointer and keep"
            )
        self._alone = None if use_collectives else rank
        self._save_id = str(uuid.uuid4())

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Return the plan, with the names of files where no coordinator gives them."""
        if self._alone is None:
            return plan
        return replace(plan, storage_data=_Orders(f"__{self._alone}_{self._ending()}"))

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Return the plans with the names of each rank's files."""
        if self._alone is not None:
            return plans
        ending = self._ending()
        nbytes = [sum(map(item_bytes, plan.items)) for plan in plans]
        rate = self._announce(sum(nbytes))
        return [
            replace(plan, storage_data=_Orders(f"__{rank}_{ending}", _part(rate, nbytes, rank)))
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write all items of the plan; they are durable when this returns.

        Raises:
            StorageError: the store does not take them; nothing of this rank's is left then.
        """
        begin = time.monotonic()
        orders: _Orders = plan.storage_data
        limiter = DirectLimiter(Held())
        limiter.set_rate(orders.bytes_per_s)
        saving = Saving(
            planner,
            self._opened(),
            streams=self._streams,
            transforms=self._transforms,
            limiter=limiter,
            log=self._log(),
        )
        results = saving.save(plan.items, orders.naming)
        files = [one.file for one in results if isinstance(one, FileResult)]
        self._statistics = WriterStatistics(
            items=len(results),
            files=len(files),
            written_bytes=sum(file.size for file in files),
            begun_anew=len(saving.begun) - len(files),
            save_s=time.monotonic() - begin,
        )
        counts = {"items": len(results), "files": len(files)}
        self._log().saved(begin, self._statistics.written_bytes, counts)
        self._written_at = time.monotonic()
        _log.info("%s: %s", self._url, self._statistics)
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Make the checkpoint appear, now that all ranks' files are durable.

        Raises:
            StorageError: a file of another rank is not there, or the store refuses.
        """
        if self._written_at is not None:
            self._log().waited(self._written_at)
        begin, place = time.monotonic(), self._opened()
        everything = [one for rank in results for one in rank]
        files = {
            one.storage_data.relative_path: one.file
            for one in everything
            if isinstance(one, FileResult)
        }
        self._require_all(place, {name: file.size for name, file in files.items()})
        if self._alone is None:
            write_manifest(place.storage, place.folder, Manifest(files=files))
        metadata.version = CURRENT_DCP_VERSION
        metadata.storage_data = {one.index: one.storage_data for one in everything}
        metadata.storage_meta = self.storage_meta()
        place.storage.write(place.path(self._marker), pickle.dumps(metadata))
        if self._pointer is not None:
            self._point(place, self._pointer)
        self._log().called("publish", begin)
        self._end_announcement()
        self._remove_others(place)
        if self._keep is not None:
            self._remove_older(place, self._keep)

    def statistics(self) -> WriterStatistics:
        """Return what this rank's last save took."""
        return self._statistics

    def close(self) -> None:
        """Let go of the store; another save opens it again."""
        self._end_announcement()
        place, self._place = self._place, None
        if place is not None:
            place.storage.close()
        recorded, self._recorded = self._recorded, None
        if recorded is not None:
            recorded.leave()

    @property
    def _marker(self) -> str:
        return METADATA if self._alone is None else f"__{self._alone}{METADATA}"

    def _log(self) -> CheckpointLog:
        if self._recorded is None:
            self._recorded = open_log(self._url, self._trace, rank=own_rank())
        return self._recorded

    def _opened(self) -> Place:
        if self._place is None:
            self._place = open_place(self._url)
        return self._place

    def _ending(self) -> str:
        """Return how files' names end: as those of no other save, be it one that goes on as well.

        Raises:
            CallerError: there is a checkpoint, and it is not to be written over.
        """
        place = self._opened()
        if not self._overwrite:
            self._require_nothing(place)
        own = r"\d+" if self._alone is None else str(self._alone)
        is_shard = re.compile(rf"\.?__{own}_.*{re.escape(SHARD_SUFFIX)}(\.\w+\.part)?")
        self._before = tuple(name for name, _ in self._files(place) if is_shard.fullmatch(name))
        return f"{{}}-{self._save_id[:8]}{SHARD_SUFFIX}"

    def _require_nothing(self, place: Place) -> None:
        with contextlib.suppress(NotFoundError):
            place.storage.stat(place.path(self._marker))
            raise CallerError(
                f"{self._url} holds a checkpoint already; name another folder, or give "
                "overwrite=True"
            )

    def _announce(self, nbytes: int) -> float | None:
        """Return the rate that all ranks together may take; None: no limit [B/s]."""
        self._end_announcement()
        if self._announcement is None or not nbytes:
            return None
        name = _NO_NAME.sub("-", self._opened().name)[-64:] or "checkpoint"
        self._announced = AnnouncedSave(self._announcement, name, nbytes)
        return self._announced.begin()

    def _end_announcement(self) -> None:
        announced, self._announced = self._announced, None
        if announced is not None:
            announced.end()

    def _point(self, place: Place, pointer: str) -> None:
        place.storage.write(join(place.parent, pointer), place.name.encode())

    def _require_all(self, place: Place, sizes: dict[str, int]) -> None:
        """Make sure that this host sees what all ranks wrote; caches of NFS may take a while."""
        give_up_at = time.monotonic() + VISIBLE_S
        while True:
            found = dict(self._files(place))
            unseen = [name for name, size in sizes.items() if found.get(name) != size]
            if not unseen:
                return
            if time.monotonic() > give_up_at:
                raise StorageError(
                    f"{unseen[0]} and {len(unseen) - 1} more files in {self._url} are not there "
                    "or not whole, although their ranks wrote them; is the folder the same one "
                    "on all hosts?"
                )
            time.sleep(LOOK_AGAIN_S)

    def _files(self, place: Place) -> Iterator[tuple[str, int]]:
        """Yield names and sizes of the folder's own files [bytes]; none if it is not there."""
        begin = len(place.folder) + 1 if place.folder else 0
        with contextlib.suppress(NotFoundError):
            for info in place.storage.list(place.folder):
                name = info.path[begin:]
                if "/" not in name:
                    yield name, info.size

    def _remove_others(self, place: Place) -> None:
        """Remove shards of the checkpoint that was written over, and of saves that failed."""
        try:
            if self._before and place.folder and pinned(place.storage, [place.folder]):
                _log.info("%s is pinned: what was there stays until the next save", self._url)
                return
            for name in self._before:
                place.storage.delete(place.path(name))
        except HeadraceError as error:
            _log.warning("%s; it is no part of the checkpoint, the next save removes it", error)

    def _remove_older(self, place: Place, keep: int) -> None:
        try:
            pruned = prune(place.storage, place.parent, keep=keep, below=False)
        except HeadraceError as error:
            _log.warning("%s; the checkpoint is saved, but older ones are still there", error)
            return
        if pruned.removed:
            _log.info("removed %s", ", ".join(pruned.removed))


def _part(rate: float | None, nbytes: Sequence[int], rank: int) -> float | None:
    """Return one rank's part of the rate, by what it writes [B/s]."""
    return None if rate is None else max(rate * nbytes[rank] / sum(nbytes), _LEAST_BYTES_PER_S)
