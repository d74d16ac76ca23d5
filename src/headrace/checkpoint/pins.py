"""Pins: small files by which whoever reads a checkpoint keeps retention from removing it.

They lie beside the checkpoint, in ``.headrace/pins/NAME/OWNER.json``, so that all who read and
remove there find them, whatever root they look from. A pin is a lease: its file is written anew
while it is held, and counts for ``lease_s`` after it was last written. Both times are told by the
store's own clock, so the clocks of hosts may differ as they like; in a store that tells no times
pins count until they are removed.

Who removes a checkpoint first says so, in ``.headrace/removals/NAME/OWNER.json``, and then looks
for pins; who pins it first writes the pin, and then looks whether it is being removed. So one of
them always sees the other, and a pin that was granted holds.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import secrets
import socket
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

import msgspec

from headrace.core.errors import CallerError, NotFoundError
from headrace.storage.paths import join
from headrace.storage.port import FileInfo, Storage

LEASE_S = 600.0
"""How long a pin counts after it was last written [s]."""

LONGEST_LEASE_S = 400 * 86_400.0

MOST_BYTES = 1 << 16
"""A lease's file is not read beyond this [bytes]."""

Kind: TypeAlias = Literal["pins", "removals"]
"""What a lease is for; the name of its folder."""

KINDS: tuple[Kind, ...] = get_args(Kind)

_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@=-]{0,127}")


