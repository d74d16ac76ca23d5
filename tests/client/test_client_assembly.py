"""A batch is the same whichever of its samples came in frames and which were made here."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import Pipeline, ops
from headrace.client.assembly import Assembly
from headrace.client.batch import Batch
from headrace.client.memory import BlockPool, plain
from headrace.client.tail import Tail
from headrace.core.draws import SampleKey
from headrace.core.record import Record
from headrace.transform.program import Program
from headrace.wire.frames import FrameHeader, HeldStream, encode_frame, pack_fields, read_frame

CUT = 2
FLOATS = Pipeline([ops.DecodeImage(), ops.Resize(8), ops.ToFloat()])
BYTES = Pipeline([ops.DecodeImage(), ops.Resize(8)])

Way = Literal["frame", "here", "dropped"]


def record_of(sample: int, *, odd: bool) -> Record:
    side = 6 if odd else 8
    pixels = np.random.default_rng(sample).integers(0, 256, (side, side, 3), np.uint8)
    return {"image": pixels, "label": sample, "text": f"t{sample}", "id": np.array(sample)}


def batch_of(pipeline: Pipeline, samples: list[int], ways: list[Way], odd: set[int]) -> Batch:
    tail = Tail(Program(pipeline), BlockPool(plain, keep_bytes=0))
    keys = [SampleKey(0, 0, sample) for sample in samples]
    assembly = Assembly(keys, ["image"] * len(keys), tail=tail, targets={"image": CUT})
    for visit, way in zip(list(assembly.waiting), ways, strict=False):
        record = record_of(visit[0], odd=visit[0] in odd)
        if way == "dropped":
            assembly.drop(visit)
        elif way == "here":
            assembly.put(visit, record)
        else:
            fields, payload = pack_fields(record)
            sent = FrameHeader(kind="tensor", sample=visit[0], cut=CUT, fields=fields)
            stream = HeldStream(b"".join(map(bytes, encode_frame(sent, payload))))
            assembly.take_frame(*read_frame(stream, assembly.memory_for))
    assert not assembly.waiting
    return assembly.finish(step=0, epoch=0, replaced=())


@pytest.mark.parametrize("pipeline", [FLOATS, BYTES])
@given(st.data())
def test_batches_do_not_show_how_their_samples_came(
    pipeline: Pipeline, data: st.DataObject
) -> None:
    samples = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=8))
    count = len(set(samples))
    ways: list[Way] = data.draw(
        st.lists(st.sampled_from(["frame", "here", "dropped"]), min_size=count, max_size=count)
    )
    odd = data.draw(st.sets(st.integers(0, 5), max_size=2))
    found = batch_of(pipeline, samples, ways, odd)
    kept = dict(zip(dict.fromkeys(samples), ways, strict=True))
    rows = [sample for sample in samples if kept[sample] != "dropped"]
    assert found["sample"].tolist() == rows
    program = Program(pipeline)
    for row, sample in enumerate(rows):
        expected = program.run(
            record_of(sample, odd=sample in odd),
            SampleKey(0, 0, sample),
            start=CUT,
            stop=program.sample_ops,
        )
        for name in ("image", "label", "text", "id"):
            np.testing.assert_array_equal(found[name][row], expected[name])


def test_what_was_made_here_is_no_part_of_the_batch_afterwards() -> None:
    """A record may belong to somebody else: the batch must not show what becomes of it."""
    tail = Tail(Program(BYTES), BlockPool(plain, keep_bytes=0))
    assembly = Assembly([SampleKey(0, 0, 1)], ["image"], tail=tail, targets={"image": CUT})
    record = record_of(1, odd=False)
    assembly.put((1, 0), record)
    assert assembly.nbytes >= 8 * 8 * 3
    batch = assembly.finish(step=0, epoch=0, replaced=())
    before = batch["image"].copy()
    record["image"][:] = 0  # type: ignore[index]
    np.testing.assert_array_equal(batch["image"], before)
