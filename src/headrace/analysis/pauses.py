"""The longest time in which nothing of a job was under way, in memory that does not grow."""

from __future__ import annotations

import numpy as np

from headrace.analysis.columns import Columns
from headrace.analysis.slots import SlotSums
from headrace.analysis.spreads import NS_PER_S


class Pauses:
    """Keeps the first moment and the last of all events that begin in each slot of time.

    So a pause is found if it is longer than a slot, of which there are a hundred or more.
    """

    def __init__(self) -> None:
        self._slots = SlotSums((), {"first": "min", "last": "max"})

    def add(self, columns: Columns) -> None:
        """Take in events."""
        if not len(columns):
            return
        begins = columns.begins
        self._slots.cover(int(begins.min()), int(begins.max()))
        slots = self._slots.slots_of(begins)
        self._slots.add({"slot": slots, "first": begins, "last": columns.ends})

    def longest_s(self) -> float:
        """Return how long the longest pause between two events is [s]."""
        table = self._slots.table()
        if table is None:
            return 0.0
        ordered = table.sort_by("slot")
        reached = np.maximum.accumulate(ordered["last"].to_numpy())
        pauses = ordered["first"].to_numpy()[1:] - reached[:-1]
        return int(pauses.max(initial=0)) / NS_PER_S
