"""Recomputes a few samples that agents made, and compares every byte.

Which ones is drawn from the sample and its epoch, so that runs are repeatable. The check is
done when the decoding threads have nothing else to do.
"""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.client.crew import WHEN_IDLE, Crew
from headrace.client.fleet import Fleet
from headrace.client.maker import Maker
from headrace.client.member import Member
from headrace.core.digest import payload_digest, record_digest
from headrace.core.draws import SampleKey
from headrace.core.errors import CorruptSampleError, HeadraceError
from headrace.core.record import Record
from headrace.wire.frames import FrameHeader, record_of

logger = logging.getLogger("headrace.client")

MOST_PENDING = 8
"""Checks that may wait; further ones are counted as skipped."""

_VISIT = struct.Struct("<QQ")


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckStatistics:
    """Spot checks since the loader started."""

    equal: int
    different: int
    skipped: int
    """Chosen but not done: the trainer was busy, or could not read the sample."""


class SpotChecks:
    """Checks one agent-made sample in ``every``; 0 checks none. Thread-safe."""

    def __init__(self, every: int, *, crew: Crew, maker: Maker, fleet: Fleet) -> None:
        self._every = every
        self._crew = crew
        self._maker = maker
        self._fleet = fleet
        self._lock = threading.Lock()
        self._pending = 0
        self._equal = self._different = self._skipped = 0

    def consider(
        self, member: Member, key: SampleKey, header: FrameHeader, buffers: Sequence[memoryview]
    ) -> None:
        """Queue a check of a tensor frame if its sample is one of those drawn."""
        if not self._every or _drawn(key) % self._every:
            return
        with self._lock:
            if self._pending >= MOST_PENDING:
                self._skipped += 1
                return
            self._pending += 1
        copy = [memoryview(bytes(buffer)) for buffer in buffers]
        record = record_of(header, copy)
        self._crew.submit(WHEN_IDLE, lambda: self._check(member, key, header, record))

    def statistics(self) -> CheckStatistics:
        """Return what was found so far."""
        with self._lock:
            return CheckStatistics(
                equal=self._equal, different=self._different, skipped=self._skipped
            )

    def _check(self, member: Member, key: SampleKey, header: FrameHeader, record: Record) -> None:
        own = self._own(key, header)
        equal = own is not None and record_digest(own) == record_digest(record)
        with self._lock:
            self._pending -= 1
            self._skipped += own is None
            self._equal += equal
            self._different += own is not None and not equal
        if own is not None and not equal:
            self._fleet.distrust(
                member,
                f"sample {key.sample} ({self._maker.name(key)}), epoch {key.epoch}, is not what "
                "this host makes of it; compare `headrace agent` versions on both hosts",
            )

    def _own(self, key: SampleKey, header: FrameHeader) -> Record | None:
        try:
            return self._maker.recompute(key, stop=header.cut, part=header.part)
        except CorruptSampleError:
            return {}
        except (HeadraceError, MemoryError) as error:
            logger.warning("sample %d could not be checked: %s", key.sample, error)
            return None


def _drawn(key: SampleKey) -> int:
    """Return a number that looks random: every sample that comes draws one, so it is cheap."""
    return payload_digest((_VISIT.pack(key.epoch, key.sample),))
