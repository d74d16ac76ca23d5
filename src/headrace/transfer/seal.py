"""What is noted in a staging folder once all chunks are there: from then on they are put together.

Putting a file together uses up its chunks, and with them the digests in their names. The seal
keeps these; and when all is put together, also which version each file then has, so that a file
that was moved into place is told from another one of its name and size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headrace.checkpoint.manifest import FileDigests, Manifest
from headrace.core.errors import NotFoundError
from headrace.storage.port import FileInfo, Storage
from headrace.transfer.plan import FilePlan


class SealedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of the copy."""

    key: str
    """As ``FilePlan.key``."""

    noted: FileDigests
    """What the copy's manifest will say; the version is empty until the file is put together."""


class Seal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A copy whose chunks are all there, or were."""

    files: Mapping[str, SealedFile]
    """By path, relative to the checkpoint's folder."""

    ready: bool = False
    """All files are put together; some, or all, may have been moved into place."""

    def is_of(self, plans: Sequence[FilePlan]) -> bool:
        """Tell whether it is of these very files."""
        return all(
            plan.file.path in self.files and self.files[plan.file.path].key == plan.key
            for plan in plans
        )

    def has(self, path: str, info: FileInfo) -> bool:
        """Tell whether what was found, staged or in place, is the file that was put together."""
        sealed = self.files.get(path)
        return (
            self.ready
            and sealed is not None
            and (sealed.noted.size, sealed.noted.version) == (info.size, info.version)
        )

    def manifest(self, copied_from: str) -> Manifest:
        """Return the copy's manifest; to be asked when it is ready."""
        files = {path: sealed.noted for path, sealed in self.files.items()}
        return Manifest(copied_from=copied_from, files=files)


def read_seal(storage: Storage, path: str) -> Seal | None:
    """Return a seal; None: there is none, or it is none of a form that is known here.

    Raises:
        StorageError: it cannot be read.
    """
    try:
        return msgspec.json.decode(storage.read(path), type=Seal)
    except (NotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def write_seal(storage: Storage, path: str, seal: Seal) -> None:
    """Write a seal over the one that is there.

    Raises:
        StorageError: it cannot be written.
    """
    storage.write(path, msgspec.json.encode(seal))
