"""Pins checkpoints at the source while they are copied, so that retention there leaves them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Set as AbstractSet

from headrace.checkpoint.pinning import PinHolder
from headrace.core.digest import name_digest
from headrace.core.errors import HeadraceError
from headrace.storage.port import Storage

log = logging.getLogger("headrace.controller.replicating")

OWNER_PREFIX = "replicate-"
"""Pins of owners that are called so are no evaluation's."""


class SourcePins:
    """The pins of one replication. Thread-safe; one is put or removed at a time.

    A source that cannot be written is copied from all the same: what is removed there midway is
    given up then.

    Args:
        source: The store that has the checkpoints; it must stay open.
        destination: URL of where they are copied to. One who goes on after this process died
            has the same owner's name by it, and so takes its pins over.
    """

    def __init__(self, source: Storage, destination: str) -> None:
        self._source = source
        digest = name_digest(source.url.encode(), destination.encode())
        self.owner = f"{OWNER_PREFIX}{digest[:16]}"
        self._lock = threading.Lock()
        self._pins: dict[str, PinHolder | None] = {}
        """By path; None: it could not be pinned."""

    def hold(self, path: str) -> None:
        """Pin a checkpoint unless it is; it is not an error if it cannot be."""
        with self._lock:
            if path and path not in self._pins:  # the root itself is in no folder to be pinned in
                self._pins[path] = self._held(path)

    def release(self, path: str) -> None:
        """Remove a checkpoint's pin, if it has one."""
        with self._lock:
            holder = self._pins.pop(path, None)
            if holder is not None:
                holder.__exit__(None, None, None)

    def release_others(self, paths: AbstractSet[str]) -> None:
        """Remove the pins of all checkpoints but these."""
        with self._lock:
            others = self._pins.keys() - paths
        for path in others:
            self.release(path)

    def _held(self, path: str) -> PinHolder | None:
        try:
            return PinHolder(self._source, path, owner=self.owner).__enter__()
        except (HeadraceError, OSError) as error:
            log.info("%s is copied without a pin at the source: %s", path, error)
            return None
