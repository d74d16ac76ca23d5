"""Finds out where the blocks of a job's files lie, again and again, without hurrying the store.

One agent of a job does it for all (``policy.placement.leader``), so that a NameNode is not
asked by every rank and agent. It asks for a few hundred files a second at most, on few
threads, goes round all files and begins again; the map is offered when a round ends, and
every so often during a long one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.agent.threads import DaemonThreads
from headrace.core.errors import CallerError, ConfigError, HeadraceError
from headrace.prepare.places import Blocks, places_of
from headrace.storage.port import Locates
from headrace.wire.messages import JobPlaces

ERRORS_AT_ONCE = 8
"""Files that could not be asked for before the rest waits for the next turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacingLimits:
    """How much a store is asked."""

    refresh_s: float = 60.0
    """Time from the start of one round over all files to the next [s]; a tenth more or less."""

    asks_per_s: float = 200.0
    """Files asked for in a second at most."""

    threads: int = 4
    """Questions on their way at once."""

    most_files: int = 200_000
    """A job with more files is placed without regard to its blocks: the map would be too long."""

    def __post_init__(self) -> None:
        if not (self.refresh_s > 0 and self.asks_per_s > 0 and self.threads > 0):
            raise ConfigError(
                f"placing.refresh_s={self.refresh_s:g}, asks_per_s={self.asks_per_s:g} and "
                f"threads={self.threads} must be more than 0"
            )


@dataclass(frozen=True, slots=True)
class LocatedSource:
    """One dataset whose files are to be found."""

    files: Sequence[str]
    """Paths, in the order of the index."""

    storage: Locates | None
    """None where the store cannot tell where files lie."""


class Finder:
    """The blocks of one job's files, as far as they were found. For one thread at a time."""

    def __init__(self, sources: Sequence[LocatedSource], limits: PlacingLimits) -> None:
        self._limits = limits
        self._found: list[list[Blocks]] = [[()] * len(source.files) for source in sources]
        self._questions = [
            (source, number)
            for source, known in enumerate(sources)
            for number in range(len(known.files))
            if known.storage is not None
        ]
        self._sources = sources
        self._next = 0
        self._round_at: float | None = None
        self._advanced_at = 0.0
        self._offered_at = 0.0
        self._failure = ""

    def why_never(self) -> str:
        """Return why there will be no map; empty when there may be one."""
        if not self._questions:
            return "the job's storage cannot tell where files lie"
        if len(self._questions) > self._limits.most_files:
            return (
                f"the job has {len(self._questions)} files, more than {self._limits.most_files}; "
                "samples are placed without regard to where they lie: pack them into shards"
            )
        return ""

    def advance(self, now: float) -> JobPlaces | None:
        """Ask for as many files as are due; return the map when it is time to offer it.

        Blocks for as long as the storage does. A file whose answer fails stays where it was.

        Args:
            now: Monotonic time [s].
        """
        if self._round_at is None or (self._at_end and now >= self._round_at):
            self._begin_round(now)
        if self._at_end:
            return None
        self._ask(self._due(now))
        if not self._at_end and now - self._offered_at < self._limits.refresh_s:
            return None
        self._offered_at = now
        return places_of(self._found, reason=self._failure)

    @property
    def _at_end(self) -> bool:
        return self._next >= len(self._questions)

    def _begin_round(self, now: float) -> None:
        self._next, self._failure = 0, ""
        self._round_at = now + self._limits.refresh_s * random.uniform(0.9, 1.1)
        self._advanced_at = self._offered_at = now

    def _due(self, now: float) -> list[tuple[int, int]]:
        """Return the next questions: one second's at most, however long it was not looked."""
        seconds = min(now - self._advanced_at, 1.0)
        count = max(int(seconds * self._limits.asks_per_s), 1)
        self._advanced_at = now
        return self._questions[self._next : self._next + count]

    def _ask(self, questions: Sequence[tuple[int, int]]) -> None:
        errors = 0
        with DaemonThreads(self._limits.threads, "headrace-places") as threads:
            for begin in range(0, len(questions), ERRORS_AT_ONCE):
                few = questions[begin : begin + ERRORS_AT_ONCE]
                errors += sum(threads.map(self._fails, few))
                self._next += len(few)
                if errors >= ERRORS_AT_ONCE:
                    return

    def _fails(self, question: tuple[int, int]) -> bool:
        """Ask for one file; return whether the storage failed."""
        source, number = question
        storage, path = self._sources[source].storage, self._sources[source].files[number]
        assert storage is not None
        try:
            self._found[source][number] = tuple(storage.locations(path))
        except CallerError:
            self._found[source][number] = ()  # it was removed
        except HeadraceError as error:
            self._failure = str(error)
            return True
        return False
