"""Messages as the policy's events: pure."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.media import TierName
from headrace.policy.reservation.events import (
    BurstAnnounced,
    HealthReported,
    Indicators,
    JobJoined,
)
from headrace.policy.reservation.pool import Loan
from headrace.wire.control import Burst, HealthReport, JobAnnounced
from headrace.wire.estate import LedgerEntry


def joined(
    job: str, message: JobAnnounced, quotas: Mapping[TierName, float], *, is_running: bool
) -> JobJoined:
    """Return that a job joined.

    Args:
        job: Its name.
        message: What it asks for.
        quotas: What is in force for it already [B/s].
        is_running: It is past its first batches: what it said of them means nothing now.
    """
    return JobJoined(
        job=job,
        data_path=message.data_path,
        weight=message.weight,
        guaranteed=message.guaranteed,
        quotas=quotas,
        hosts=message.hosts,
        step_time_s=message.step_time_s,
        begins_in_s=0.0 if is_running else message.begins_in_s,
        upcoming_bytes=() if is_running else message.upcoming_bytes,
    )


def reported(job: str, report: HealthReport, crossed: Mapping[TierName, float]) -> HealthReported:
    """Return that a host ended an iteration.

    Args:
        job: Its job's name.
        report: What it says.
        crossed: Link → part of what agents send to the job that crosses it, 0 to 1.
    """
    indicators = Indicators(
        iteration=report.iteration,
        step_time_s=report.step_time_s,
        wait_s=report.wait_s,
        queue_depth=report.queue_depth,
        queue_capacity=report.queue_capacity,
        io_latency_s=report.io_latency_s,
        io_latency_cv=report.io_latency_cv,
        next_bytes=report.next_bytes,
        upcoming_bytes=report.upcoming_bytes,
        queue_share=report.queue_share,
        throttled_share=report.throttled_share,
        hit_rate=report.hit_rate,
        split=report.split | _over_links(report, crossed),
        transform_share=report.transform_share,
        nic_bytes_per_s=report.nic_bytes_per_s,
        read_bytes_per_s=report.read_bytes_per_s,
    )
    return HealthReported(job=job, host=report.host, indicators=indicators)


def _over_links(report: HealthReport, crossed: Mapping[TierName, float]) -> dict[TierName, float]:
    """Return link → bytes that cross it per byte read; a host cannot know them by itself."""
    if report.read_bytes_per_s <= 0:
        return {}
    per_byte = report.agent_bytes_per_s / report.read_bytes_per_s
    return {link: per_byte * part for link, part in crossed.items()}


def announced(job: str, burst: str, message: Burst) -> BurstAnnounced:
    """Return that a checkpoint will be moved."""
    return BurstAnnounced(
        job=job,
        burst=burst,
        tier=message.tier,
        nbytes=message.nbytes,
        deadline_s=message.deadline_s,
        urgent=message.urgent,
    )


def loan_of(entry: LedgerEntry, *, now: float, at: float) -> Loan:
    """Return an open loan of the ledger as the policy's, its times on the policy's clock.

    Args:
        entry: The loan; its times are of 1970.
        now: The time on the policy's clock [s].
        at: The same moment since 1970 [s].
    """
    return Loan(
        loan=entry.loan or 0,
        job=entry.job,
        tier=entry.tier,
        bytes_per_s=entry.bytes_per_s,
        lent_at=now - (at - entry.began_at),
        expires_at=now + ((entry.expires_at or at) - at),
        iteration=entry.iteration,
        iterations=entry.iterations,
        score=entry.score,
        reason=entry.reason,
    )
