"""Whether accelerators worked: time lost by cause, and how much of I/O compute hid.

A rank is idle while it waits for a batch, for a checkpoint or for other ranks and nothing was
computed meanwhile. Where compute was not recorded, it is taken for the rest of each step.
"""

from __future__ import annotations

from headrace.analysis.activities import IDLE_CAUSES
from headrace.analysis.figures import Accelerators, Overlap
from headrace.analysis.timekeeping import TimeSums


def accelerators(times: TimeSums, price_per_hour: float | None) -> Accelerators | None:
    """Return what ranks lost; None where the trace tells nothing of what they were at.

    Args:
        times: Of all ranks.
        price_per_hour: Of one accelerator, in any currency.
    """
    spent = times.spent()
    ranks = spent.places.size
    if not ranks:
        return None
    by_cause_s = dict(zip(map(str, IDLE_CAUSES), spent.idle_s.sum(axis=0).tolist(), strict=True))
    idle_s = sum(by_cause_s.values())
    whole_s = times.spans.seconds_of(spent.places)
    hours = idle_s / 3600
    return Accelerators(
        ranks=ranks,
        span_s=whole_s / ranks,
        idle_s=idle_s,
        idle_share=idle_s / whole_s if whole_s else 0.0,
        compute_s=float(spent.compute_s.sum()) if times.knows_compute else None,
        by_cause_s=by_cause_s,
        lost_hours=hours,
        cost=None if price_per_hour is None else hours * price_per_hour,
    )


def overlap(times: TimeSums) -> Overlap | None:
    """Return how much of I/O was behind compute; None where one of them is not known."""
    spent = times.spent()
    io_s = float(spent.io_s.sum())
    compute, both = (
        (spent.compute_s, spent.hidden_s)
        if times.knows_compute
        else (spent.work_s, spent.hidden_by_work_s)
    )
    compute_s, both_s = float(compute.sum()), float(both.sum())
    if not io_s or not compute_s:
        return None
    return Overlap(io_s=io_s, compute_s=compute_s, both_s=both_s, hidden_share=both_s / io_s)
