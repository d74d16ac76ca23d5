"""Sound is decoded, cut, mixed and resampled alike on every host, and bad files say why not."""

from __future__ import annotations

import io
import tracemalloc

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import correlate, resample_poly

from headrace import ops
from headrace.core.draws import Draws, SampleKey
from headrace.core.errors import ConfigError, CorruptSampleError
from headrace.core.record import Value
from headrace.transform.codecs import audio
from headrace.transform.codecs.resample import Resampler
from headrace.transform.exact import ln, sin_pi, sinc
from headrace.transform.spec import Array, Encoded
from sounds import LOSSLESS, LOSSY, Floats, sound, wav, waves

KEY = SampleKey(seed=3, epoch=0, sample=0)


def decoded(source: Value, op: ops.DecodeAudio | None = None, *, sample: int = 0) -> Floats:
    op = op or ops.DecodeAudio()
    result = op.apply(source, Draws(SampleKey(3, 0, sample), 0))
    assert isinstance(result, np.ndarray)
    assert result.dtype == np.float32
    return result.astype(np.float32, copy=False)


def place_of(excerpt: Floats, sound: Floats) -> int:
    """Return where a sound is most like an excerpt."""
    sums = np.cumsum(np.append(0.0, sound.astype(np.float64) ** 2))
    energy = sums[len(excerpt) :] - sums[: -len(excerpt)]
    return int((energy - 2 * correlate(sound, excerpt, "valid")).argmin())


class CountingFile(io.BytesIO):
    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


@pytest.mark.parametrize(("container", "codec"), LOSSLESS)
def test_lossless_sound_is_what_was_written(container: str, codec: str) -> None:
    expected = waves(3.0, 48_000, 2)
    np.testing.assert_allclose(decoded(sound(container, codec)), expected, atol=2**-15)


def test_eight_bits_have_their_zero_in_the_middle() -> None:
    np.testing.assert_array_equal(decoded(wav(bytes([0, 128, 192]), bits=8)), [[-1, 0, 0.5]])


@pytest.mark.parametrize(("container", "codec"), LOSSY)
def test_lossy_sound_is_close_to_what_was_written(container: str, codec: str) -> None:
    got, expected = decoded(sound(container, codec)), waves(3.0, 48_000, 2)
    assert 0 <= got.shape[1] - expected.shape[1] < 4096
    late = place_of(expected[0, 20_000:22_000], got[0]) - 20_000
    assert 0 <= late < 4096
    error = got[:, late:][:, 5000:120_000] - expected[:, 5000:120_000]
    assert np.sqrt((error**2).mean()) < 0.05


@pytest.mark.parametrize(("container", "codec"), LOSSLESS)
@pytest.mark.parametrize("cut", ["start", "middle", "random"])
def test_a_cut_is_that_part_of_the_whole(container: str, codec: str, cut: str) -> None:
    data = sound(container, codec, seconds=4.0, rate=22_050, channels=1)
    whole = decoded(data, ops.DecodeAudio(rate=16_000))
    part = decoded(data, ops.DecodeAudio(rate=16_000, seconds=0.5, cut=cut))  # type: ignore[arg-type]
    spare = whole.shape[1] - 8000
    draw = {"start": 0.0, "middle": 0.5}.get(cut, Draws(KEY, 0).uniform())
    begin = int(draw * spare)
    np.testing.assert_array_equal(part, whole[:, begin : begin + 8000])


@pytest.mark.parametrize(("container", "codec"), LOSSY)
def test_a_cut_of_lossy_sound_is_heard_as_in_the_whole(container: str, codec: str) -> None:
    data = sound(container, codec, seconds=8.0)
    whole = decoded(data)[:, : 8 * 48_000]
    part = decoded(data, ops.DecodeAudio(seconds=1.0, cut="middle"))
    assert part.shape == (2, 48_000)
    begin = place_of(part[0, :2000], whole[0])
    assert begin == pytest.approx(168_000, rel=0.2)
    np.testing.assert_allclose(part, whole[:, begin : begin + 48_000], atol=1e-3)


