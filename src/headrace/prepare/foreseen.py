"""What a pipeline will cost on each sample of a dataset, by the headers in its index alone.

Trainers and agents find the same, on every host: who prepares what, and in how many parts, is
decided with it. What is measured corrects it where nothing has to agree.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from headrace.core.parts import MOST_PARTS
from headrace.dataset.cost import FIXED_S
from headrace.dataset.index import Index
from headrace.dataset.media import KINDS
from headrace.transform import cost
from headrace.transform.ops.audio import DecodeAudio
from headrace.transform.ops.video import DecodeVideo
from headrace.transform.program import Program

PART_S = 0.25
"""Least CPU of one part of a sample [s]: opening the clip again takes a hundredth of it."""

_VIDEO, _AUDIO = KINDS.index("video"), KINDS.index("audio")

Floats = npt.NDArray[np.float64]


class Foreseen:
    """Columns with a value for each row of one index. Thread-safe."""

    def __init__(self, index: Index, program: Program) -> None:
        self._index = index
        decoders = [op for op in program.ops if isinstance(op, DecodeVideo)]
        self._decoder = decoders[0] if decoders else None
        self._rows = np.flatnonzero(index.kinds == _VIDEO)
        listeners = [op for op in program.ops if isinstance(op, DecodeAudio)]
        self._listener = listeners[0] if listeners else None
        self._sounds = np.flatnonzero(index.kinds == _AUDIO)

    @cached_property
    def costs(self) -> Floats:
        """CPU to prepare each sample [s]: of clips and sounds only what is decoded counts."""
        costs = self._index.costs  # shared by all jobs over the dataset
        if self._decoder is not None and self._rows.size:
            costs = _with(costs, self._rows, self._clip_costs(self._decoder))
        if self._listener is not None and self._sounds.size:
            costs = _with(costs, self._sounds, self._sound_costs(self._listener))
        return costs

    @cached_property
    def parts(self) -> npt.NDArray[np.int64]:
        """In how many parts each sample is made where its pipeline allows it: 1 for a whole.

        No part costs less than ``PART_S``, and each has a group of pictures of its own.
        """
        parts = np.ones(len(self._index), np.int64)
        if self._decoder is not None and self._rows.size:
            groups = np.minimum(self._decoder.frames, self._groups * self._spanned) / 2
            most = np.minimum(np.minimum(groups, MOST_PARTS), self.costs[self._rows] / PART_S)
            parts[self._rows] = np.maximum(np.nan_to_num(most), 1.0).astype(np.int64)
        return parts

    def _clip_costs(self, decoder: DecodeVideo) -> Floats:
        every = self._index.costs[self._rows]
        frames = np.maximum(self._number("frames", 1.0), 1.0)
        spanned = self._spanned
        walked = decoder.decoded(frames * spanned, self._groups * spanned)
        kept = self._number("width", 0.0) * self._number("height", 0.0) * decoder.frames
        decoding = np.maximum(every - FIXED_S, 0.0) * np.minimum(walked / frames, 1.0)
        costs: Floats = FIXED_S + decoding + kept * cost.TO_RGB
        return costs

    def _sound_costs(self, decoder: DecodeAudio) -> Floats:
        durations: Floats = self._index.column("duration_s")[self._sounds].astype(np.float64)
        decoding = np.maximum(self._index.costs[self._sounds] - FIXED_S, 0.0)
        costs: Floats = FIXED_S + decoding * np.nan_to_num(decoder.decoded(durations), nan=1.0)
        return costs

    @cached_property
    def _groups(self) -> Floats:
        counts = pc.list_value_length(self._index.table.column("keyframes")).to_numpy()
        groups: Floats = np.maximum(counts[self._rows].astype(np.float64), 1.0)
        return groups

    @cached_property
    def _spanned(self) -> Floats:
        assert self._decoder is not None
        return self._decoder.spanned(self._number("duration_s", 1.0))

    def _number(self, column: str, missing: float) -> Floats:
        values: Floats = self._index.column(column)[self._rows].astype(np.float64)
        return np.where(np.isnan(values), missing, values)


def _with(values: Floats, places: npt.NDArray[np.int64], others: Floats) -> Floats:
    """Return a copy with other values at some places."""
    changed = values.copy()
    changed[places] = others
    return changed
