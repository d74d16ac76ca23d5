"""Which encoded samples are being read, and which visits wait for a copy that is left of them.

Jobs with other pipelines or seeds need other results of the same bytes. Where a cache keeps
what is read, the second of them waits for the first one's read instead of making another.
"""

from __future__ import annotations

from collections.abc import Container

from headrace.policy.lookahead_events import Encoded, Visit


class Reads:
    """The reads of running tasks, by ticket, and those of raw answers, by negative numbers."""

    def __init__(self) -> None:
        self._readers: dict[Encoded, int] = {}
        self._raw: set[int] = set()
        self._waiting: dict[int, list[Visit]] = {}

    def begin(self, encoded: Encoded, reader: int) -> None:
        """Note that a task reads a sample's bytes, and leaves a copy when it ends."""
        self._readers[encoded] = reader

    def begin_raw(self, encoded: Encoded, reader: int) -> None:
        """Note that a raw answer reads them, and leaves a copy, unless somebody does already."""
        if encoded not in self._readers:
            self._readers[encoded] = reader
            self._raw.add(reader)

    def end_raw(self, reader: int) -> None:
        """Note that a raw answer has read."""
        self._raw.discard(reader)

    def wait(self, encoded: Encoded, visit: Visit) -> bool:
        """Let a visit wait for whoever reads its sample's bytes, if somebody does."""
        reader = self._readers.get(encoded)
        if reader is None:
            return False
        self._waiting.setdefault(reader, []).append(visit)
        return True

    def take_over(self, running: Container[int]) -> list[Visit]:
        """Forget the reads that have ended; return the visits that waited for them.

        Args:
            running: Tickets of the tasks that run.
        """
        over = [
            encoded
            for encoded, reader in self._readers.items()
            if reader not in running and reader not in self._raw
        ]
        readers = [self._readers.pop(encoded) for encoded in over]
        return [visit for reader in readers for visit in self._waiting.pop(reader, ())]
