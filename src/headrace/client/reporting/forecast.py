"""How many stored bytes the next batches have: read off the schedule, not guessed."""

from __future__ import annotations

from collections import OrderedDict

from headrace.prepare.job import OpenJob

AHEAD = 8
"""Batches that are told ahead of the loop."""

REMEMBERED = 4 * AHEAD
"""Steps whose bytes are kept: each is reckoned once as the loop goes on."""


class Forecast:
    """Stored bytes of one rank's batches, and of the job's. For one thread."""

    def __init__(self, job: OpenJob, *, rank: int, world: int) -> None:
        self._job = job
        self._rank = rank
        self._world = world
        self._known: OrderedDict[int, int] = OrderedDict()

    def of_rank(self, first_step: int) -> tuple[int, ...]:
        """Return the bytes of this rank's part of the next batches, ``first_step`` first."""
        return tuple(self._part(step) for step in range(first_step, first_step + AHEAD))

    def of_job(self, first_step: int) -> tuple[int, ...]:
        """Return the bytes of the next batches over all ranks."""
        batches = (self._job.schedule.batch(first_step + ahead) for ahead in range(AHEAD))
        return tuple(int(self._job.lengths(batch.samples).sum()) for batch in batches)

    def _part(self, step: int) -> int:
        if step not in self._known:
            shard = self._job.schedule.shard(step, self._rank, self._world)
            self._known[step] = int(self._job.lengths(shard.samples).sum())
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return self._known[step]
