"""A picture of what ranks were at over time, painted while the trace is read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.analysis.activities import IDLE_CAUSES, Activity, Parts
from headrace.analysis.columns import Floats, Ints, Mask
from headrace.analysis.figures import Timeline
from headrace.analysis.slots import MOST_SLOTS, SlotSums
from headrace.analysis.spreads import NS_PER_S
from headrace.analysis.stretches import Stretches

MOST_ROWS = 64
"""Ranks that are shown."""

_PAINTED = (*IDLE_CAUSES, Activity.COMPUTE, Activity.STEP)
_SHOWN = (*IDLE_CAUSES, Activity.COMPUTE)
_SCATTER = 2_654_435_761
"""Multiplied with, neighbouring numbers come to lie far apart."""

_MOST_PAINTED = 2 * MOST_ROWS
_MOST_GROUPS = _MOST_PAINTED * len(_PAINTED) * MOST_SLOTS


class Picture:
    """How long each of some places was at what, by slot of time.

    Of many ranks about every second is painted, of more every fourth, and so on.
    """

    def __init__(self) -> None:
        self._every = 1
        self._slots = SlotSums(("place", "activity"), {"ns": "sum"}, most=_MOST_GROUPS)

    def paint(self, parts: Parts, trainers: Ints) -> None:
        """Take in when places were at what; only those that train are painted."""
        while self._is_painted(trainers).sum() > _MOST_PAINTED:
            self._every *= 2
            self._slots.keep("place", self._is_painted)
        shown = trainers[self._is_painted(trainers)]
        for number, activity in enumerate(_PAINTED):
            stretches = parts[activity].of_any(shown)
            if stretches.keys.size:
                self._slots.cover(int(stretches.begins.min()), int(stretches.ends.max()))
                self._paint(number, stretches)

    def result(self, trainers: Ints, origin_ns: int, *, knows_compute: bool) -> Timeline | None:
        """Return the picture, with times since an origin; None where nothing is known."""
        table = self._slots.table()
        if table is None:
            return None
        shown = trainers[self._is_painted(trainers)]
        rows = np.linspace(0, shown.size - 1, min(shown.size, MOST_ROWS)).round().astype(np.int64)
        places = shown[rows]
        shares = _shares(table, places, self._slots.width_ns)
        if not knows_compute:
            still = sum(shares[cause] for cause in IDLE_CAUSES)
            shares[Activity.COMPUTE] = np.maximum(shares[Activity.STEP] - still, 0.0)
        begin_ns = pc.min(table["slot"]).as_py() * self._slots.width_ns
        return Timeline(
            begin_s=(begin_ns - origin_ns) / NS_PER_S,
            bin_s=self._slots.width_ns / NS_PER_S,
            ranks=tuple(str(one) if one >= 0 else f"process {-2 - one}" for one in places.tolist()),
            shares={one.value: tuple(map(_digits, shares[one])) for one in _SHOWN},
        )

    def _is_painted(self, places: Ints) -> Mask:
        """Choose some of any places, always the same ones, and fewer of these later."""
        chosen: Mask = (places * _SCATTER >> 16) % self._every == 0
        return chosen

    def _paint(self, activity: int, stretches: Stretches) -> None:
        width_ns = self._slots.width_ns
        firsts = self._slots.slots_of(stretches.begins)
        lasts = self._slots.slots_of(np.maximum(stretches.ends - 1, stretches.begins))
        numbers = lasts - firsts + 1
        row = np.repeat(np.arange(numbers.size), numbers)
        slots = np.arange(row.size) - np.repeat(np.cumsum(numbers) - numbers, numbers) + firsts[row]
        begins = np.maximum(stretches.begins[row], slots * width_ns)
        ends = np.minimum(stretches.ends[row], (slots + 1) * width_ns)
        self._slots.add(
            {
                "place": stretches.keys[row],
                "activity": np.full(row.size, activity),
                "slot": slots,
                "ns": ends - begins,
            }
        )


def _shares(table: pa.Table, places: Ints, width_ns: int) -> dict[Activity, Floats]:
    """Return for each activity which share of each slot it takes ``[places, slots]``."""
    columns = {name: table[name].to_numpy() for name in table.column_names}
    slots = columns["slot"] - columns["slot"].min()
    shares = np.zeros((len(_PAINTED), places.size, int(slots.max()) + 1))
    row = np.searchsorted(places, columns["place"]).clip(max=places.size - 1)
    is_shown = places[row] == columns["place"]
    shares[columns["activity"][is_shown], row[is_shown], slots[is_shown]] = (
        columns["ns"][is_shown] / width_ns
    )
    return dict(zip(_PAINTED, shares, strict=True))


def _digits(shares: Floats) -> str:
    return "".join(map(str, np.clip(shares * 10, 0, 9).astype(np.int64).tolist()))
