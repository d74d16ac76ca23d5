"""A checkpoint while one load goes on: its store, agents beside it, and its host's memory."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence

import torch

from headrace.checkpoint.dcp import require_metadata_size
from headrace.checkpoint.pointed import open_folder
from headrace.client.checkpoint.agentranges import AgentRanges
from headrace.client.checkpoint.checkpointlog import open_log
from headrace.client.checkpoint.sharing import SharedFolder, ShareLimits
from headrace.core.digest import name_digest
from headrace.storage.rangefile import ReadsRanges
from headrace.wire.endpoint import Endpoint

_log = logging.getLogger("headrace.checkpoint")


class OpenCheckpoint:
    """What a load reads through. For one thread but for ``source``."""

    def __init__(
        self,
        url: str,
        agents: Sequence[Endpoint],
        sharing: ShareLimits | None,
        trace: str | os.PathLike[str] | bool,
    ) -> None:
        """Open the store.

        Args:
            url: The checkpoint's folder.
            agents: To read through; none: directly.
            sharing: How to share with other ranks of the host; None: not at all.
            trace: Where what is read is recorded.

        Raises:
            NotFoundError: there is no such folder; of a pointer it says what it names.
            StorageError: the store cannot be reached.
        """
        self._storage = open_folder(url)
        self.log = open_log(url, trace, rank=own_rank())
        """Records what is read."""

        self._sharing = sharing
        self._agents: AgentRanges | None = None
        if agents:
            reader = f"{socket.gethostname()}/{os.environ.get('RANK', os.getpid())}"
            self._agents = AgentRanges(self._storage, agents, reader=reader)
        self.folder: SharedFolder | None = None
        """The memory shared with other ranks of the host, once ``enter_shared`` was called."""

    @property
    def source(self) -> ReadsRanges:
        """What reads ranges of its files. Thread-safe."""
        return self._agents or self._storage

    def agent_bytes(self) -> int:
        """Return what agents served up to now [bytes]."""
        return 0 if self._agents is None else self._agents.statistics().agent_bytes

    def read_metadata(self, name: str) -> bytes:
        """Return a whole file of metadata.

        Raises:
            NotFoundError: there is none.
            CorruptDataError: it is too long to be one.
            StorageError: it cannot be read.
        """
        size = self._storage.stat(name).size
        require_metadata_size(name, size)
        return self.source.read(name, 0, size)

    def enter_shared(self, name: str) -> SharedFolder | None:
        """Return the memory in which ranks of this host share a load; None: they do not.

        Args:
            name: Of the file that tells one state of the checkpoint from another.
        """
        if self._sharing is None or not _has_others_here():
            return None
        info = self._storage.stat(name)
        key = name_digest(f"{self._storage.url}/{name}/{info.version}/{info.size}".encode())
        try:
            self.folder = SharedFolder(key, self._sharing)
        except OSError as error:
            _log.warning("%s; ranks of this host read each for itself", error)
        if self.folder is not None and not self.folder.has_room(0):
            _log.warning(
                "%s has less than %.0f %% of its space free, which sharing.keep_free leaves to "
                "others; ranks of this host read each for itself",
                self._sharing.folder,
                100 * self._sharing.keep_free,
            )
        if self._agents is not None:
            self._agents.share(self.folder)
        return self.folder

    def leave(self) -> None:
        """Let go of the memory shared with other ranks."""
        folder, self.folder = self.folder, None
        if folder is not None:
            if self._agents is not None:
                self._agents.share(None)
            folder.leave()

    def close(self) -> None:
        """Let go of everything."""
        self.leave()
        if self._agents is not None:
            self._agents.close()
        self._storage.close()
        self.log.leave()


def own_rank() -> int | None:
    """Return this process's rank; None: torch has not begun to count them."""
    is_counted = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_rank() if is_counted else None


def _has_others_here() -> bool:
    """Tell whether other ranks of this job may run on this host."""
    return (
        torch.distributed.is_available()
        and torch.distributed.is_initialized()
        and torch.distributed.get_world_size() > 1
        and os.environ.get("LOCAL_WORLD_SIZE") != "1"
    )
