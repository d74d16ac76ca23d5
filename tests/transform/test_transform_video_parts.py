"""A clip decoded in parts is the clip decoded as a whole, or the parts say that they cannot."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from io import BytesIO

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_transform_video_decode import clip, draws, encode_frames

from headrace import ops
from headrace.core.errors import CorruptSampleError
from headrace.core.parts import SamplePart, parts_of
from headrace.transform.codecs import video
from headrace.transform.op import Frame


def in_parts(op: ops.DecodeVideo, file: bytes, count: int, framing: object = None) -> np.ndarray:
    """Return what the parts are together."""
    pieces = []
    for part in parts_of(count):
        frame = None if framing is None else Frame(framing, draws(9))  # type: ignore[arg-type]
        pieces.append(op.decode_part(file, draws(), frame, part).array())
    return np.concatenate(pieces)


def moving_clip(
    frames: int = 40, *, gop: int = 6, container: str = "mp4", b_frames: int = 2,
    open_gop: bool = False, rotation: int = 0, gaps: Sequence[int] | None = None, seed: int = 0,
) -> bytes:  # fmt: skip
    texture = np.random.default_rng(seed).integers(0, 255, (48, 200, 3), np.uint8)
    return encode_frames(
        [texture[:, 3 * number : 3 * number + 64] for number in range(frames)],
        container=container,
        rotation=rotation,
        gaps=gaps,
        g=str(gop),
        bf=str(b_frames),
        crf="30",
        **{"x264-params": f"open-gop={int(open_gop)}:b-pyramid=normal:scenecut=0"},
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"open_gop": True, "gop": 8},
        {"b_frames": 0},
        {"gop": 1},
        {"gaps": [1, 3, 1, 1, 4] * 8},
        {"rotation": 90},
    ],
)
@pytest.mark.parametrize("orientation", ["ignore", "apply"])
def test_parts_are_the_whole_byte_for_byte(options: dict, orientation: str) -> None:  # type: ignore[type-arg]
    file, op = moving_clip(**options), ops.DecodeVideo(12, "random", orientation=orientation)  # type: ignore[arg-type]
    crop = ops.RandomResizedCrop((20, 30))
    whole = op.decode(file, draws(), Frame(crop, draws(9))).array()
    for count in (2, 3):
        assert np.array_equal(in_parts(op, file, count, crop), whole)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_parts_that_succeed_are_the_whole_of_any_clip(choices: st.DataObject) -> None:
    frames = choices.draw(st.integers(1, 40))
    file = moving_clip(
        frames,
        gop=choices.draw(st.sampled_from([1, 4, 9, 100])),
        container=choices.draw(st.sampled_from(["mp4", "matroska", "mpegts"])),
        b_frames=choices.draw(st.integers(0, 3)),
        open_gop=choices.draw(st.booleans()),
        gaps=[1 + number * number % 4 for number in range(frames)],
        seed=choices.draw(st.integers(0, 9)),
    )
    op = ops.DecodeVideo(choices.draw(st.integers(1, 24)), "random")
    count = choices.draw(st.integers(2, 6))
    try:
        joined = in_parts(op, file, count)
    except CorruptSampleError:
        return  # too few groups, or the encoder let frames name some before their keyframe
    assert np.array_equal(joined, op.decode(file, draws(), None).array())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damage_is_never_missed_because_a_clip_was_decoded_in_parts(choices: st.DataObject) -> None:
    file = bytearray(clip(30, gop=6))
    for _ in range(choices.draw(st.integers(1, 4))):
        file[choices.draw(st.integers(0, len(file) - 1))] ^= choices.draw(st.integers(1, 255))
    if choices.draw(st.booleans()):
        del file[choices.draw(st.integers(0, len(file))) :]
    op = ops.DecodeVideo(12, max_pixels=100_000)
    try:
        joined = in_parts(op, bytes(file), 3)
    except CorruptSampleError:
        return  # it is decoded as a whole then, which decides
    assert np.array_equal(joined, op.decode(bytes(file), draws(), None).array())


def test_a_part_decodes_its_own_groups_of_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [0]
    advance = video._ClipReader._advance
    monkeypatch.setattr(
        video._ClipReader, "_advance", lambda self: (counts.append(1), advance(self))[1]
    )
    file, op = clip(60, gop=10), ops.DecodeVideo(12)
    op.decode(file, draws(), None)
    whole = sum(counts)
    sizes = []
    for part in parts_of(3):
        counts.clear()
        assert op.decode_part(file, draws(), None, part).array().shape[0] == 4
        sizes.append(sum(counts))
    assert max(sizes) <= whole / 3 + 3


def test_parts_together_never_decode_more_than_a_clip_may() -> None:
    outcomes = []
    for limit in range(36, 66, 3):
        op = ops.DecodeVideo(12, max_decoded=limit)
        outcomes.append((decodes(op, 1), decodes(op, 3)))
    assert outcomes[0] == (False, False)
    assert outcomes[-1] == (True, True)
    assert (False, True) not in outcomes


def decodes(op: ops.DecodeVideo, count: int) -> bool:
    try:
        in_parts(op, clip(60, gop=10), count)
    except CorruptSampleError as error:
        assert "max_decoded" in str(error)
        return False
    return True


def test_frames_that_change_their_size_between_parts_are_not_put_together() -> None:
    file, op = of_two_sizes(), ops.DecodeVideo(8)
    with pytest.raises(CorruptSampleError, match="of another size"):
        op.decode(file, draws(), None)
    assert op.decode_part(file, draws(), None, SamplePart(0, 2)).size == (64, 48)
    with pytest.raises(CorruptSampleError, match="of another size"):
        op.decode_part(file, draws(), None, SamplePart(1, 2))


def of_two_sizes() -> bytes:
    """Return a clip whose second half has larger frames; with MJPEG each frame tells its size."""
    file = BytesIO()
    with av.open(file, "w", format="mov") as output:
        stream = output.add_stream("mjpeg", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj420p"
        for number in range(8):
            size = (64, 48) if number < 4 else (80, 64)
            encoder = av.CodecContext.create("mjpeg", "w")
            encoder.width, encoder.height = size
            encoder.pix_fmt, encoder.time_base = "yuvj420p", Fraction(1, 10)
            picture = av.VideoFrame(*size, "yuvj420p")
            for packet in (*encoder.encode(picture), *encoder.encode()):
                packet.stream, packet.time_base = stream, Fraction(1, 10)
                packet.pts = packet.dts = number
                output.mux(packet)
    return file.getvalue()