def test_each_visit_of_a_sample_draws_another_cut() -> None:
    op = ops.DecodeAudio(seconds=0.1)
    one, other = (decoded(sound("wav", "pcm_s16le"), op, sample=n) for n in (0, 1))
    assert one.shape == other.shape == (2, 4800)
    assert not np.array_equal(one, other)


def test_a_file_that_is_shorter_than_a_cut_is_not_filled_up() -> None:
    op = ops.DecodeAudio(rate=16_000, seconds=9.0)
    assert decoded(sound("wav", "pcm_s16le"), op).shape == (2, 48_000)


def test_one_channel_is_the_mean_of_all_and_has_no_axis() -> None:
    both = decoded(sound("wav", "pcm_s16le"))
    mono = decoded(sound("wav", "pcm_s16le"), ops.DecodeAudio(mono=True))
    np.testing.assert_array_equal(mono, (both[0] + both[1]) / np.float32(2))
    one = sound("wav", "pcm_s16le", channels=1)
    np.testing.assert_array_equal(decoded(one, ops.DecodeAudio(mono=True)), decoded(one)[0])


def test_the_sound_of_a_video_is_its_own_or_another_of_its_streams() -> None:
    target = io.BytesIO()
    with av.open(target, "w", format="matroska") as container:
        picture = container.add_stream("mpeg4", rate=10)
        rates = (8_000, 16_000)
        streams = [container.add_stream("pcm_s16le", rate=rate, layout="mono") for rate in rates]
        picture.width = picture.height = 16
        container.mux(picture.encode(av.VideoFrame(16, 16, "yuv420p")))
        for stream, rate in zip(streams, rates, strict=True):
            frame = av.AudioFrame.from_ndarray(np.full((1, rate), rate, np.int16), "s16", "mono")
            frame.sample_rate = rate
            container.mux(stream.encode(frame))
        for ended in (picture, *streams):
            container.mux(ended.encode(None))
    for number, rate in enumerate(rates):
        got = decoded(target.getvalue(), ops.DecodeAudio(stream=number))
        np.testing.assert_array_equal(got, np.full((1, rate), rate / 2**15, np.float32))
    with pytest.raises(CorruptSampleError, match="audio stream 2 was asked for, the file has 2"):
        decoded(target.getvalue(), ops.DecodeAudio(stream=2))


def test_of_a_long_file_only_what_a_cut_needs_is_read() -> None:
    file = CountingFile(sound("wav", "pcm_s16le", seconds=40.0))
    decoded(file, ops.DecodeAudio(seconds=0.5, cut="middle"))
    assert file.count < len(file.getvalue()) / 10


@pytest.mark.parametrize(("own", "new"), [(44_100, 16_000), (8_000, 16_000), (48_000, 44_100)])
def test_resampled_tones_keep_frequency_level_and_length(own: int, new: int) -> None:
    at = np.arange(own) / own
    tone = np.sin(2 * np.pi * 1000 * at).astype(np.float32)[None]
    resampler = Resampler(own, new)
    result = resampler.resample(tone, 0, 0, resampler.length(own))
    assert result.shape == (1, new)
    expected = np.sin(2 * np.pi * 1000 * np.arange(new) / new)
    np.testing.assert_allclose(result[0, 200:-200], expected[200:-200], atol=3e-3)


def test_resampling_agrees_with_scipy_where_nothing_is_cut_off() -> None:
    low = waves(1.0, 32_000, 2)
    resampler = Resampler(32_000, 16_000)
    result = resampler.resample(low, 0, 0, 16_000)
    np.testing.assert_allclose(
        result[:, 100:-100], resample_poly(low, 1, 2, axis=1)[:, 100:-100], atol=2e-3
    )


