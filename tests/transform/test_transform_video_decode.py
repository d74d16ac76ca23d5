"""Clips: the right frames, few others decoded, and broken ones noticed."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from io import BytesIO
from itertools import accumulate
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from headrace import ops
from headrace.core.draws import Draws, SampleKey
from headrace.core.errors import ConfigError, CorruptSampleError, StorageError
from headrace.transform.codecs import video
from headrace.transform.op import Frame
from headrace.transform.pictures import Pictures

RATE = 10


def encode_frames(
    frames: Iterable[np.ndarray],
    *,
    codec: str = "libx264",
    container: str = "mp4",
    rotation: int = 0,
    gaps: Sequence[int] | None = None,
    **options: str,
) -> bytes:
    """Return ``uint8 [H, W, 3]`` frames as a file; MP4 has its index in front.

    ``gaps`` are the periods that each frame is on display, where these are not all the same.
    """
    times = [0, *accumulate(gaps)] if gaps else range(1 << 30)
    with tempfile.NamedTemporaryFile(suffix=".clip") as file:
        flags = {"movflags": "faststart"} if container == "mp4" else {}
        flags |= {"live": options.pop("live")} if "live" in options else {}
        with av.open(file.name, "w", format=container, options=flags) as output:
            stream = output.add_stream(codec, rate=RATE, options=options)
            stream.pix_fmt = "yuv420p"
            if rotation:
                stream.set_display_rotation(rotation)
            for number, pixels in enumerate(frames):
                if number == 0:
                    stream.height, stream.width = pixels.shape[:2]
                frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
                frame.pts = times[number]
                output.mux(stream.encode(frame))
            output.mux(stream.encode())
        return Path(file.name).read_bytes()


@lru_cache
def clip(frames: int = 60, *, gop: int = 10, b_frames: int = 2, **options: str) -> bytes:
    """Return a clip whose frame ``n`` is gray of level ``4 n``: a frame tells its number."""
    levels = (np.full((48, 64, 3), 4 * number, np.uint8) for number in range(frames))
    settings = {"g": str(gop), "bf": str(b_frames), "sc_threshold": "0", "crf": "12"}
    return encode_frames(levels, **settings, **options)


def draws(sample: int = 0) -> Draws:
    return Draws(SampleKey(1, 0, sample), 0)


def decode(source: object, frames: int = 6, **options: object) -> np.ndarray:
    result = ops.DecodeVideo(frames, **options).decode(source, draws(), None)  # type: ignore[arg-type]
    assert isinstance(result, Pictures)
    return result.array()


def numbers(pixels: np.ndarray) -> list[int]:
    """Return the frames' numbers, read from their gray levels."""
    return [round(float(level) / 4) for level in pixels.mean((1, 2, 3))]


