"""The maps of one job's blocks that an agent has."""

from __future__ import annotations

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

    def keep(self, places: JobPlaces, where: Whereabouts | None) -> None:
        """Keep a map, or why there is none; the oldest is forgotten."""
        if where is None:  # better an old map than none
            self.newest = places if not self.newest.version else self.newest
            return
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
