"""Says with numbers of a trace why a cause is named."""

from __future__ import annotations

import numpy as np

from headrace.analysis.attribution import queued_share, round_trip_share
from headrace.analysis.causes import Cause
from headrace.analysis.columns import Mask
from headrace.analysis.view import METADATA, OVERHEAD, STORAGE, TRANSFORMATION, UNTOLD, View
from headrace.report.units import bytes_, percent, seconds, significant


def reasons(cause: Cause, view: View, windows: Mask) -> tuple[str, ...]:
    """Return why waits in some windows are of a cause."""
    return (_waited(view, windows), *_REASONS[cause](view, windows))


def told_shares(view: View) -> tuple[str, ...]:
    """Return of what all loading consists."""
    everywhere = np.ones(len(view.wait_s), np.bool_)
    return tuple(
        _share_of_parts(view, everywhere, part) for part in _PARTS if view.parts[part].any()
    )


def told_round_trips(view: View) -> str:
    """Return which part of a read is a round trip."""
    nbytes, taken_s = view.mean_read()
    return (
        f"a read has {bytes_(nbytes)} on average and takes {seconds(taken_s)}, of which "
        f"{percent(round_trip_share(view))} are a round trip"
    )


def _waited(view: View, windows: Mask) -> str:
    lost_s = float(view.wait_s[windows].sum())
    share = lost_s / (view.rank_s * int(windows.sum()))
    return (
        f"ranks waited {seconds(lost_s)} for data in {int(windows.sum())} of {len(windows)} "
        f"windows of {seconds(view.history.width_s)}: {percent(min(1.0, share))} of the time there"
    )


def _share_of_parts(view: View, windows: Mask, part: int) -> str:
    spent = view.parts[:, windows].sum(axis=1)
    return f"{_PARTS[part]} took {percent(float(spent[part] / spent.sum()))} of loading"


def _transformed(view: View, windows: Mask) -> tuple[str, ...]:
    return (_share_of_parts(view, windows, TRANSFORMATION),)


def _looked_up(view: View, windows: Mask) -> tuple[str, ...]:
    return (_share_of_parts(view, windows, METADATA),)


def _read(view: View, windows: Mask) -> tuple[str, ...]:
    told = _share_of_parts(view, windows, STORAGE)
    nbytes, taken_s = view.mean_read()
    if np.isnan(nbytes):
        return (told,)
    rate = float(view.read_bytes[windows].sum()) / (int(windows.sum()) * view.history.width_s)
    return (
        told,
        f"{bytes_(rate)}/s were read meanwhile; a read of {bytes_(nbytes)} took {seconds(taken_s)}",
    )


def _round_trips(view: View, windows: Mask) -> tuple[str, ...]:
    del windows
    return (told_round_trips(view),)


def _slower(view: View, windows: Mask) -> tuple[str, ...]:
    told = [_share_of_parts(view, windows, STORAGE)] if view.tells_parts else []
    costs = view.cost[windows]
    cost = float(np.nanmean(costs)) if np.isfinite(costs).any() else 0.0
    usual = view.usual_cost
    if cost > usual:
        told.append(f"a byte took {significant(cost / usual)} times the usual time")
    if queued := queued_share(view):
        told.append(f"{percent(queued)} of reading was waiting in line")
    return tuple(told)


def _fewer_hits(view: View, windows: Mask) -> tuple[str, ...]:
    rates = view.hit_rate[windows]
    known = rates[~np.isnan(rates)]
    if not known.size or not view.usual_hit_rate >= view.thresholds.has_cache:
        return ()
    return (
        f"{percent(float(known.mean()))} came out of a cache, usually "
        f"{percent(view.usual_hit_rate)}",
    )


def _congested(view: View, windows: Mask) -> tuple[str, ...]:
    return (*_slower(view, windows), *_fewer_hits(view, windows))


def _colder(view: View, windows: Mask) -> tuple[str, ...]:
    return ("right after a start", *_congested(view, windows))


def _thrashed(view: View, windows: Mask) -> tuple[str, ...]:
    return (*_fewer_hits(view, windows), *_slower(view, windows))


def _stormed(view: View, windows: Mask) -> tuple[str, ...]:
    return ("while a checkpoint was read or saved", *_slower(view, windows))


_PARTS = {
    METADATA: "finding files",
    STORAGE: "reading",
    TRANSFORMATION: "transforming",
    OVERHEAD: "what is none of these",
    UNTOLD: "what the trace does not tell",
}
"""What the parts of loading are called."""

_REASONS = {
    Cause.CHECKPOINT_STORM: _stormed,
    Cause.COLD_START: _colder,
    Cause.THRASH: _thrashed,
    Cause.CONGESTION: _congested,
    Cause.RTT_BOUND: _round_trips,
    Cause.STORAGE_BANDWIDTH_BOUND: _read,
    Cause.METADATA_BOUND: _looked_up,
    Cause.TRANSFORM_BOUND: _transformed,
}
