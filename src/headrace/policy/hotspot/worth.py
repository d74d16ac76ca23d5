"""How many copies hot files are worth: pure arithmetic over what a store says of itself.

Loading is reckoned as all readers fetching the hot bytes from the nodes that hold copies, each
node sending at a fixed rate; raising as the store's throttle and its nodes' rate allow, at least
one stage after another. Copies that come while readers are still at it help, but only half.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.policy.hotspot.events import Figures, HotFile, StoredFile, Wanted
from headrace.policy.hotspot.limits import HotspotLimits


@dataclass(frozen=True, kw_only=True, slots=True)
class Now:
    """How a file is stored before it is raised."""

    original: int
    """Copies asked for; 0 where copies are kept by agents, and none does."""

    blocks: int


@dataclass(slots=True)
class _Plan:
    """What is left for the files that are still to be planned."""

    figures: Figures
    limits: HotspotLimits
    eta_s: float
    free_bytes: float
    busy_s: float = 0.0
    """Time for which copying is taken up already [s]."""


def plan(
    files: Sequence[HotFile],
    now: Mapping[StoredFile, Now],
    figures: Figures,
    *,
    eta_s: float,
    limits: HotspotLimits,
) -> tuple[Wanted, ...]:
    """Return what each file gets; those that gain most for what is copied come first.

    Args:
        files: All of one store.
        now: How each of them is stored.
        figures: Of the store.
        eta_s: Time until they turn hot [s].
        limits: What to go by.
    """
    going = _Plan(figures, limits, eta_s, limits.free_share * figures.free_bytes)
    ordered = sorted(files, key=lambda one: -one.readers * one.hot_bytes / max(one.size, 1))
    return tuple(_plan_file(one, now[one.file], going) for one in ordered)


def ceiling(figures: Figures, limits: HotspotLimits) -> int:
    """Return how many copies any file may have while a store is as busy as it is."""
    span = limits.busy_transfers - limits.idle_transfers
    busy = (figures.transfers_per_node - limits.idle_transfers) / span
    fall = (limits.idle_ceiling - limits.busy_ceiling) * min(max(busy, 0.0), 1.0)
    return min(round(limits.idle_ceiling - fall), figures.nodes)


def load_s(file: HotFile, copies: int, limits: HotspotLimits) -> float:
    """Return how long readers take to load a file's hot bytes from so many copies [s]."""
    return file.readers * file.hot_bytes / (max(copies, 1) * limits.node_bytes_per_s)


def _plan_file(file: HotFile, now: Now, going: _Plan) -> Wanted:
    copies, reason = _useful(file, now, going)
    ready_s = _ready_s(file, now, copies, going) if copies > now.original else 0.0
    saved_s = load_s(file, now.original, going.limits) - load_s(file, copies, going.limits)
    if copies > now.original and (why := _not_worth(file, now, copies, saved_s, going)):
        copies, reason, ready_s, saved_s = now.original, why, 0.0, 0.0
    going.busy_s = max(going.busy_s, ready_s)
    going.free_bytes -= (copies - now.original) * _copied(file, going.figures)
    return Wanted(
        file=file.file,
        copies=copies,
        original=now.original,
        ready_in_s=ready_s,
        saved_s=saved_s,
        reason=reason,
    )


def _useful(file: HotFile, now: Now, going: _Plan) -> tuple[int, str]:
    """Return how many copies readers could use, and the store could have made in time."""
    limits, figures = going.limits, going.figures
    if not figures.replicates and not figures.nodes:
        return now.original, "the store keeps no replicas, and there are no agents to hold copies"
    by_readers = math.ceil(file.readers / limits.readers_per_copy)
    fitting = going.free_bytes // max(_copied(file, figures), 1)
    by_space = now.original + int(min(max(fitting, 0.0), by_readers))
    bounds = (
        (by_readers, f"{file.readers} readers"),
        (ceiling(figures, limits), _who(figures)),
        (by_space, f"{going.limits.free_share:.0%} of the free space"),
    )
    most, why = min(bounds, key=lambda bound: bound[0])
    if most <= now.original:
        return now.original, f"{why} allow no more than the {now.original} copies it has"
    in_time = _in_time(file, now, most, going)
    if in_time <= now.original:
        return in_time, f"no further copy would be there in time, with {going.eta_s:.0f} s left"
    return in_time, why if in_time == most else f"what can be there with {going.eta_s:.0f} s left"


def _who(figures: Figures) -> str:
    if not figures.replicates:
        return f"{figures.nodes} agents"
    return f"{figures.nodes} nodes that serve {figures.transfers_per_node:.1f} transfers each"


def _in_time(file: HotFile, now: Now, most: int, going: _Plan) -> int:
    until_s = max(going.eta_s, 0.0) + load_s(file, now.original, going.limits) / 2
    wanted = range(most, now.original, -1)
    return next((c for c in wanted if _ready_s(file, now, c, going) <= until_s), now.original)


def _ready_s(file: HotFile, now: Now, copies: int, going: _Plan) -> float:
    """Return when so many copies would be there [s]."""
    figures, limits = going.figures, going.limits
    more = copies - now.original
    by_bytes = more * _copied(file, figures) / (max(figures.nodes, 1) * limits.node_bytes_per_s)
    if not figures.replicates:
        return going.busy_s + by_bytes
    by_throttle = more * max(now.blocks, 1) / max(figures.blocks_per_s, 1e-9)
    growth = copies / max(now.original, 1)
    stages = math.ceil(math.log(growth) / math.log(limits.most_growth) - 1e-9)
    return max(stages * limits.stage_s, going.busy_s + max(by_bytes, by_throttle))


def _not_worth(file: HotFile, now: Now, copies: int, saved_s: float, going: _Plan) -> str:
    """Return why copies are not worth making; empty: they are."""
    limits = going.limits
    if saved_s < limits.least_saved_s:
        count = "1 copy" if copies == 1 else f"{copies} copies"
        return f"{count} would save {saved_s:.2g} s of loading"
    copied = (copies - now.original) * _copied(file, going.figures)
    if copied > limits.most_copied_share * file.readers * file.hot_bytes:
        return (
            f"{copies} copies of {file.size} B are more work than the {file.readers} reads of its "
            f"{file.hot_bytes} hot B: the store copies whole files"
        )
    return ""


def _copied(file: HotFile, figures: Figures) -> int:
    """Return what one more copy takes [bytes]."""
    return file.size if figures.replicates else file.hot_bytes
