"""The records of leases, in memory and in the journal; for one thread at a time."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from headrace.controller.hotspots.rows import FileRow, LeaseRow, file_key, read_rows
from headrace.controller.journal import Journal
from headrace.core.errors import CallerError, NotFoundError
from headrace.policy.hotspot.events import (
    HotFile,
    KeptFile,
    KeptLease,
    Restored,
    StoredFile,
    Wanted,
)
from headrace.wire.hotspots import HotspotAsked, HotspotState

MOST_LEASES = 500
"""Announcements at once; more are a sender that never releases any."""

REMEMBERED = 100
"""Announcements that are over and can still be asked for."""

_TABLE: Final = "lease"


@dataclass(frozen=True, slots=True)
class Over:
    """An announcement whose lease is over."""

    row: LeaseRow
    state: HotspotState
    reason: str


class LeaseBook:
    """Who announced what, until when.

    Args:
        journal: What a restart begins with.
        wall: Time since 1970 [s].
    """

    def __init__(self, journal: Journal, wall: Callable[[], float]) -> None:
        self._journal = journal
        self._wall = wall
        kept = read_rows(journal.kept.documents.get(_TABLE, ()))
        self._kept_files = tuple(row.kept for row in kept.files)
        self.rows = {row.id: row for row in kept.leases}
        """Those whose lease goes on."""

        self.over: dict[str, Over] = {}
        self.troubles: dict[str, str] = {}
        """Why those that are not planned yet could not be read."""

    def __getitem__(self, name: str) -> LeaseRow:
        """Return a lease that goes on.

        Raises:
            NotFoundError: there is none of this name.
        """
        try:
            return self.rows[name]
        except KeyError:
            raise NotFoundError(
                f"no hotspot {name!r}: it is over, or never was; headrace leases lists them"
            ) from None

    def new_row(self, asked: HotspotAsked) -> LeaseRow:
        """Return a record, without keeping it."""
        at = self._wall()
        return LeaseRow(
            id=secrets.token_hex(4), asked=asked, announced_at=at, expires_at=at + asked.lease_s
        )

    def begin(self, asked: HotspotAsked) -> LeaseRow:
        """Keep a new lease.

        Raises:
            CallerError: there are too many.
        """
        if len(self.rows) >= MOST_LEASES:
            raise CallerError(
                f"{MOST_LEASES} hotspots are announced already; release those that are over "
                "(headrace leases --release ID) before you announce more"
            )
        return self._keep(self.new_row(asked))

    def renew(self, name: str, lease_s: float) -> None:
        """Let a lease go on, from now.

        Raises:
            NotFoundError: it is over.
        """
        asked = msgspec.structs.replace(self[name].asked, lease_s=lease_s)
        expires_at = self._wall() + lease_s
        self._keep(msgspec.structs.replace(self[name], asked=asked, expires_at=expires_at))

    def plan(self, name: str, files: tuple[HotFile, ...], wanted: tuple[Wanted, ...]) -> None:
        """Note what was planned."""
        self.troubles.pop(name, None)
        self._keep(msgspec.structs.replace(self[name], files=files, wanted=wanted))

    def note(self, name: str, trouble: str) -> None:
        """Note why a checkpoint cannot be read for now."""
        if name in self.rows:
            self.troubles[name] = trouble

    def end(self, name: str, state: HotspotState, reason: str) -> None:
        """Let a lease be over; not an error a second time."""
        row = self.rows.pop(name, None)
        self.troubles.pop(name, None)
        if row is None:
            return
        self._journal.drop(_TABLE, row.key)
        self.over[name] = Over(msgspec.structs.replace(row, files=()), state, reason)
        while len(self.over) > REMEMBERED:
            self.over.pop(next(iter(self.over)))

    def left_s(self, row: LeaseRow) -> float:
        """Return what is left of a lease; never more than was asked for, whatever clocks say."""
        return min(row.expires_at - self._wall(), row.asked.lease_s)

    def eta_s(self, row: LeaseRow) -> float:
        """Return when its files turn hot [s]; negative: since then."""
        return row.announced_at + row.asked.eta_s - self._wall()

    def restored(self) -> Restored:
        """Return what the journal had, for the planner; leases not yet planned are not in it."""
        leases = tuple(
            KeptLease(
                lease=row.id,
                files=row.files,
                wanted=row.wanted,
                eta_s=self.eta_s(row),
                lease_s=self.left_s(row),
            )
            for row in self.rows.values()
            if row.wanted is not None
        )
        return Restored(leases=leases, files=self._kept_files)

    def keep_file(self, kept: KeptFile) -> None:
        """Note that a file's number of copies is about to be changed."""
        row = FileRow(kept=kept)
        self._journal.put(_TABLE, row.key, row)

    def forget_file(self, file: StoredFile) -> None:
        """Note that a file has its own number of copies again, or is not ours any more."""
        self._journal.drop(_TABLE, file_key(file))

    def _keep(self, row: LeaseRow) -> LeaseRow:
        self.rows[row.id] = row
        self._journal.put(_TABLE, row.key, row)
        return row
