"""Whether accelerators worked: time lost by cause, and how much of I/O compute hid.

A rank is idle while it waits for a batch, for a checkpoint or for other ranks and nothing was
computed meanwhile. Where compute was not recorded, it is taken for the rest of each step.
"""

from __future__ import annotations

import numpy as np

from headrace.analysis.activities import IDLE_CAUSES, Activities, Activity
from headrace.analysis.columns import Floats
from headrace.analysis.figures import Accelerators, Overlap, Timeline
from headrace.analysis.spreads import NS_PER_S
from headrace.analysis.stretches import NONE, Stretches, united

MOST_ROWS = 64
"""Ranks of a timeline."""

BINS = 240
"""Of a timeline."""

_SHOWN = (*IDLE_CAUSES, Activity.COMPUTE)


def accelerators(activities: Activities, price_per_hour: float | None) -> Accelerators | None:
    """Return what ranks lost; None where the trace tells nothing of what they were at.

    Args:
        activities: Of all ranks.
        price_per_hour: Of one accelerator, in any currency.
    """
    ranks = activities.places.size
    if not ranks:
        return None
    by_cause_s = _idle_s(activities)
    idle_s = sum(by_cause_s.values())
    whole_s = _spans_s(activities)
    hours = idle_s / 3600
    return Accelerators(
        ranks=ranks,
        span_s=whole_s / ranks,
        idle_s=idle_s,
        idle_share=idle_s / whole_s if whole_s else 0.0,
        compute_s=activities.of(Activity.COMPUTE).seconds() if activities.knows_compute else None,
        by_cause_s=by_cause_s,
        lost_hours=hours,
        cost=None if price_per_hour is None else hours * price_per_hour,
    )


def overlap(activities: Activities) -> Overlap | None:
    """Return how much of I/O was behind compute; None where one of them is not known."""
    io = activities.of_trainers(Activity.IO)
    computing = activities.knows_compute
    work = activities.of(Activity.COMPUTE if computing else Activity.STEP)
    if not io.keys.size or not work.keys.size:
        return None
    still = NONE if computing else activities.causes()
    compute_s = united(work, still).seconds() - still.seconds()
    both_s = _common_s(io, united(work, still)) - _common_s(io, still)
    io_s = io.seconds()
    return Overlap(io_s=io_s, compute_s=compute_s, both_s=both_s, hidden_share=both_s / io_s)


def timeline(activities: Activities, begin_ns: int, end_ns: int) -> Timeline | None:
    """Return what ranks were at in each part of a job's time; None where nothing is known."""
    places = activities.places
    if not places.size or end_ns - begin_ns < BINS:
        return None
    rows = min(places.size, MOST_ROWS)
    chosen = places[np.linspace(0, places.size - 1, rows).round().astype(np.int64)].tolist()
    edges = np.linspace(begin_ns, end_ns, BINS + 1)
    shares = [_shares(activities, place, edges) for place in chosen]
    return Timeline(
        bin_s=(end_ns - begin_ns) / NS_PER_S / BINS,
        ranks=tuple(str(place) if place >= 0 else f"process {-2 - place}" for place in chosen),
        shares={name: tuple(_digits(one[name]) for one in shares) for name in _SHOWN},
    )


def _shares(activities: Activities, place: int, edges: Floats) -> dict[Activity, Floats]:
    """Return which share of each bin a rank was at what."""
    causes = {cause: activities.of(cause).of(place).covered(edges) for cause in IDLE_CAUSES}
    if activities.knows_compute:
        compute = activities.of(Activity.COMPUTE).of(place).covered(edges)
    else:
        steps = activities.of(Activity.STEP).of(place).covered(edges)
        compute = np.maximum(steps - np.sum(list(causes.values()), axis=0), 0.0)
    return causes | {Activity.COMPUTE: compute}


def _digits(shares: Floats) -> str:
    return "".join(map(str, np.clip(shares * 10, 0, 9).astype(np.int64).tolist()))


def _idle_s(activities: Activities) -> dict[str, float]:
    """Return idle time by cause; a moment with several causes counts once [s]."""
    so_far = activities.of(Activity.COMPUTE)
    idle_s = {}
    for cause in IDLE_CAUSES:
        with_it = united(so_far, activities.of_trainers(cause))
        idle_s[cause.value] = with_it.seconds() - so_far.seconds()
        so_far = with_it
    return idle_s


def _spans_s(activities: Activities) -> float:
    """Return the time from each rank's first activity to its last, summed [s]."""
    seen = (*IDLE_CAUSES, Activity.COMPUTE, Activity.STEP)
    whole = united(*map(activities.of_trainers, seen))
    firsts = np.flatnonzero(np.append(True, whole.keys[1:] != whole.keys[:-1]))
    lasts = np.append(firsts[1:], whole.keys.size) - 1
    return float((whole.ends[lasts] - whole.begins[firsts]).sum(dtype=np.float64)) / NS_PER_S


def _common_s(one: Stretches, other: Stretches) -> float:
    return one.seconds() + other.seconds() - united(one, other).seconds()