def test_what_is_above_the_new_rate_is_cut_off() -> None:
    at = np.arange(48_000) / 48_000
    hiss = np.sin(2 * np.pi * 11_000 * at).astype(np.float32)[None]
    assert abs(Resampler(48_000, 16_000).resample(hiss, 0, 0, 16_000)[:, 100:-100]).max() < 5e-3


def test_weights_are_those_of_torchaudio() -> None:
    """The kernel of ``torchaudio.functional.resample`` as its documentation defines it."""
    own, new, beats = 3, 2, 0.99 * 2
    impulse = np.zeros((1, 99), np.float32)
    impulse[0, 48] = 1
    result = Resampler(own, new).resample(impulse, 0, 0, 66)[0].astype(np.float64)
    times = np.clip((48 / own - np.arange(66) / new) * beats, -6, 6)
    expected = np.sinc(times) * np.cos(times * np.pi / 12) ** 2 * beats / own
    np.testing.assert_allclose(result, expected, atol=1e-7)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(st.sampled_from([(3, 2), (2, 3), (441, 160), (1, 1)]), st.integers(0, 300), st.data())
def test_a_part_is_resampled_as_the_whole_is(
    rates: tuple[int, int], begin: int, data: st.DataObject
) -> None:
    resampler = Resampler(*rates)
    whole = np.random.default_rng(1).random((2, 1200), np.float32)
    total = resampler.length(whole.shape[1])
    end = data.draw(st.integers(begin + 1, total))
    first, last = resampler.needed(begin, end)
    part = resampler.resample(whole[:, first:last], first, begin, end)
    np.testing.assert_array_equal(part, resampler.resample(whole, 0, 0, total)[:, begin:end])


def test_own_sines_and_logarithms_are_right() -> None:
    x = np.linspace(-9, 9, 1001)
    np.testing.assert_allclose(sin_pi(x), np.sin(np.pi * x), atol=1e-14)
    np.testing.assert_allclose(sinc(x), np.sinc(x), atol=1e-14)
    y = np.geomspace(1e-300, 1e300, 1001)
    np.testing.assert_allclose(ln(y), np.log(y), rtol=1e-14)


@pytest.mark.parametrize(("container", "codec"), [*LOSSLESS[:-1], LOSSY[0], LOSSY[2]])
@pytest.mark.parametrize("op", [ops.DecodeAudio(), ops.DecodeAudio(seconds=0.5, cut="start")])
def test_a_file_that_was_cut_off_is_corrupt_or_right_as_far_as_it_goes(
    container: str, codec: str, op: ops.DecodeAudio
) -> None:
    data = sound(container, codec, rate=44_100)
    whole = decoded(data, op)
    for part in range(19):
        try:
            got = decoded(data[: len(data) * part // 20], op)
        except CorruptSampleError as error:
            assert str(error)
        else:
            assert op.seconds is not None
            assert 0 <= whole.shape[1] - got.shape[1] < 4410
            np.testing.assert_array_equal(got, whole[:, : got.shape[1]])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cannot be decoded"),
        (np.random.default_rng(0).bytes(50_000), "cannot be decoded"),
        (b"ID3\x04\0\0\0\0\0\x0a" + bytes(10), "cannot be decoded"),
        (wav(b""), "no sound"),
        (wav(channels=0), "no sound"),
        (wav(channels=65_535), "no sound"),
        (wav(bits=0), "no decoder"),
        (wav(rate=0), "cannot be decoded"),
        (wav(rate=1), "1 Hz"),
        (wav(rate=2_000_000), "2000000 Hz"),
        (wav(told=1 << 30), "cut off"),
        (wav(np.full(800, np.nan, np.float32).tobytes(), bits=32, tag=3), "no numbers"),
        (wav(np.full(800, 1e300).tobytes(), bits=64, tag=3), "no numbers"),
    ],
)
@pytest.mark.parametrize("seconds", [None, 0.05])
def test_a_hostile_file_is_corrupt_with_a_reason(
    data: bytes, reason: str, seconds: float | None
) -> None:
    op = ops.DecodeAudio(rate=16_000, seconds=seconds)
    with pytest.raises(CorruptSampleError, match=reason if seconds is None else None):
        decoded(data, op)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.sampled_from([*LOSSLESS, *LOSSY, ("matroska", "libopus")]),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=8),
    st.booleans(),
)
def test_a_damaged_file_is_sound_or_corrupt_and_nothing_else(
    names: tuple[str, str], changes: list[tuple[int, int]], is_cut: bool
) -> None:
    data = bytearray(sound(*names, seconds=0.6))
    for place, value in changes:
        data[place % min(len(data), 400)] = value
    op = ops.DecodeAudio(rate=16_000, mono=True, seconds=0.2 if is_cut else None)
    try:
        got = decoded(bytes(data), op)
    except CorruptSampleError:
        return
    assert got.size
    assert np.isfinite(got).all()


