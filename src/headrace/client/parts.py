"""The parts of one sample, as they come from agents and decoding threads in any order."""

from __future__ import annotations

from headrace.core.parts import SamplePart
from headrace.core.record import Record
from headrace.transform.ops.video import DecodeVideo
from headrace.transform.partial import joined


class PartsInHand:
    """Those that came so far. For one thread.

    Args:
        count: How many parts the sample has.
        cut: Number of leading ops that each of them has behind it, as far as is known.
        decoder: The op that divides the sample.
    """

    def __init__(self, count: int, cut: int, decoder: DecodeVideo) -> None:
        self.cut = cut
        self.made_here: dict[int, str] = {}
        """Parts that decoding threads make, or made, and how that is to be counted."""

        self.are_ready = True
        """Whether all that agents made lay ready when they were asked for."""

        self._records: dict[int, Record] = {}
        self._count = count
        self._decoder = decoder

    def are_at(self, cut: int) -> bool:
        """Whether a part at this cut goes with the others; the first one decides."""
        if not self._records and not self.made_here:
            self.cut = cut
        return cut == self.cut

    def lacks(self, part: SamplePart) -> bool:
        """Whether a part has not come yet."""
        return part.number not in self._records

    def take(self, part: SamplePart, record: Record) -> Record | None:
        """Keep a part; return the sample, up to the cut, when this was the last one."""
        self._records.setdefault(part.number, record)
        if len(self._records) < self._count:
            return None
        records = [self._records.pop(number) for number in range(self._count)]
        return joined(records, self._decoder)
