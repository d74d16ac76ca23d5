"""Where every job stands: what it has fetched, what its next step needs, when it asks for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.sim.chance import STEPS, Normals, step_time
from headrace.sim.job import Batches, SimulatedJob

ROUNDING = 0.5
"""Bytes that may be missing of a whole batch, for sums of fractions [bytes]."""


class Fleet:
    """The jobs' state as vectors, ``float64 [jobs]``. Bytes are counted from a job's first one on.

    A step begins when the step before is over and its own batch is whole; its batch leaves the
    queue then, and makes room for another.
    """

    def __init__(
        self,
        jobs: Sequence[SimulatedJob],
        batches: Sequence[Batches],
        *,
        early_prefetch: bool,
        seed: int,
    ) -> None:
        self.jobs = tuple(jobs)
        self.batches = batches
        self._chance = [
            Normals(seed=seed, purpose=STEPS, job=number) for number in range(len(jobs))
        ]
        self._early = early_prefetch
        self.step = [0] * len(jobs)
        """The step that comes next, for each job."""
        self.iteration = [0] * len(jobs)
        """Iterations since the last start."""
        self.fetched = np.zeros(len(jobs))
        """Bytes of whole and partial batches that reached the queue."""
        self.needed = np.zeros(len(jobs))
        """What must have been fetched for the next step to begin."""
        self.limit = np.zeros(len(jobs))
        """What may have been fetched: then the queue is full."""
        self.asked = np.zeros(len(jobs))
        """When the next step asks for its batch [s]."""
        self.open_from = np.zeros(len(jobs))
        """When fetching may go on, after it paused [s]."""
        self.started_at_bytes = np.zeros(len(jobs))
        """Fetched when the job last started."""
        for number, job in enumerate(jobs):
            self.start(number, job.begins_at_s, job.initialise_s)

    def start(self, job: int, now: float, initialise_s: float) -> float:
        """Begin a run with the next step, an empty queue; return the bytes that are dropped."""
        consumed = self.batches[job].end(self.step[job] - 1)
        dropped = float(self.fetched[job]) - consumed
        self.fetched[job] = self.started_at_bytes[job] = consumed
        self.iteration[job] = 0
        self.asked[job] = now + initialise_s
        self.open_from[job] = now if self._early else self.asked[job]
        self._look_ahead(job)
        return dropped

    def begin_step(self, job: int, begun: float) -> float:
        """Take the next batch out of the queue and return how long its step computes [s]."""
        if self.fetched[job] >= self.limit[job] - ROUNDING:
            self.open_from[job] = begun
        self.step[job] += 1
        self.iteration[job] += 1
        self._look_ahead(job)
        plan = self.jobs[job]
        step_s = step_time(plan.step_time_s, plan.step_jitter, self._chance[job].draw())
        self.asked[job] = begun + step_s
        return step_s

    def next_bytes(self, job: int) -> float:
        """Return the size of a job's next batch [bytes]."""
        return self.batches[job].ahead(self.step[job], 1)[0]

    def ready_batches(self, job: int, fetched: float) -> int:
        """Return how many whole batches lie in the queue once so many bytes were fetched."""
        return self.batches[job].complete(fetched + ROUNDING, from_step=self.step[job])

    def _look_ahead(self, job: int) -> None:
        step, batches = self.step[job], self.batches[job]
        self.needed[job] = batches.end(step) - ROUNDING
        self.limit[job] = batches.end(step + self.jobs[job].queue_batches - 1)