def test_a_clip_without_sound_says_so() -> None:
    target = io.BytesIO()
    with av.open(target, "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=10)
        assert isinstance(stream, av.VideoStream)
        stream.width = stream.height = 16
        container.mux(stream.encode(av.VideoFrame(16, 16, "yuv420p")))
        container.mux(stream.encode(None))
    with pytest.raises(CorruptSampleError, match="audio stream 0 was asked for, the file has 0"):
        decoded(target.getvalue())


@pytest.mark.parametrize("told", [0, 0x7FFF_F000, 0xFFFF_FFFF])
def test_wav_from_a_pipe_knows_no_size_and_is_taken_as_far_as_it_goes(told: int) -> None:
    assert decoded(wav(told=told)).shape == (1, 1600)


def test_what_lies_before_a_cut_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in which nothing can be sought is decoded from its beginning."""
    monkeypatch.setattr(audio._SoundReader, "_seek", lambda _, place: place == 0)
    data = wav(bytes(2 * 8000 * 400))
    tracemalloc.start()
    try:
        part = decoded(data, ops.DecodeAudio(seconds=1.0, cut="middle"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * part.nbytes


def test_what_is_made_is_bounded_however_long_a_file_is() -> None:
    hour = sound("flac", "flac", seconds=60.0, rate=8_000, channels=1)
    bounded = ops.DecodeAudio(max_samples=400_000)
    with pytest.raises(CorruptSampleError, match="max_samples=400000"):
        decoded(hour, bounded)
    part = ops.DecodeAudio(max_samples=400_000, seconds=1.0, cut="middle")
    assert decoded(hour, part).shape == (1, 8000)
    grown = ops.DecodeAudio(rate=384_000, max_samples=1_000_000)
    with pytest.raises(CorruptSampleError, match="max_samples=1000000"):
        decoded(sound("wav", "pcm_s16le", rate=8_000), grown)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ops.DecodeAudio(rate=10),
        lambda: ops.DecodeAudio(stream=-1),
        lambda: ops.DecodeAudio(max_samples=0),
        lambda: ops.DecodeAudio(seconds=0.0),
        lambda: ops.DecodeAudio(seconds=float("nan")),
    ],
)
def test_senseless_parameters_are_refused(make: object) -> None:
    with pytest.raises(ConfigError):
        make()  # type: ignore[operator]


def test_what_is_made_is_foreseen_from_the_duration() -> None:
    op = ops.DecodeAudio(rate=16_000, mono=True, seconds=2.0)
    spec = Encoded(nbytes=1e6, duration_s=10.0)
    assert op.infer(spec) == Array(dtype="float32", shape=(32_000,))
    assert 0 < op.cost_s(spec) < ops.DecodeAudio(rate=16_000).cost_s(spec)
    unknown = ops.DecodeAudio().infer(Encoded(nbytes=160_000))
    assert unknown.nbytes == pytest.approx(10 * 44_100 * 2 * 4)
