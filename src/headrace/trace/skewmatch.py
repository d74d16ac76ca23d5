"""Finds events that bind two hosts' clocks: ends of one barrier, requests and their answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from headrace.trace.skewfit import Pair, Seen

WINDOWS = 32
"""Into which the events of a pair of hosts are cut, one after the other, to see clocks drift."""

LEAST_EVENTS = 5
"""Fewer barriers do not tell how much they scatter, fewer requests not whether they are pairs."""

LEAST_AGREEING = 0.5
"""Share of requests that must allow one offset; else some are no pairs, and none counts."""

_WINDOW_EVENTS = 8
_SIGMA_OF_MAD = 1.4826
_PRIME = np.uint64(0x9E3779B97F4A7C15)

Ints = npt.NDArray[np.int64]
Observations = defaultdict[Pair, list[Seen]]


def mixed(*columns: Ints) -> Ints:
    """Return a number for each row, int64 [rows], that is equal where all columns are."""
    key = np.zeros(columns[0].size, np.uint64)
    for column in columns:
        key = (key ^ column.view(np.uint64)) * _PRIME
        key ^= key >> np.uint64(31)
    return key.view(np.int64)


def observe_barriers(key: Ints, host: Ints, rank: Ints, end: Ints) -> Observations:
    """Compare the first rank of each host to leave a barrier with that of another host.

    Barriers of one key are told apart by their order on each rank; where ranks have different
    numbers of them, some are missing, and none is used.
    """
    order = np.lexsort((end, rank, host, key))
    key, host, rank, end = key[order], host[order], rank[order], end[order]
    begins = np.flatnonzero(_is_new(key, host, rank))
    counts = np.diff(np.append(begins, key.size))
    place = np.arange(key.size) - np.repeat(begins, counts)
    whole = np.repeat(_is_even(key[begins], counts), counts)
    return _compared(mixed(key, place)[whole], host[whole], end[whole])


def observe_requests(
    asked: tuple[Ints, Ints, Ints, Ints], answered: tuple[Ints, Ints, Ints, Ints]
) -> Observations:
    """Bound clocks by requests that enclose the work on them.

    Args:
        asked: Key, host, begin and end of requests, as their clients saw them.
        answered: The same of the work on them, as the servers saw it.
    """
    asked, answered = _unique(asked), _unique(answered)
    _, ours, theirs = np.intersect1d(asked[0], answered[0], return_indices=True)
    host, begin, end = (column[ours] for column in asked[1:])
    server, began, ended = (column[theirs] for column in answered[1:])
    least, most = ended - end, began - begin
    fits = (least <= most) & (host != server)
    found: Observations = defaultdict(list)
    for pair, rows in _pairs(host[fits], server[fits]):
        places = np.flatnonzero(fits)[rows]
        for some in _windows(begin[places]):
            seen = _agreed(begin[places][some], least[places][some], most[places][some])
            found[pair] += seen
    return found


def _is_even(key: Ints, counts: Ints) -> npt.NDArray[np.bool_]:
    """Tell which groups have as many barriers as all others of their key."""
    if not key.size:
        return np.empty(0, np.bool_)
    begins = np.flatnonzero(_is_new(key))
    even = np.maximum.reduceat(counts, begins) == np.minimum.reduceat(counts, begins)
    return np.repeat(even, np.diff(np.append(begins, key.size)))


def _compared(barrier: Ints, host: Ints, end: Ints) -> Observations:
    order = np.lexsort((end, host, barrier))
    order = order[_is_new(barrier[order], host[order])]
    barrier, host, end = barrier[order], host[order], end[order]
    begins = np.flatnonzero(_is_new(barrier))
    anchor = np.repeat(begins, np.diff(np.append(begins, barrier.size)))
    others = np.flatnonzero(anchor != np.arange(barrier.size))
    anchor = anchor[others]
    found: Observations = defaultdict(list)
    for pair, rows in _pairs(host[anchor], host[others]):
        at, ahead = end[anchor[rows]], (end[others] - end[anchor])[rows]
        for some in _windows(at):
            found[pair] += _scattered(at[some], ahead[some])
    return found


def _scattered(at: Ints, ahead: Ints) -> list[Seen]:
    if at.size < LEAST_EVENTS:
        return []
    middle = float(np.median(ahead))
    mad = float(np.median(np.abs(ahead - middle)))
    return [Seen(int(np.median(at)), middle, _SIGMA_OF_MAD * mad)]


def _agreed(at: Ints, least: Ints, most: Ints) -> list[Seen]:
    """Return where most of the intervals overlap (Marzullo's algorithm), if enough of them do."""
    if at.size < LEAST_EVENTS:
        return []
    bounds = np.concatenate([least, most])
    opens = np.repeat([1, -1], at.size)
    order = np.lexsort((-opens, bounds))
    depth = np.cumsum(opens[order])
    best = int(np.argmax(depth))
    if depth[best] <= LEAST_AGREEING * at.size:
        return []
    low, high = int(bounds[order[best]]), int(bounds[order[best + 1]])
    return [Seen(int(np.median(at)), (low + high) / 2, (high - low) / 2)]


def _windows(at: Ints) -> list[Ints]:
    """Return the places of events, in up to 32 parts of equal number after the other."""
    return np.array_split(np.argsort(at), max(1, min(WINDOWS, at.size // _WINDOW_EVENTS)))


def _pairs(first: Ints, second: Ints) -> Iterator[tuple[Pair, Ints]]:
    """Yield each pair of hosts with the places where it is."""
    order = np.lexsort((second, first))
    begins = np.flatnonzero(_is_new(first[order], second[order]))
    for rows in np.split(order, begins[1:]):
        if rows.size:
            yield (int(first[rows[0]]), int(second[rows[0]])), rows


def _is_new(*columns: Ints) -> npt.NDArray[np.bool_]:
    """Tell which rows differ from the one before."""
    new = np.ones(columns[0].size, np.bool_)
    for place, column in enumerate(columns):
        differs = column[1:] != column[:-1]
        new[1:] = differs if place == 0 else new[1:] | differs
    return new


def _unique(rows: tuple[Ints, Ints, Ints, Ints]) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the rows whose key no other has."""
    _, first, counts = np.unique(rows[0], return_index=True, return_counts=True)
    key, host, begin, end = (column[first[counts == 1]] for column in rows)
    return key, host, begin, end
