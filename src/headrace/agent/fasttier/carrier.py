"""Makes one long read after another, and leaves copies of what it brings on the fast tier."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from headrace.agent.fasttier.file import FastFiles
from headrace.agent.fasttier.through import Passage, leave_copy
from headrace.agent.fasttier.tier import FastTier, Record
from headrace.agent.fasttier.timetable import Key
from headrace.agent.jobs import ServedJob
from headrace.agent.threads import DaemonThreads
from headrace.core.errors import HeadraceError
from headrace.policy.nextuse import Use

log = logging.getLogger("headrace.agent.fasttier")


@dataclass(frozen=True, slots=True)
class Load:
    """Rows of one source of a job that one read brings over."""

    job: ServedJob
    source: int
    uses: Mapping[int, Use | None]
    """Row → when it is needed next; rows of one file."""

    nbytes: int
    """Length of the read, gaps included [bytes]."""


@dataclass(frozen=True, slots=True)
class _Copy:
    """One sample that is to be kept."""

    row: int
    key: Key
    record: Record


class Carrier:
    """The fast tier and the thread that reads for it. Used from the event loop's thread only."""

    def __init__(self, tier: FastTier) -> None:
        self.tier = tier
        self._thread = DaemonThreads(1, "headrace-runs")
        self._turn = asyncio.Lock()

    async def bring_over(self, load: Load) -> float | None:
        """Read some rows at once, and keep those that are worth it; one read after the other.

        Returns:
            How long reading took [s]; None: none of them is worth it.
        """
        async with self._turn:
            copies = self._admitted(load)
            if not copies:
                return None
            begin = time.perf_counter()
            reading = asyncio.ensure_future(
                self._thread.run(partial(_read_and_leave, load, copies, self.tier.files))
            )
            reading.add_done_callback(partial(self._settle, load, copies))
            await asyncio.shield(reading)  # it goes on when nobody waits any more
            return time.perf_counter() - begin

    def close(self) -> None:
        """Begin no more reads; one that is under way ends as it may."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _settle(
        self, load: Load, copies: Sequence[_Copy], done: asyncio.Future[list[Passage] | None]
    ) -> None:
        failed = done.cancelled() or done.exception() is not None
        passages = None if failed else done.result()
        self.tier.count_run(load.nbytes, passages)
        for number, copy in enumerate(copies):
            self.tier.settle(copy.key, copy.record, passages[number].stored if passages else None)

    def _admitted(self, load: Load) -> list[_Copy]:
        """Return the rows that are to be kept, in their order."""
        index = load.job.open.sources[load.source].index
        start = load.job.open.source_range(load.source).start
        version = index.location(next(iter(load.uses))).file_version
        copies = []
        for row, use in sorted(load.uses.items(), key=_soonest_first):
            key = self.tier.key(load.job, load.source, start + row)
            record = self.tier.admit(key, int(index.lengths[row]), use, version)
            if record is not None:
                copies.append(_Copy(row, key, record))
        return sorted(copies, key=lambda copy: copy.row)


def _read_and_leave(load: Load, copies: Sequence[_Copy], files: FastFiles) -> list[Passage] | None:
    """Read samples at once and leave copies; None: they cannot be read, as each will tell."""
    index = load.job.open.sources[load.source].index
    locations = [index.location(copy.row) for copy in copies]
    try:
        found = load.job.preparers[load.source].raw_run(locations)
    except HeadraceError as error:
        log.info("a long read of %s failed: %s", locations[0].file, error)
        return None
    pairs = zip(copies, found, strict=True)
    return [leave_copy(files, copy.record.extents, fields) for copy, fields in pairs]


def _soonest_first(item: tuple[int, Use | None]) -> tuple[bool, int]:
    use = item[1]
    return use is None, 0 if use is None else use.step
