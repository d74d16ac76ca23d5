"""Programs that make one part of a sample: some of the frames of its clip, and what goes with them.

A clip can be divided where each op on it works on each of its frames alone. Parts are joined by
stacking the frames; the other fields of the sample are those of its first part.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from headrace.core.draws import Draws
from headrace.core.parts import SamplePart
from headrace.core.record import Record, Value
from headrace.transform.op import ArrayOp, Frame, Framing, Op, PictureOp, require_array
from headrace.transform.ops.video import DecodeVideo
from headrace.transform.pictures import Pictures
from headrace.transform.pipeline import Pipeline
from headrace.transform.program import Program

_FRAMEWISE = (Framing, PictureOp, ArrayOp)


class DecodeVideoPart(DecodeVideo, frozen=True, kw_only=True):
    """Decodes the frames of one part. It is made on the spot and part of no pipeline's JSON."""

    part: SamplePart

    def decode(self, value: Value, draws: Draws, frame: Frame | None) -> Pictures:
        """Return the part's frames."""
        return self.decode_part(value, draws, frame, self.part)


def divided_by(program: Program, stop: int) -> DecodeVideo | None:
    """Return the op that divides samples which are made up to ``stop``; None: they are not."""
    decoders = [op for op in program.ops[:stop] if isinstance(op, DecodeVideo)]
    if len(decoders) != 1 or len(decoders[0].fields) != 1:
        return None
    (decoder,), field = decoders, decoders[0].fields[0]
    others = [op for op in program.ops[:stop] if field in op.fields and op is not decoder]
    begins = program.ops.index(decoder)
    is_first = not any(field in op.fields for op in program.ops[:begins])
    return decoder if is_first and all(isinstance(op, _FRAMEWISE) for op in others) else None


@lru_cache(maxsize=256)
def program_of(program: Program, part: SamplePart) -> Program:
    """Return what makes a part of a sample of ``program``; the cuts stay."""
    return Program(Pipeline([_of_part(op, part) for op in program.ops]))


def kept_of(record: Record, part: SamplePart, field: str) -> Record:
    """Return the fields that a part contributes to its sample."""
    return record if part.number == 0 else {field: record[field]}


def joined(records: Sequence[Record], decoder: DecodeVideo) -> Record:
    """Return a sample of all its parts, in their order."""
    (field,) = decoder.fields
    frames = [require_array(record[field], decoder, field) for record in records]
    return {**records[0], field: np.concatenate(frames)}


def _of_part(op: Op, part: SamplePart) -> Op:
    if not isinstance(op, DecodeVideo):
        return op
    given = {name: getattr(op, name) for name in op.__struct_fields__}
    return DecodeVideoPart(**given, part=part)
