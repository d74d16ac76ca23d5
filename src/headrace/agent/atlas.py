"""The maps of one job's blocks that an agent has."""

from __future__ import annotations

import msgspec

from headrace.prepare.job import OpenJob
from headrace.prepare.places import Whereabouts
from headrace.wire.messages import JobPlaces

KEPT = 2
"""Maps of a job that are kept: the one that is used, and the one that comes next."""


class Atlas:
    """Takes in maps and finds them again by version. One thread at a time."""

    def __init__(self, job: OpenJob) -> None:
        self._job = job
        self._known: dict[str, Whereabouts] = {}
        self.newest = JobPlaces(reason="nobody has asked the storage yet where the blocks lie")
        """The map that came last."""

    def read(self, places: JobPlaces) -> Whereabouts:
        """Return what a map says; takes long for many samples, and may run in any thread.

        Raises:
            CallerError: it is no map of this job.
        """
        return Whereabouts(places, self._job)

    def explain(self, reason: str) -> None:
        """Keep in mind why there is no map, or none that is up to date."""
        self.newest = msgspec.structs.replace(self.newest, reason=reason)

    def keep(self, places: JobPlaces, where: Whereabouts) -> None:
        """Keep a map; the oldest is forgotten."""
        self.newest = places
        self._known.pop(where.version, None)
        self._known[where.version] = where
        while len(self._known) > KEPT:
            del self._known[next(iter(self._known))]

    def has(self, version: str) -> bool:
        """Return whether a map is here, or none is wanted."""
        return not version or version in self._known

    def find(self, version: str) -> Whereabouts | None:
        """Return a map, or while it is not here the latest one; None where none is wanted."""
        if not version or not self._known:
            return None
        return self._known.get(version) or self._known[next(reversed(self._known))]