class Counting(BytesIO):
    """A stream that counts what is read from it."""

    taken = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.taken += len(data)
        return data


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the time of every frame that the decoder returns."""
    times: list[int] = []
    advance = video._ClipReader._advance

    def counted(self: video._ClipReader) -> object:
        frame = advance(self)
        if frame is not None:
            times.append(frame.time)
        return frame

    monkeypatch.setattr(video._ClipReader, "_advance", counted)
    return times


def test_uniform_frames_are_the_middles_of_equal_parts() -> None:
    assert numbers(decode(clip(60), 6)) == [5, 15, 25, 35, 45, 55]


@pytest.mark.parametrize(
    ("codec", "container"),
    [("libx264", "mp4"), ("libx264", "matroska"), ("libx264", "mpegts"), ("mpeg4", "avi")],
)
def test_containers_with_and_without_an_index_give_the_same_frames(
    codec: str, container: str
) -> None:
    b_frames = 0 if container == "avi" else 2
    file = clip(60, codec=codec, container=container, b_frames=b_frames)
    assert numbers(decode(file, 6)) == pytest.approx([5, 15, 25, 35, 45, 55], abs=1)


def test_a_file_whose_header_has_no_duration_is_measured_by_its_packets() -> None:
    file = clip(60, container="matroska", live="1")
    with av.open(BytesIO(file)) as container:
        assert container.duration is None
    assert numbers(decode(file, 6)) == pytest.approx([5, 15, 25, 35, 45, 55], abs=1)


def test_a_bare_stream_without_times_is_corrupt_and_says_so() -> None:
    file = clip(20, container="h264")
    with pytest.raises(CorruptSampleError):
        decode(file, 2)


def test_frames_found_by_seeking_are_those_found_by_decoding_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sought = decode(clip(60, gop=7), 9)
    monkeypatch.setattr(video._ClipReader, "_worth_seeking", lambda self, target: False)
    assert np.array_equal(sought, decode(clip(60, gop=7), 9))


@pytest.mark.parametrize(
    "options", [("7", "2", "1"), ("12", "3", "0"), ("60", "0", "0"), ("1", "0", "0")]
)
@pytest.mark.parametrize("count", [1, 4, 8, 64])
def test_sparing_unseen_frames_changes_no_frame_that_is_seen(
    options: tuple[str, str, str], count: int
) -> None:
    """Compared with decoding every frame of a moving picture from the start."""
    gop, b_frames, open_gop = options
    rng = np.random.default_rng(3)
    texture = rng.integers(0, 255, (48, 200, 3), np.uint8)
    moving = [texture[:, 2 * step : 2 * step + 64] for step in range(60)]
    x264 = f"open-gop={open_gop}:b-pyramid=normal:scenecut=0"
    file = encode_frames(moving, g=gop, bf=b_frames, crf="30", **{"x264-params": x264})
    with av.open(BytesIO(file)) as container:
        every = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    moments = [60 * (number + 0.5) / count for number in range(count)]
    expected = np.stack([every[int(moment)] for moment in moments])
    assert np.array_equal(decode(file, count), expected)


def test_only_the_groups_of_pictures_that_are_needed_are_decoded(decoded: list[int]) -> None:
    file = clip(60, gop=10)
    assert numbers(decode(file, 1)) == [30]
    assert len(decoded) < 10


def test_only_the_bytes_that_are_needed_are_read_from_a_stream() -> None:
    rng = np.random.default_rng(0)
    noise = (rng.integers(0, 255, (256, 256, 3), np.uint8) for _ in range(40))
    file = encode_frames(noise, g="5", crf="20")
    handle = Counting(file)
    from_stream = decode(handle, 1)
    assert handle.taken < len(file) / 2
    assert np.array_equal(from_stream, decode(file, 1))


def test_a_short_clip_repeats_frames_so_that_the_shape_holds() -> None:
    pixels = decode(clip(3), 8)
    assert pixels.shape == (8, 48, 64, 3)
    assert numbers(pixels) == sorted(numbers(pixels))
    assert set(numbers(pixels)) == {0, 1, 2}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_random_frames_lie_in_their_own_parts(sample: int) -> None:
    op = ops.DecodeVideo(4, "random")
    moments = op.moments(8.0, draws(sample))
    assert [int(moment // 2) for moment in moments] == [0, 1, 2, 3]


def test_random_frames_follow_the_draws_alone() -> None:
    op = ops.DecodeVideo(4, "random")
    first = op.decode(clip(60), draws(1), None).array()
    assert np.array_equal(first, op.decode(clip(60), draws(1), None).array())
    assert not np.array_equal(first, op.decode(clip(60), draws(2), None).array())


def test_fps_sampling_takes_frames_at_the_wanted_distance() -> None:
    for sample in range(5):
        pixels = ops.DecodeVideo(4, "fps", fps=2).decode(clip(60), draws(sample), None).array()
        found = numbers(pixels)
        assert np.diff(found).tolist() == [5, 5, 5]
    assert numbers(decode(clip(10), 4, sampling="fps", fps=2)) == [0, 5, 9, 9]


def test_a_window_cuts_and_resizes_each_frame_like_the_whole_frames() -> None:
    file, op = clip(20), ops.DecodeVideo(4)
    crop = ops.RandomResizedCrop((20, 30))
    framed = op.decode(file, draws(), Frame(crop, draws(7))).array()
    whole = op.decode(file, draws(), None)
    window = crop.window(*whole.size, draws(7))
    assert np.array_equal(framed, whole.map(window.apply).array())


def test_a_padding_crop_works_on_clips() -> None:
    framed = ops.DecodeVideo(2).decode(clip(20), draws(), Frame(ops.CenterCrop(80), draws()))
    assert framed.array().shape == (2, 80, 80, 3)
    assert (framed.array()[:, 0] == 0).all()


def test_a_clip_cut_off_anywhere_is_corrupt_or_whole() -> None:
    file = clip(60)
    whole = decode(file, 6)
    outcomes = set()
    for length in range(0, len(file), max(1, len(file) // 40)):
        try:
            pixels = decode(file[:length], 6)
        except CorruptSampleError:
            outcomes.add("corrupt")
        else:
            outcomes.add("whole")
            assert np.array_equal(pixels, whole)
    assert "corrupt" in outcomes


def test_frames_before_the_cut_off_are_still_good() -> None:
    file = clip(60)
    assert np.array_equal(decode(file[: len(file) * 9 // 10], 1), decode(file, 1))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_flipped_bytes_never_raise_anything_but_corrupt(choices: st.DataObject) -> None:
    file = bytearray(clip(20))
    for _ in range(choices.draw(st.integers(1, 5))):
        file[choices.draw(st.integers(0, len(file) - 1))] ^= choices.draw(st.integers(1, 255))
    try:
        pixels = decode(bytes(file), 3, max_pixels=100_000)
    except CorruptSampleError:
        return
    assert pixels.shape[0] == 3


@given(st.binary(max_size=300))
@settings(max_examples=40, deadline=None)
def test_noise_is_corrupt(noise: bytes) -> None:
    with pytest.raises(CorruptSampleError):
        decode(noise)


def test_limits_make_a_clip_corrupt_and_are_named() -> None:
    with pytest.raises(CorruptSampleError, match="max_pixels=100"):
        decode(clip(20), max_pixels=100)
    with pytest.raises(CorruptSampleError, match="max_decoded=5"):
        decode(clip(60, gop=60), max_decoded=5)
    with pytest.raises(CorruptSampleError, match="video stream 1"):
        decode(clip(20), stream=1)


def test_a_storage_failure_while_reading_is_not_the_samples_fault() -> None:
    class Failing(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise StorageError("the disk is gone")

    with pytest.raises(StorageError):
        decode(Failing(clip(20)))


def test_rotation_is_applied_only_when_asked() -> None:
    picture = np.zeros((32, 64, 3), np.uint8)
    picture[:, 32:] = 255
    file = encode_frames([picture], rotation=90)
    stored = decode(file, 1)
    upright = decode(file, 1, orientation="apply")
    assert stored.shape == (1, 32, 64, 3)
    assert upright.shape == (1, 64, 32, 3)
    assert np.array_equal(upright[0], np.rot90(stored[0]))


def test_parameters_that_contradict_each_other_are_refused() -> None:
    for wrong in ({"sampling": "fps"}, {"fps": 3.0}, {"fps": -1.0, "sampling": "fps"}):
        with pytest.raises(ConfigError, match="fps"):
            ops.DecodeVideo(4, **wrong)
    with pytest.raises(ConfigError, match="frames=0"):
        ops.DecodeVideo(0)
    with pytest.raises(ConfigError, match="at most"):
        ops.DecodeVideo(10**9)


def test_ffmpeg_writes_nothing_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    file = clip(60)
    with pytest.raises(CorruptSampleError):
        decode(file[: len(file) // 2])
    assert capfd.readouterr().err == ""


def test_frames_larger_than_the_header_says_are_not_decoded() -> None:
    small, large, larger = ((side, side) for side in (32, 400, 4000))
    for sizes in ([small, large, large], [small, larger, larger]):
        with pytest.raises(CorruptSampleError, match="max_pixels=10000"):
            decode(jpeg_frames(sizes), 1, max_pixels=10_000)


def test_fragments_that_count_more_than_the_file_holds_are_corrupt() -> None:
    target = BytesIO()
    with av.open(
        target, "w", format="mp4", options={"movflags": "frag_keyframe+empty_moov"}
    ) as output:
        stream = output.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        frame = av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), format="rgb24")
        output.mux(stream.encode(frame))
        output.mux(stream.encode())
    fragmented = bytearray(target.getvalue())
    assert decode(bytes(fragmented), 1).shape == (1, 48, 64, 3)
    run = fragmented.index(b"trun") + 4
    struct.pack_into(">II", fragmented, run, 1, 100_000)  # no sizes or times of its own
    with pytest.raises(CorruptSampleError, match="count 100000 samples, but the file has"):
        decode(bytes(fragmented), 1)


def jpeg_frames(sizes: Sequence[tuple[int, int]]) -> bytes:
    target = BytesIO()
    with av.open(target, "w", format="matroska") as output:
        stream = output.add_stream("mjpeg", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuvj420p"
        for number, size in enumerate(sizes):
            picture = BytesIO()
            Image.new("RGB", size).save(picture, "JPEG")
            packet = av.Packet(picture.getvalue())
            packet.stream, packet.is_keyframe = stream, True
            packet.pts, packet.dts, packet.time_base = number, number, Fraction(1, RATE)
            output.mux(packet)
    return target.getvalue()
