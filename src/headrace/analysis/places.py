"""Loads and waits of each host, and of each rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.analysis.columns import NULL, Columns, Floats, Ints
from headrace.trace.events import Kind

_OF_RANKS = (Kind.WAIT, Kind.STEP, Kind.COMPUTE, Kind.CHECKPOINT_READ, Kind.CHECKPOINT_SAVE)
"""Kinds that only ranks have."""

_UNNAMED = "-"
_PLACE_BITS = 40
_PLACE = (1 << _PLACE_BITS) - 1
_PROCESS = 1 << (_PLACE_BITS - 1)
"""Set where a place is a process, of no rank that is known."""

_WAITS, _BATCHES, _SAMPLES = 0, 2, 4
"""Columns of sums: of each a number, and seconds beside it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlaceSums:
    """What one host's ranks, or one of them, came to."""

    name: str
    host: str
    rank: int | None = None
    """The rank, if these are of one."""

    ranks: int = 1
    loads: float
    """Of batches; of samples where the trace tells no batches."""

    load_s: float
    waits: float
    wait_s: float


class Places:
    """Takes in one job's events, in any order; memory grows with ranks and processes."""

    def __init__(self) -> None:
        self._hosts: dict[str, int] = {}
        self._keys: Ints = np.empty(0, np.int64)
        """Hosts and ranks, or processes, packed into one number; sorted."""

        self._sums: Floats = np.zeros((0, 6))
        self._of_loops: set[int] = set()
        """Keys of places that took steps."""

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len({one if one & _PROCESS else one & _PLACE for one in self._of_loops})

    def add(self, events: Columns) -> None:
        """Take in events."""
        self._of_loops.update(np.unique(self._packed(events.of(*_OF_RANKS))).tolist())
        self._sum(events.of(Kind.WAIT).timed(), _WAITS)
        loads = events.of(Kind.LOAD).timed()
        of_samples = loads.texts("sample").codes != NULL
        self._sum(loads.where(~of_samples), _BATCHES)
        self._sum(loads.where(of_samples), _SAMPLES)

    def by_host(self) -> tuple[PlaceSums, ...]:
        """Return the sums of each host; of each rank where no host is told."""
        hosts = self._keys >> _PLACE_BITS
        of_loops = [one >> _PLACE_BITS for one in self._of_loops]
        ranks = np.bincount(of_loops, minlength=len(self._hosts)).tolist()
        return tuple(
            self._told(self._sums[hosts == number], name=name, host=name, ranks=ranks[number])
            for name, number in self._hosts.items()
        )

    def by_rank(self) -> tuple[PlaceSums, ...]:
        """Return the sums of each rank whose number is known."""
        names = list(self._hosts)
        is_rank = np.isin(self._keys, list(self._of_loops)) & (self._keys & _PROCESS == 0)
        hosts = (self._keys[is_rank] >> _PLACE_BITS).tolist()
        ranks = (self._keys[is_rank] & _PLACE).tolist()
        return tuple(
            self._told(
                sums[None], name=f"rank {rank} on {names[host]}", host=names[host], rank=rank
            )
            for host, rank, sums in zip(hosts, ranks, self._sums[is_rank], strict=True)
        )

    def _told(self, sums: Floats, **whose: Any) -> PlaceSums:
        of_batches = bool(self._sums[:, _BATCHES].any())
        loads = _BATCHES if of_batches else _SAMPLES
        total = sums.sum(axis=0).tolist()
        return PlaceSums(
            **whose,
            loads=total[loads],
            load_s=total[loads + 1],
            waits=total[_WAITS],
            wait_s=total[_WAITS + 1],
        )

    def _sum(self, events: Columns, column: int) -> None:
        """Add numbers and durations of events to the places that have them."""
        keys, rows = np.unique(
            np.concatenate((self._keys, self._packed(events))), return_inverse=True
        )
        known, new = np.split(rows, [self._keys.size])
        sums = np.zeros((keys.size, self._sums.shape[1]))
        sums[known] = self._sums
        for place, values in ((column, events.operations), (column + 1, events.durations * 1e-9)):
            sums[:, place] += np.bincount(new, weights=values, minlength=keys.size)
        self._keys, self._sums = keys, sums

    def _packed(self, events: Columns) -> Ints:
        packed: Ints = (self._numbered(events) << _PLACE_BITS) + events.places % (1 << _PLACE_BITS)
        return packed

    def _numbered(self, events: Columns) -> Ints:
        """Return the number of each event's host."""
        codes, hosts = events.texts("host")
        if (codes == NULL).all():
            ranks, codes = np.unique(events.numbers("rank"), return_inverse=True)
            names = [f"rank {rank}" if rank >= 0 else _UNNAMED for rank in ranks.tolist()]
        else:
            names = [*hosts.to_pylist(), _UNNAMED]
            codes = np.where(codes == NULL, len(names) - 1, codes)
        numbers = np.full(len(names), NULL)
        for code in np.unique(codes).tolist():
            numbers[code] = self._hosts.setdefault(names[code], len(self._hosts))
        return numbers[codes]
