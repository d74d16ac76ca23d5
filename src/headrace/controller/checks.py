"""Whether a message makes sense, beyond its form: pure.

Numbers must be finite and in their range, names short and few, so that neither a corrupt
message nor a wrong sender reaches the policy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from headrace.core.errors import ReportError
from headrace.wire.control import (
    AgentAnnounced,
    AgentReport,
    Burst,
    HealthReport,
    JobAnnounced,
    JobUse,
)

MOST_TIERS = 16
"""Tiers that one message may name."""

MOST_UPCOMING = 8
"""Batches whose bytes a health report may tell."""

MOST_UPCOMING_AT_START = 1024
"""Batches whose bytes an announcement may tell."""

MOST_NUMBER = 2.0**63
"""Above any amount of bytes, any rate and any time."""

_LONGEST_NAME = 256
_MOST_HOSTS = 1 << 16


def check_job(job: str, message: JobAnnounced) -> None:
    """Make sure that an announcement of a job makes sense.

    Raises:
        ReportError: a number or a name does not; the message says which.
    """
    _check_names("job", (job, message.host, message.boot, message.data_path or job))
    _check_amounts(
        {
            "step_time_s": message.step_time_s,
            "begins_in_s": message.begins_in_s,
            "iteration": message.iteration,
        }
    )
    _check_tiers("guaranteed", message.guaranteed)
    _check_list("upcoming_bytes", message.upcoming_bytes, MOST_UPCOMING_AT_START)
    _require(0 < message.weight < MOST_NUMBER, f"weight={message.weight!r:.32} must be above 0")
    _require(
        len(message.title) <= _LONGEST_NAME and message.title.isprintable(),
        f"title={message.title!r:.64} must be {_LONGEST_NAME} printable characters at most",
    )
    _require(
        1 <= message.hosts <= min(message.world, _MOST_HOSTS),
        f"hosts={message.hosts!r:.32} must be 1 to world={message.world!r:.32}, "
        f"and {_MOST_HOSTS} at most",
    )


def check_health(report: HealthReport) -> None:
    """Make sure of what the policy does not look at: sizes of numbers, names, lists.

    Raises:
        ReportError: a number or a name makes no sense; the message says which.
    """
    numbers = (report.iteration, report.step, report.next_bytes, report.ranks)
    if not _are_amounts((*numbers, report.agent_bytes_per_s)):
        _check_amounts(
            {"iteration": report.iteration, "step": report.step}
            | {"next_bytes": report.next_bytes, "ranks": report.ranks}
            | {"agent_bytes_per_s": report.agent_bytes_per_s}
        )
    _check_list("upcoming_bytes", report.upcoming_bytes, MOST_UPCOMING)
    _check_tiers("split", report.split, most=1.0)
    _check_tiers("direct_bytes", report.direct_bytes)
    if not 1 <= report.ranks <= _MOST_HOSTS:
        raise ReportError(f"ranks={report.ranks} must be 1 to {_MOST_HOSTS}")


def check_agent(agent: str, message: AgentAnnounced) -> None:
    """Make sure that an agent's announcement makes sense.

    Raises:
        ReportError: a number or a name does not; the message says which.
    """
    _check_names("agent", (agent, message.boot, *message.hosts))
    _check_tiers("tiers", {offer.tier: offer.bytes_per_s for offer in message.tiers})
    named = [offer.tier for offer in message.tiers]
    _require(len(set(named)) == len(named), f"tiers {named} must each be named once")
    for job, quotas in message.enforced.items():
        _check_tiers(f"enforced[{job!r}]", quotas)


def check_agent_report(report: AgentReport) -> None:
    """Make sure that an agent's report makes sense.

    Raises:
        ReportError: a number or a name does not; the message says which.
    """
    _check_amounts(
        {
            "sequence": report.sequence,
            "interval_s": report.interval_s,
            "cpu_share": report.cpu_share,
            "workers": report.workers,
        }
    )
    # One look over what is right nearly always; names are only looked up for what is wrong.
    if not _are_amounts(_numbers_of(report.jobs.values())):
        for job, use in report.jobs.items():
            _explain_use(job, use)
    for tier in {tier for use in report.jobs.values() for tier in use.tiers | use.enforced}:
        _check_names("tiers", (tier,))


def check_burst(burst: str, message: Burst) -> None:
    """Make sure that a checkpoint's announcement makes sense.

    Raises:
        ReportError: a number or a name does not; the message says which.
    """
    _check_names("burst", (burst, message.tier))
    _check_amounts({"nbytes": message.nbytes, "deadline_s": message.deadline_s})


def _numbers_of(uses: Iterable[JobUse]) -> list[float]:
    numbers: list[float] = []
    for use in uses:
        numbers += (use.tensor_bytes, use.raw_bytes, use.waiting, *use.enforced.values())
        for one in use.tiers.values():
            numbers += (one.nbytes, one.reads, one.queued_s, one.read_s)
    return numbers


def _explain_use(job: str, use: JobUse) -> None:
    counts = {"tensor_bytes": use.tensor_bytes, "raw_bytes": use.raw_bytes, "waiting": use.waiting}
    _check_amounts({f"jobs[{job!r}].{name}": value for name, value in counts.items()})
    _check_amounts({f"jobs[{job!r}].enforced[{t!r}]": value for t, value in use.enforced.items()})
    for tier, one in use.tiers.items():
        figures = msgspec.structs.asdict(one)
        _check_amounts({f"jobs[{job!r}].tiers[{tier!r}].{n}": v for n, v in figures.items()})


def _check_amounts(amounts: Mapping[str, float]) -> None:
    if not _are_amounts(amounts.values()):
        for name, value in amounts.items():
            _require(
                0 <= value < MOST_NUMBER, f"{name}={value!r:.32} must be finite and not negative"
            )


def _check_tiers(name: str, values: Mapping[str, float], most: float = MOST_NUMBER) -> None:
    if not values:
        return
    _require(len(values) <= MOST_TIERS, f"{name} names {len(values)} tiers; {MOST_TIERS} at most")
    for tier, value in values.items():
        _check_names(name, (tier,))
        _require(0 <= value <= most, f"{name}[{tier!r}]={value!r:.32} must be 0 to {most:g}")


def _check_list(name: str, values: Sequence[int], most: int) -> None:
    _require(len(values) <= most, f"{name} has {len(values)} batches; {most} at most")
    if values and not _are_amounts(values):
        raise ReportError(f"{name} has a number that is negative or too large")


def _check_names(of: str, names: Iterable[str]) -> None:
    for name in names:
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise ReportError(
                f"{of}: {name!r} is no name; give 1 to {_LONGEST_NAME} printable characters"
            )


def _are_amounts(values: Iterable[float]) -> bool:
    """Return whether all are finite and not negative; NaN makes the sum NaN."""
    numbers = (0.0, *values)
    return max(numbers) < MOST_NUMBER and min(numbers) >= 0 and math.isfinite(sum(numbers))


def _require(right: bool, wrong: str) -> None:
    if not right:
        raise ReportError(f"the message makes no sense: {wrong}")
