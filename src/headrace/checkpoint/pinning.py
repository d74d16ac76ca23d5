"""Holds a pin while a checkpoint is read: put, renewed in the background, removed at the end."""

from __future__ import annotations

import logging
import os
import threading
import time
from types import TracebackType

import msgspec

from headrace.checkpoint.above import open_above
from headrace.checkpoint.pins import (
    LEASE_S,
    Lease,
    lease_path,
    new_lease,
    new_owner,
    put_pin,
    remove_pin,
)
from headrace.core.errors import HeadraceError, NotFoundError
from headrace.storage.port import Storage

log = logging.getLogger("headrace.checkpoint")

RENEWALS = 4
"""Times that a pin is renewed within its lease, so that three may fail."""

JOIN_S = 5.0
"""Longest wait for a renewal that is under way when the pin is removed [s]."""


class PinHolder:
    """A pin that is held: a context manager. Its checkpoint is not removed by retention meanwhile.

    Args:
        storage: The store; it must stay open.
        checkpoint: Path of the checkpoint's folder, relative to the store's root.
        owner: Whose pin it is; None: a name that nobody else has.
        lease_s: How long it counts if this process dies [s].
        closes: Close the store at the end.
    """

    def __init__(
        self,
        storage: Storage,
        checkpoint: str,
        *,
        owner: str | None = None,
        lease_s: float = LEASE_S,
        closes: bool = False,
    ) -> None:
        self._storage = storage
        self._checkpoint = checkpoint
        self._lease = new_lease(owner or new_owner(), lease_s)
        self._closes = closes
        self._ending = threading.Event()
        self._written_at = -lease_s
        self._lost = False
        self._thread = threading.Thread(target=self._renew_on, name="pin", daemon=True)

    @property
    def lease(self) -> Lease:
        """What the pin's file says."""
        return self._lease

    @property
    def holds(self) -> bool:
        """Whether the pin counts, as far as this process can tell."""
        is_fresh = time.monotonic() < self._written_at + self._lease.lease_s
        return is_fresh and not self._lost and not self._ending.is_set()

    def __enter__(self) -> PinHolder:
        """Put the pin.

        Raises:
            CallerError: the checkpoint is the root of a store.
            NotFoundError: there is no such checkpoint, or it is being removed.
            StorageError: the pin cannot be written.
        """
        begun = time.monotonic()
        try:
            put_pin(self._storage, self._checkpoint, self._lease)
        except BaseException:
            self._close()
            raise
        self._written_at = begun
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the pin; one that cannot be removed counts no more after its lease."""
        self._ending.set()
        self._thread.join(JOIN_S)
        try:
            remove_pin(self._storage, self._checkpoint, self._lease.owner)
        except HeadraceError as failure:
            log.warning("the pin stays for %g s more: %s", self._lease.lease_s, failure)
        self._close()

    def renew(self) -> None:
        """Write the pin anew, as the background does by itself.

        Raises:
            NotFoundError: somebody removed the pin; it is not put again.
            StorageError: it cannot be written.
        """
        path = lease_path("pins", self._checkpoint, self._lease.owner)
        begun = time.monotonic()
        self._storage.stat(path)
        self._storage.write(path, msgspec.json.encode(self._lease))
        self._written_at = begun

    def _renew_on(self) -> None:
        while not self._ending.wait(self._lease.lease_s / RENEWALS):
            try:
                self.renew()
            except NotFoundError:
                self._lost = True
                log.warning(
                    "somebody removed the pin of %s/%s; it may be removed while it is read",
                    self._storage.url,
                    self._checkpoint,
                )
                return
            except HeadraceError as error:
                log.warning("the pin could not be renewed; it is tried again: %s", error)

    def _close(self) -> None:
        if self._closes:
            self._storage.close()


def pin(
    url: str | os.PathLike[str], *, owner: str | None = None, lease_s: float = LEASE_S
) -> PinHolder:
    """Return a pin of a checkpoint, to be held in a ``with`` block while it is read.

    Retention (``headrace checkpoint prune``, ``headrace replicate --keep``,
    ``CheckpointWriter(keep=…)``) leaves a pinned checkpoint alone. If this process dies, the
    pin counts for ``lease_s`` more.

    Args:
        url: The checkpoint's folder, as a path or URL.
        owner: Whose pin it is; None: a name that nobody else has.
        lease_s: See above [s].

    Raises:
        CallerError: the owner's name cannot be one of a file.
        NotFoundError: there is no such folder.
        StorageError: the store cannot be reached.
    """
    storage, name = open_above(os.fspath(url))
    try:
        return PinHolder(storage, name, owner=owner, lease_s=lease_s, closes=True)
    except BaseException:
        storage.close()
        raise
