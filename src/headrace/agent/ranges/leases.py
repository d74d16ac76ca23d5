"""Preloads: ranges that are read ahead and kept until their lease ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headrace.agent.ranges.memory import FileName, Kept, Piece, RangeMemory, cut
from headrace.agent.ranges.reading import READS_AT_ONCE, RangeReading
from headrace.agent.roots import Located
from headrace.core.clock import Clock
from headrace.core.errors import HeadraceError
from headrace.wire.ranges import Preload, PreloadState


@dataclass(slots=True)
class _Lease:
    """One preload."""

    place: Located
    preload: Preload
    ends_at: float
    ending: asyncio.TimerHandle
    pieces: dict[Piece, Kept | None] = field(default_factory=dict)
    """None: there was no room for it."""


class RangeLeases:
    """The preloads of one agent, by name. Event loop's thread only."""

    def __init__(self, memory: RangeMemory, reading: RangeReading, clock: Clock) -> None:
        self._memory = memory
        self._reading = reading
        self._clock = clock
        self._leases: dict[str, _Lease] = {}
        self._unread: asyncio.Queue[Kept] = asyncio.Queue()

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, name: str) -> bool:
        return name in self._leases

    def put(self, name: str, place: Located, preload: Preload) -> PreloadState:
        """Begin a lease, or renew it: what could not be read or kept before is tried again."""
        before = self._leases.pop(name, None)
        ending = asyncio.get_running_loop().call_later(preload.lease_s, self.drop, name)
        ends_at = self._clock.now() + preload.lease_s
        lease = self._leases[name] = _Lease(place, preload, ends_at, ending)
        for piece in sorted(set(_pieces(place, preload)), key=_in_order):
            lease.pieces[piece] = self._take(piece)
        if before is not None:
            self._end(before)
        return self.state(name)

    def state(self, name: str) -> PreloadState:
        """Return how far a preload is.

        Raises:
            KeyError: there is none of this name.
        """
        lease = self._leases[name]
        kept = [one for one in lease.pieces.values() if one is not None]
        refused = sum(piece.length for piece, one in lease.pieces.items() if one is None)
        return PreloadState(
            nbytes=sum(piece.length for piece in lease.pieces),
            ready_bytes=sum(one.piece.length for one in kept if one.data is not None),
            refused_bytes=refused,
            reason=self._reason(kept, refused),
            expires_in_s=max(0.0, lease.ends_at - self._clock.now()),
        )

    def drop(self, name: str) -> None:
        """End a lease; one that is gone already is not an error."""
        lease = self._leases.pop(name, None)
        if lease is not None:
            self._end(lease)

    async def run(self) -> None:
        """Read what leases want, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(READS_AT_ONCE):
                group.create_task(self._read_on())

    def _take(self, piece: Piece) -> Kept | None:
        kept, is_new = self._memory.take(piece)
        if kept is not None and is_new:
            self._unread.put_nowait(kept)
        return kept

    def _end(self, lease: _Lease) -> None:
        lease.ending.cancel()
        for kept in lease.pieces.values():
            if kept is not None:
                self._memory.give_back(kept)

    def _reason(self, kept: Sequence[Kept], refused_bytes: int) -> str:
        failed = next((one.reason for one in kept if one.reason), "")
        if failed or not refused_bytes:
            return failed
        return (
            f"{refused_bytes} B do not fit into the {self._memory.nbytes} B that this agent keeps "
            "of ranges; spread them over more agents, or start it with a larger --range-memory"
        )

    async def _read_on(self) -> None:
        while True:
            kept = await self._unread.get()
            if kept.let_go:
                continue
            try:
                found = await self._reading.read(kept.piece)
            except HeadraceError as error:
                self._memory.fail(kept, str(error))
            else:
                self._memory.fill(kept, found, self._clock.now())


def _pieces(place: Located, preload: Preload) -> Iterator[Piece]:
    for wanted in preload.ranges:
        yield from cut(FileName(place, wanted.path), wanted.offset, wanted.length)


def _in_order(piece: Piece) -> tuple[str, int]:
    return piece.file.path, piece.offset
