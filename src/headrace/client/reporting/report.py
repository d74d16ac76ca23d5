"""The message about one host's ranks, and its length: pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headrace.client.reporting.figures import Figures
from headrace.client.reporting.origins import Origins
from headrace.client.reporting.portions import Portions, share
from headrace.core.media import TierName
from headrace.wire.control import MOST_REPORT_BYTES, HealthReport

MOST_TIERS = 4
"""Tiers that a report tells apart; the rest count as the largest of them."""

DIGITS = 4
"""Significant digits of what is measured."""


def health_report(
    figures: Figures,
    origins: Origins,
    portions: Portions,
    *,
    host: str,
    boot: str,
    ranks: int,
    interval_s: float,
) -> HealthReport:
    """Return the report of what a host's ranks did in ``interval_s``.

    Args:
        figures: What they did.
        origins: Where bytes lie; the figures are noted already, as with the next.
        portions: Where time goes.
        host: The host's name.
        boot: The run that it reports under.
        ranks: Ranks that the figures are of.
        interval_s: Time since the report before [s].
    """
    tiers = _largest(origins.tiers(figures))
    stored = sum(tiers.values())
    first, *others = figures.upcoming_bytes or (0,)
    own = {origins.direct: figures.direct_bytes} if figures.direct_bytes else {}
    return HealthReport(
        host=host,
        boot=boot,
        iteration=figures.iteration,
        step=figures.step,
        step_time_s=_rounded(figures.step_time_s),
        wait_s=_rounded(figures.wait_s),
        queue_depth=_rounded(figures.queue_depth),
        queue_capacity=_rounded(figures.queue_capacity),
        io_latency_s=_rounded(figures.latency_s),
        io_latency_cv=_rounded(figures.latency_cv),
        next_bytes=first,
        upcoming_bytes=tuple(others),
        queue_share=portions.queue,
        throttled_share=portions.throttled,
        hit_rate=_rounded(origins.hit_rate),
        split={tier: share(nbytes, stored) for tier, nbytes in tiers.items()},
        transform_share=portions.transform,
        nic_bytes_per_s=_rounded((figures.wire_bytes + figures.direct_bytes) / interval_s),
        agent_bytes_per_s=_rounded(figures.wire_bytes / interval_s),
        read_bytes_per_s=_rounded(stored / interval_s),
        direct_bytes=own,
        ranks=ranks,
    )


def encoded(report: HealthReport) -> bytes:
    """Return the message's bytes, shorter than the protocol's limit: distant batches go first."""
    body = msgspec.json.encode(report)
    while len(body) >= MOST_REPORT_BYTES and report.upcoming_bytes:
        report = msgspec.structs.replace(report, upcoming_bytes=report.upcoming_bytes[:-1])
        body = msgspec.json.encode(report)
    return body


def _largest(tiers: Mapping[TierName, int]) -> dict[TierName, int]:
    order = sorted(tiers, key=lambda tier: tiers[tier], reverse=True)
    kept = {tier: tiers[tier] for tier in order[:MOST_TIERS]}
    for tier in order[MOST_TIERS:]:
        kept[order[0]] += tiers[tier]
    return kept


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
