"""Which cause made a job wait in which window."""

from __future__ import annotations

import numpy as np

from headrace.analysis.causes import Cause
from headrace.analysis.columns import Floats, Ints, Mask
from headrace.analysis.view import METADATA, STORAGE, TRANSFORMATION, View
from headrace.analysis.windows import Quantity


def causes_of_waits(view: View) -> dict[Cause, Mask]:
    """Return the windows of waits by cause ``[windows]``; each is of one cause at most.

    Where windows without waits show what is usual, the part of loading that grew most beyond it
    is to blame, else the one that takes most. No loading explains waits that are far longer than
    it is, such as for the start of workers.
    """
    main = _main_part(view)
    in_storm = (
        view.is_waiting & (main == STORAGE) & view.is_storm & _waited_more(view, view.is_storm)
    )
    is_cold = (
        view.is_waiting
        & view.is_explained
        & ~in_storm
        & view.is_after_start
        & _is_colder(view, main)
    )
    by_storage = view.is_waiting & (main == STORAGE) & ~in_storm & ~is_cold
    is_thrash = (
        by_storage
        & view.has_fewer_hits
        & view.is_slower_by_misses
        & _waited_more(view, view.has_fewer_hits)
    )
    is_congested = by_storage & ~is_thrash & _is_congested(view)
    is_bound = by_storage & ~is_thrash & ~is_congested
    bound = Cause.RTT_BOUND if is_rtt_bound(view) else Cause.STORAGE_BANDWIDTH_BOUND
    others = view.is_waiting & ~in_storm & ~is_cold
    return {
        Cause.CHECKPOINT_STORM: in_storm,
        Cause.COLD_START: is_cold,
        Cause.THRASH: is_thrash,
        Cause.CONGESTION: is_congested,
        bound: is_bound,
        Cause.METADATA_BOUND: others & (main == METADATA),
        Cause.TRANSFORM_BOUND: others & (main == TRANSFORMATION),
    }


def returnable_s(view: View, windows: Mask) -> float:
    """Return how much of the waits in some windows can go away with what is to blame, at most [s].

    Ranks wait for the rest of loading still, at the pace at which it was loaded.
    """
    main = _main_part(view)
    total_s = view.parts.sum(axis=0)
    blamed_s = np.where(main >= 0, view.parts[main, np.arange(main.size)], total_s)
    share = np.divide(blamed_s, total_s, out=np.ones_like(total_s), where=total_s > 0)
    return float(np.minimum(view.wait_s, share * view.rank_s)[windows].sum())


def is_rtt_bound(view: View) -> bool:
    """Tell whether reads are small, and mostly round trips."""
    read_bytes, read_s = view.mean_read()
    nominal_s = read_bytes / view.thresholds.nominal_bytes_per_s
    if not nominal_s < 0.5 * read_s:
        return False
    return round_trip_share(view) >= view.thresholds.round_trips


def round_trip_share(view: View) -> float:
    """Return which part of a read is a round trip, 0 to 1; NaN where it cannot be told.

    A round trip takes no longer than the fastest reads that came out of no cache, and no longer
    than a question about a file that was asked over a network.
    """
    least, typical = view.evidence.reads.least_s(), view.evidence.reads.typical_s()
    if least is None or typical is None:
        return float("nan")
    question = view.evidence.metadata.median_s()
    if question is not None and question >= view.thresholds.remote_s:
        least = min(least, question)
    return min(1.0, least / typical) * (1.0 - queued_share(view))


def queued_share(view: View) -> float:
    """Return which part of reading was waiting in line, as far as the trace says, 0 to 1."""
    of_s = view.history.total(Quantity.QUEUED_OF_S)
    return view.history.total(Quantity.QUEUED_S) / of_s if of_s else 0.0


def _main_part(view: View) -> Ints:
    """Return the part of loading that is to blame ``[windows]``; -1: none is."""
    blamed = view.blamed_parts()
    total = blamed.sum(axis=0)
    part = blamed.argmax(axis=0)
    enough = blamed.max(axis=0) >= view.thresholds.main_part * np.where(total > 0, total, np.inf)
    return np.where(enough & view.is_explained, part, -1)


def _is_colder(view: View, main: Ints) -> Mask:
    """Return where loading was slower, or hits fewer, than usual; or the queue had no time.

    A job that always waits must have waited more then, and for longer than queues take to fill:
    while all workers do that at once, each of them is slower anyway.
    """
    is_slower = view.is_slower & _waited_more(view, view.is_after_start)
    if not view.calm.any():
        is_slower &= _outlasts_filling(view)
    is_colder = (is_slower | view.has_fewer_hits) & np.isin(main, (STORAGE, METADATA))
    return is_colder | view.is_begun if view.is_mostly_calm else is_colder


def _outlasts_filling(view: View) -> Mask:
    """Return what follows a start where it is slower still when loads of the filling are done.

    These end in the window after it, at the latest.
    """
    is_filling = view.is_begun | np.append(False, view.is_begun[:-1])
    run = np.cumsum(np.diff(view.is_after_start, prepend=False))
    outlasting = view.is_after_start & view.is_slower & ~is_filling
    lasts: Mask = view.is_after_start & np.isin(run, run[outlasting])
    return lasts


def _waited_more(view: View, windows: Mask) -> Mask:
    """Return where a job that always waits waited more than outside of some windows."""
    if view.calm.any():
        return view.is_waiting
    usual_s = _median(view.wait_s[view.is_waiting & ~windows])
    return np.asarray(view.wait_s >= view.thresholds.longer_waits * usual_s)


def _is_congested(view: View) -> Mask:
    """Return where reading was slower than usual, for a time."""
    return view.is_slower & view.calm.any()


def _median(values: Floats) -> float:
    return float(np.median(values)) if values.size else np.nan
