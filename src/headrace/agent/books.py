"""What an agent did for its jobs: counted, and recorded. Event loop's thread only."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.agent.agentlog import AgentLog
from headrace.agent.jobs import ServedJob
from headrace.agent.tasks import Done
from headrace.agent.usage import Effort, Reading, Usage


class Books:
    """Of one agent.

    Args:
        jobs: Those that are served now, by name; of others nothing is counted any more.
        log: Records what is done.
    """

    def __init__(self, jobs: Mapping[str, ServedJob], log: AgentLog) -> None:
        self._jobs = jobs
        self.log = log
        self.usage = Usage()
        """What was read and sent, by job."""

        self.effort = Effort()
        """What workers did, for all jobs."""

        self.bytes_sent = 0
        self.placed = 0
        """Samples started of which it is known who holds them."""

        self.beside = 0
        """Of those, how many this agent sits beside."""

    def started(self, job: ServedJob, sample: int) -> None:
        """Count a task that begins."""
        beside = job.plan.is_beside(sample)
        if beside is not None:
            self.placed += 1
            self.beside += beside

    def read(self, reading: Reading, read_s: float) -> None:
        """Count what was read."""
        if reading.job in self._jobs:
            self.usage.count_read(
                reading.job,
                reading.tier,
                reading.nbytes,
                queued_s=reading.throttled_s,
                read_s=read_s,
            )

    def made(self, reading: Reading, done: Done, *, cached: int | None) -> None:
        """Count and record what a task read and made.

        Args:
            reading: What it read.
            done: What it made.
            cached: What of the reading came out of the cache [bytes]; None: there is none.
        """
        self.read(reading, done.read_s)
        self.effort = self.effort.plus(done.read_s + done.transform_s, done.cores_s)
        job = self._jobs.get(reading.job)
        if job is not None and reading.visit is not None:
            self.log.made(
                job.open,
                reading.visit,
                nbytes=reading.nbytes,
                cached=cached,
                read_s=done.read_s,
                transform_s=done.transform_s,
            )

    def sent(self, job: str, nbytes: int, *, raw: bool) -> None:
        """Count a frame that left."""
        self.bytes_sent += nbytes
        if job in self._jobs:
            self.usage.count_sent(job, nbytes, raw=raw)
