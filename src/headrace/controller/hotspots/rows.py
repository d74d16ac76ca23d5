"""What a restart must know of hotspots, as rows of the journal's table of leases."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from headrace.policy.hotspot.events import HotFile, KeptFile, StoredFile, Wanted
from headrace.wire.hotspots import HotspotAsked

log = logging.getLogger("headrace.controller.hotspots")


class LeaseRow(msgspec.Struct, frozen=True, kw_only=True, tag="lease"):
    """One announcement."""

    id: str
    asked: HotspotAsked
    announced_at: float
    """[s since 1970]."""

    expires_at: float
    """[s since 1970]."""

    files: tuple[HotFile, ...] = ()
    wanted: tuple[Wanted, ...] | None = None
    """None: it was not planned yet."""

    @property
    def key(self) -> str:
        """What it is called in the table."""
        return f"lease/{self.id}"


class FileRow(msgspec.Struct, frozen=True, kw_only=True, tag="file"):
    """A file whose number of copies is changed, or may be."""

    kept: KeptFile

    @property
    def key(self) -> str:
        """What it is called in the table."""
        return file_key(self.kept.file)


def file_key(file: StoredFile) -> str:
    """Return what a file's row is called in the table."""
    return f"file/{file.store}|{file.path}"


@dataclass(frozen=True, slots=True)
class KeptRows:
    """What a journal had of hotspots."""

    leases: tuple[LeaseRow, ...]
    files: tuple[FileRow, ...]


def read_rows(documents: Iterable[bytes]) -> KeptRows:
    """Return the rows of the table; what cannot be read is told in the log and left."""
    found = [row for body in documents if (row := _row(body)) is not None]
    return KeptRows(
        leases=tuple(row for row in found if isinstance(row, LeaseRow)),
        files=tuple(row for row in found if isinstance(row, FileRow)),
    )


def _row(body: bytes) -> LeaseRow | FileRow | None:
    try:
        return msgspec.json.decode(body, type=LeaseRow | FileRow)
    except msgspec.MsgspecError as error:
        log.warning(
            "a lease in the journal cannot be read (%s), and its files may keep more copies than "
            "they had; look at them with hdfs dfs -ls: %.500s",
            error,
            body.decode(errors="replace"),
        )
        return None
