"""Who trains: jobs, their hosts, and which report of theirs is the next one. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headrace.controller.rates import renewed
from headrace.controller.refusals import StaleReportError, UnknownJobError
from headrace.core.errors import ReportError
from headrace.wire.control import HealthReport, JobAnnounced

MOST_JOBS = 10_000
"""Jobs at once; more are a sender that names each report's job anew."""

MOST_HOSTS = 1 << 17
"""Hosts of all jobs at once; more are a sender that names itself anew each time."""

MOST_SKIPPED = 1_000_000
"""Iterations that may be missing between two reports; after a larger gap, as after a restart
with a journal of long ago, the host has to announce what it has done."""

_TOLD_ONCE = ("weight", "guaranteed", "hosts", "world")


@dataclass(slots=True)
class Host:
    """One host of a job: what it said last."""

    announced: JobAnnounced
    seen: float
    """When it was heard of [s, monotonic]."""

    iteration: int
    """The last one that it reported, or had done when it announced itself."""

    report: HealthReport | None = None
    direct: dict[str, float] = field(default_factory=dict)
    """Tier → what it reads from storage by itself [B/s]."""


@dataclass(slots=True)
class Job:
    """One job: its hosts, and what it asks for."""

    name: str
    announced: JobAnnounced
    """The newest of its hosts' announcements."""

    hosts: dict[str, Host] = field(default_factory=dict)
    is_running: bool = False
    """It reported since it was announced, or did iterations before that."""

    @property
    def seen(self) -> float:
        """When any of its hosts was heard of [s, monotonic]."""
        return max(host.seen for host in self.hosts.values())

    @property
    def host_count(self) -> int:
        """Hosts that it has, or said that it will have."""
        return max(len(self.hosts), self.announced.hosts)

    @property
    def newest_report(self) -> HealthReport | None:
        """The report of the latest iteration; of several the one that waited longest."""
        reports = [host.report for host in self.hosts.values() if host.report is not None]
        return max(reports, key=lambda report: (report.iteration, report.wait_s), default=None)

    def direct_use(self, tier: str) -> dict[str, float]:
        """Return host → what it reads from ``tier`` by itself [B/s]."""
        return {name: host.direct.get(tier, 0.0) for name, host in self.hosts.items()}


class Jobs(Mapping[str, Job]):
    """The jobs that announced themselves and neither ended nor fell silent."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    def __getitem__(self, name: str) -> Job:
        """Return a job.

        Raises:
            UnknownJobError: it did not announce itself.
        """
        try:
            return self._jobs[name]
        except KeyError:
            raise UnknownJobError(
                f"no job {name!r} here: it ended, was silent for long, or the controller lost "
                "its journal; announce it with PUT first"
            ) from None

    def __contains__(self, name: object) -> bool:
        """Whether the job announced itself."""
        return name in self._jobs

    def __iter__(self) -> Iterator[str]:
        """Return the names."""
        return iter(self._jobs)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._jobs)

    @property
    def announced_hosts(self) -> int:
        """Hosts of all jobs that announced themselves."""
        return sum(len(job.hosts) for job in self._jobs.values())

    def announce(self, name: str, message: JobAnnounced, now: float) -> bool:
        """Take a host's announcement; return whether the policy has to be told.

        It has to when the job is new, asks for something else, or was started anew: then
        once, not for each of its hosts.

        Raises:
            ReportError: there are too many jobs, or hosts, already.
        """
        job = self._jobs.get(name)
        known = None if job is None else job.hosts.get(message.host)
        if known is None:
            self._require_room_for_host()
        if job is None:
            job = self._jobs[name] = self._new(name, message)
        changed = known is None or known.announced.boot != message.boot
        tell = not job.hosts or _asks_otherwise(job.announced, message)
        if changed:
            tell = tell or (known is not None and job.is_running)
            job.hosts[message.host] = Host(message, now, message.iteration - 1)
        else:
            assert known is not None
            known.announced, known.seen = message, now
            known.iteration = max(known.iteration, message.iteration - 1)
        job.announced = message
        job.is_running = message.iteration > 0 or (job.is_running and not changed)
        return tell

    def restore(self, name: str, message: JobAnnounced, now: float) -> None:
        """Take over a host that the journal knows; its job runs, as far as anybody knows."""
        self.announce(name, message, now)
        self._jobs[name].is_running = True

    def take(self, name: str, report: HealthReport, now: float) -> Host:
        """Take a host's report, if it is the next one of the host's run.

        Raises:
            UnknownJobError: the job or the host did not announce itself.
            StaleReportError: it is of an earlier start, not later than what was taken, or far
                ahead of it.
        """
        job = self[name]
        host = job.hosts.get(report.host)
        if host is None:
            raise UnknownJobError(
                f"host {report.host!r} of job {name!r} did not announce itself here; "
                "announce it with PUT first"
            )
        _require_next(name, host, report)
        host.direct = renewed(host.direct, report.direct_bytes, now - host.seen)
        host.report, host.iteration, host.seen = report, report.iteration, now
        job.is_running = True
        return host

    def leave(self, name: str) -> None:
        """Forget a job.

        Raises:
            UnknownJobError: it is not known.
        """
        del self._jobs[self[name].name]

    def silent(self, now: float, after_s: float) -> list[str]:
        """Return the jobs that were not heard of for longer than ``after_s``."""
        return [job.name for job in self._jobs.values() if now - job.seen > after_s]

    def drop_silent_hosts(self, now: float, after_s: float) -> list[tuple[str, str]]:
        """Forget hosts that fell silent while their jobs go on; return (job, host) of each."""
        gone = [
            (job.name, name)
            for job in self._jobs.values()
            for name, host in job.hosts.items()
            if now - host.seen > after_s >= now - job.seen
        ]
        for job, host in gone:
            del self._jobs[job].hosts[host]
        return gone

    def _require_room_for_host(self) -> None:
        if self.announced_hosts >= MOST_HOSTS:
            raise ReportError(
                f"there are {MOST_HOSTS} hosts already; let each keep its name, and end those "
                "that do not train any more with DELETE"
            )

    def _new(self, name: str, message: JobAnnounced) -> Job:
        if len(self._jobs) >= MOST_JOBS:
            raise ReportError(
                f"there are {MOST_JOBS} jobs already; end those that do not run any more"
            )
        return Job(name, message)


def _asks_otherwise(known: JobAnnounced, message: JobAnnounced) -> bool:
    return any(getattr(known, name) != getattr(message, name) for name in _TOLD_ONCE)


def _require_next(job: str, host: Host, report: HealthReport) -> None:
    if report.boot != host.announced.boot:
        raise StaleReportError(
            f"the report of host {report.host!r} of job {job!r} is of start {report.boot!r}, "
            f"and it announced start {host.announced.boot!r} last; announce it with PUT first"
        )
    if report.iteration <= host.iteration:
        raise StaleReportError(
            f"host {report.host!r} of job {job!r} reported iteration {host.iteration} already, "
            f"so iteration {report.iteration} came twice or late; drop it"
        )
    if report.iteration - host.iteration > MOST_SKIPPED:
        raise StaleReportError(
            f"iteration {report.iteration} of host {report.host!r} of job {job!r} lies "
            f"more than {MOST_SKIPPED} behind iteration {host.iteration}, the last that is known "
            "here; announce it with PUT first, with the iterations it has done"
        )