class Lease(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file of a pin, or of a removal, says."""

    owner: str
    host: str = ""
    since: float = 0.0
    """By its host's clock, since 1970 [s]; for people."""

    lease_s: Annotated[float, msgspec.Meta(gt=0, le=LONGEST_LEASE_S)] = LEASE_S
    """How long it counts after its file was written [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """A pin as it was found."""

    checkpoint: str
    """Path of the checkpoint's folder, relative to the store's root."""

    lease: Lease
    left_s: float | None
    """Until it counts no more, unless it is renewed [s]; None: until it is removed."""

    @property
    def counts(self) -> bool:
        """Whether it keeps the checkpoint from being removed."""
        return self.left_s is None or self.left_s > 0


def new_owner() -> str:
    """Return a name for an owner that nobody else has."""
    parts = (_user(), socket.gethostname(), str(os.getpid()), secrets.token_hex(3))
    return re.sub(r"[^A-Za-z0-9._@=-]", "_", "-".join(parts))[-128:].lstrip("._@=-")


def new_lease(owner: str, lease_s: float = LEASE_S) -> Lease:
    """Return a lease that begins now.

    Raises:
        CallerError: the owner's name cannot be one of a file, or the time cannot be.
    """
    if not _OWNER.fullmatch(owner):
        raise CallerError(
            f"the owner {owner!r} of a pin must begin with a letter or digit, and have at most "
            "128 letters, digits and . _ @ = -"
        )
    if not 0 < lease_s <= LONGEST_LEASE_S:
        raise CallerError(
            f"a pin cannot last {lease_s:g} s; give more than 0 s, and at most "
            f"{LONGEST_LEASE_S / 86_400:g} days"
        )
    return Lease(owner=owner, host=socket.gethostname(), since=time.time(), lease_s=lease_s)


def put_pin(storage: Storage, checkpoint: str, lease: Lease) -> None:
    """Pin a checkpoint, or pin it anew; it holds when this returns.

    Args:
        storage: The store.
        checkpoint: Path of the checkpoint's folder, relative to the store's root.
        lease: The pin.

    Raises:
        NotFoundError: there is no such folder, or it is being removed.
        StorageError: the pin cannot be written.
    """
    path = lease_path("pins", checkpoint, lease.owner)
    storage.write(path, msgspec.json.encode(lease))
    try:
        _require_staying(storage, checkpoint)
    except BaseException:
        storage.delete(path)
        raise


def remove_pin(storage: Storage, checkpoint: str, owner: str) -> None:
    """Remove a pin; one that is not there is not an error.

    Raises:
        StorageError: it cannot be removed.
    """
    storage.delete(lease_path("pins", checkpoint, owner))


def pins(storage: Storage, checkpoints: Iterable[str]) -> tuple[Pin, ...]:
    """Return the pins of checkpoints, also those that count no more.

    Args:
        storage: The store; a small file is written beside the checkpoints, to learn its time.
        checkpoints: Paths of their folders, relative to the store's root.

    Raises:
        StorageError: they cannot be read.
    """
    return tuple(_found(storage, "pins", checkpoints))


def pinned(storage: Storage, checkpoints: Iterable[str]) -> frozenset[str]:
    """Return which checkpoints must not be removed, since somebody reads them.

    Args and errors: as ``pins``.
    """
    return frozenset(pin.checkpoint for pin in pins(storage, checkpoints) if pin.counts)


def removals(storage: Storage, folders: Iterable[str]) -> frozenset[str]:
    """Return which checkpoints in these folders somebody began to remove, and has not ended to.

    Args:
        storage: The store.
        folders: Above the checkpoints' own, relative to the store's root.

    Raises:
        StorageError: they cannot be read.
    """
    return frozenset(
        _checkpoint_of(info, "removals")
        for folder in folders
        for info in _files(storage, join(folder, ".headrace/removals"))
    )


def lease_path(kind: Kind, checkpoint: str, owner: str) -> str:
    """Return where a lease lies, relative to the store's root.

    Raises:
        CallerError: the checkpoint is the root itself.
    """
    return f"{leases_of(kind, checkpoint)}/{owner}.json"


def leases_of(kind: Kind, checkpoint: str) -> str:
    """Return the folder of a checkpoint's leases, relative to the store's root.

    Raises:
        CallerError: the checkpoint is the root itself.
    """
    name = checkpoint.rpartition("/")[2]
    if not name:
        raise CallerError("a checkpoint is pinned from the folder above it; open that one")
    return join(_folder(checkpoint), f".headrace/{kind}/{name}")


def store_time(storage: Storage, folder: str) -> float | None:
    """Return the store's time, since 1970 [s]; None: it tells none.

    Args:
        storage: The store.
        folder: Where a small file is written for it, and removed again.

    Raises:
        StorageError: nothing can be written there.
    """
    path = join(folder, f".headrace/clock-{secrets.token_hex(4)}")
    try:
        return storage.write(path, b"").modified_s
    finally:
        storage.delete(path)


def _require_staying(storage: Storage, checkpoint: str) -> None:
    url = join(storage.url.rstrip("/"), checkpoint)
    for removal in _found(storage, "removals", [checkpoint]):
        if removal.counts:
            who = f"{removal.lease.owner} on {removal.lease.host}"
            raise NotFoundError(f"{url} is being removed by {who}; pin another checkpoint")
    if not _has_files(storage, checkpoint):
        raise NotFoundError(f"there is no file below {url}; pin another checkpoint")


def _has_files(storage: Storage, folder: str) -> bool:
    try:
        return any(True for _ in storage.list(folder))
    except NotFoundError:
        return False


def _found(storage: Storage, kind: Kind, checkpoints: Iterable[str]) -> Iterator[Pin]:
    """Yield the leases of checkpoints, by the folders that these are in."""
    together: dict[str, set[str]] = defaultdict(set)
    for checkpoint in checkpoints:
        together[_folder(checkpoint)].add(checkpoint)
    for folder, wanted in together.items():
        files = _files(storage, join(folder, f".headrace/{kind}"))
        mine = [(info, one) for info in files if (one := _checkpoint_of(info, kind)) in wanted]
        now = store_time(storage, folder) if mine else None
        for info, checkpoint in mine:
            with contextlib.suppress(NotFoundError):  # removed since it was listed
                lease = _decoded(storage.read(info.path, 0, min(info.size, MOST_BYTES)), info)
                yield Pin(checkpoint=checkpoint, lease=lease, left_s=_left_s(info, lease, now))


def _left_s(info: FileInfo, lease: Lease, now: float | None) -> float | None:
    if info.modified_s is None or now is None:
        return None
    return info.modified_s + lease.lease_s - now


def _decoded(data: bytes, info: FileInfo) -> Lease:
    """Return what a lease says; one that is damaged counts for the usual time."""
    try:
        return msgspec.json.decode(data, type=Lease)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Lease(owner=info.path.rpartition("/")[2].removesuffix(".json"))


def _files(storage: Storage, folder: str) -> list[FileInfo]:
    try:
        return [info for info in storage.list(folder) if info.path.endswith(".json")]
    except NotFoundError:
        return []


def _checkpoint_of(info: FileInfo, kind: Kind) -> str:
    """Return the checkpoint that the lease at this path is for."""
    above, _, rest = info.path.rpartition(f".headrace/{kind}/")
    return above + rest.rpartition("/")[0]


def _folder(checkpoint: str) -> str:
    return checkpoint.rpartition("/")[0]


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user need not have a name
        return str(os.getuid())
