"""Hosts, or single ranks, for which all others wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.analysis.places import PlaceSums
from headrace.analysis.view import View
from headrace.analysis.windows import Quantity
from headrace.report.units import seconds


class Straggling(NamedTuple):
    """What slow places cost a job."""

    slow: tuple[PlaceSums, ...]
    lost_s: float
    """By all ranks [s]."""

    own_s: float
    """Waits of the slow places' own ranks beyond the others' [s]."""

    evidence: tuple[str, ...]


def straggling(view: View) -> Straggling | None:
    """Return what the few slow hosts cost, else the few slow ranks; None where there are none.

    All ranks lose what the slowest wait beyond the others, but no more than they are seen to wait
    for each other, where the trace tells that.
    """
    for places in (view.evidence.by_host, view.evidence.by_rank):
        if slow := _slow(view, places):
            others = [one for one in places if one.ranks and one not in slow]
            return _cost(view, slow, others)
    return None


def _slow(view: View, places: Sequence[PlaceSums]) -> tuple[PlaceSums, ...]:
    """Return the few places whose loads take much longer, and whose ranks wait much more."""
    limits = view.thresholds
    judged = [one for one in places if one.ranks and one.loads >= limits.least_loads]
    if len(judged) < 2:
        return ()
    latency_s = _lower_median([_latency(one) for one in judged])
    wait_s = _lower_median([_wait(one) for one in judged])
    least_wait_s = max(limits.slow_host_waits * wait_s, limits.lost_share * view.evidence.span_s)
    slow = [
        one
        for one in judged
        if _latency(one) >= limits.slow_host * latency_s and _wait(one) >= least_wait_s
    ]
    return tuple(slow) if 2 * len(slow) <= len(judged) else ()


def _cost(view: View, slow: tuple[PlaceSums, ...], others: Sequence[PlaceSums]) -> Straggling:
    usual_wait_s = _lower_median([_wait(one) for one in others])
    own_s = sum((_wait(one) - usual_wait_s) * one.ranks for one in slow)
    lost_s = (max(map(_wait, slow)) - usual_wait_s) * view.evidence.ranks
    barrier_s = view.history.total(Quantity.BARRIER_S)
    if barrier_s:
        told = f"ranks waited {seconds(barrier_s)} for each other"
        lost_s = min(lost_s, own_s + barrier_s)
    else:
        told = (
            "how long ranks waited for each other the trace does not tell: all are taken to lose "
            "what the slowest wait beyond the others"
        )
    latency_s = _lower_median([_latency(one) for one in others if one.loads])
    kind = "hosts" if slow[0].rank is None else "ranks"
    evidence = [
        f"a load takes {seconds(_latency(one))} on {one.name}, {seconds(latency_s)} on the median "
        f"of {len(others)} other {kind}; its ranks waited {seconds(_wait(one))} each, theirs "
        f"{seconds(usual_wait_s)}"
        for one in slow
    ]
    return Straggling(slow, lost_s, own_s, (*evidence, told))


def _latency(place: PlaceSums) -> float:
    return place.load_s / place.loads


def _wait(place: PlaceSums) -> float:
    return place.wait_s / place.ranks


def _lower_median(values: list[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]
