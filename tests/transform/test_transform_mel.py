"""Log-mel spectrograms are Whisper's, and those of torchaudio and librosa, within rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from headrace import Pipeline, ops
from headrace.core.draws import Draws, SampleKey
from headrace.core.errors import ConfigError, CorruptSampleError
from headrace.core.record import Value
from headrace.transform.mel import MelBands, filters
from headrace.transform.spec import Array
from sounds import waves

Floats = npt.NDArray[np.float32]

RATE = 16_000
NOISE = (np.random.default_rng(0).standard_normal(RATE * 2) * 0.1).astype(np.float32)
SOUND = waves(2.0, RATE, 1)[0] + NOISE


def spectrogram(sound: Value, op: ops.LogMel) -> Floats:
    result = op.apply(sound, Draws(SampleKey(0, 0, 0), 0))
    assert isinstance(result, np.ndarray)
    assert result.dtype == np.float32
    return result.astype(np.float32, copy=False)


def mel_power(n_fft: int, hop: int, weights: npt.NDArray[np.float64]) -> torch.Tensor:
    spectrum = torch.stft(
        torch.from_numpy(SOUND).double(),
        n_fft,
        hop,
        window=torch.hann_window(n_fft, dtype=torch.float64),
        return_complex=True,
    )
    return torch.from_numpy(weights) @ spectrum.abs() ** 2


def test_the_defaults_are_whispers_features() -> None:
    power = mel_power(400, 160, slaney_filters())[:, :-1]
    logarithm = torch.clamp(power, min=1e-10).log10()
    expected = (torch.maximum(logarithm, logarithm.max() - 8.0) + 4.0) / 4.0
    got = spectrogram(SOUND, ops.LogMel(RATE))
    assert got.shape == (80, 200)
    np.testing.assert_allclose(got, expected.numpy(), atol=1e-6)


@pytest.mark.parametrize(("form", "factor"), [("ln", 1.0), ("db", 10 / np.log(10))])
def test_logarithms_are_those_of_mel_spectrograms_elsewhere(form: Any, factor: float) -> None:
    op = ops.LogMel(
        RATE, n_mels=40, n_fft=512, hop=200, low=20, high=7600, scale="htk", norm="none", form=form
    )
    expected = torch.clamp(mel_power(512, 200, htk_filters()), min=1e-10).log() * factor
    got = spectrogram(SOUND, op)
    assert got.shape == (40, 161)
    np.testing.assert_allclose(got, expected.numpy(), atol=2e-6)


def slaney_filters() -> npt.NDArray[np.float64]:
    """Whisper's 80 filters, from the definition in Slaney's Auditory Toolbox."""
    edges = np.interp(np.linspace(0, mel(8000.0), 82), [0, 15], [0, 1000])
    above = np.linspace(0, mel(8000.0), 82) > 15
    edges[above] = 1000 * 6.4 ** ((np.linspace(0, mel(8000.0), 82)[above] - 15) / 27)
    return triangles(edges, 400) * (2 / (edges[2:] - edges[:-2]))[:, None]


def mel(hertz: float) -> float:
    return float(15 + 27 * np.log(hertz / 1000) / np.log(6.4))


def htk_filters() -> npt.NDArray[np.float64]:
    """40 filters from 20 to 7600 Hz on the scale of HTK's book."""
    ends = 2595 * np.log10(1 + np.array([20, 7600]) / 700)
    return triangles(700 * (10 ** (np.linspace(*ends, 42) / 2595) - 1), 512)


def triangles(edges: npt.NDArray[np.float64], n_fft: int) -> npt.NDArray[np.float64]:
    bins = np.arange(1 + n_fft // 2) * RATE / n_fft
    return np.stack(
        [
            np.interp(bins, edges[band : band + 3], [0, 1, 0], left=0, right=0)
            for band in range(len(edges) - 2)
        ]
    )


def test_filters_are_those_of_the_definitions() -> None:
    whisper = MelBands(RATE, 400, 80, 0, 8000, "slaney", is_even=True)
    np.testing.assert_allclose(filters(whisper), slaney_filters(), atol=1e-12)
    htk = MelBands(RATE, 512, 40, 20, 7600, "htk", is_even=False)
    np.testing.assert_allclose(filters(htk), htk_filters(), atol=1e-12)


def test_channels_are_kept_and_each_is_as_if_alone() -> None:
    both = np.stack([SOUND, NOISE])
    op = ops.LogMel(RATE)
    got = spectrogram(both, op)
    assert got.shape == (2, 80, 200)
    for number in range(2):
        np.testing.assert_array_equal(got[number], spectrogram(both[number], op))


@pytest.mark.parametrize("samples", [1, 2, 159, 160, 200, 401])
def test_short_sounds_have_at_least_a_frame(samples: int) -> None:
    assert spectrogram(SOUND[:samples], ops.LogMel(RATE)).shape[1] == max(1, samples // 160)


def test_silence_is_the_floor() -> None:
    silence = np.zeros(1600, np.float32)
    assert (spectrogram(silence, ops.LogMel(RATE)) == np.float32(-1.5)).all()
    assert spectrogram(silence, ops.LogMel(RATE, form="db")) == pytest.approx(-100.0)


def test_what_is_no_sound_is_refused() -> None:
    with pytest.raises(ConfigError, match="put decode_audio before"):
        spectrogram(np.zeros(9, np.int16), ops.LogMel(RATE))
    with pytest.raises(ConfigError, match="not as an array"):
        spectrogram(b"bytes", ops.LogMel(RATE))
    with pytest.raises(CorruptSampleError, match="no sound"):
        spectrogram(np.zeros((2, 0), np.float32), ops.LogMel(RATE))


@pytest.mark.parametrize(
    "parameters", [{"n_mels": 0}, {"hop": 0}, {"floor": 0}, {"high": 9000}, {"low": 8000}]
)
def test_senseless_parameters_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ops.LogMel(RATE, **parameters)


@pytest.mark.parametrize("rate", [None, 44_100])
def test_sound_of_another_rate_is_refused_before_it_is_made(rate: int | None) -> None:
    with pytest.raises(ConfigError, match=f"follows decode_audio.rate={rate}"):
        Pipeline([ops.DecodeAudio(rate=rate), ops.LogMel(RATE)])
    Pipeline([ops.DecodeAudio(rate=rate), ops.LogMel(RATE, fields=("speech",))])
    Pipeline([ops.DecodeAudio(rate=RATE), ops.LogMel(RATE)])
    own = ops.UserOp("a.b:resampled", ("audio",))
    Pipeline([ops.DecodeAudio(rate=rate), own, ops.LogMel(RATE)])


def test_what_is_made_is_foreseen() -> None:
    spec = ops.LogMel(RATE).infer(Array(dtype="float32", shape=(2, 32_000)))
    assert spec == Array(dtype="float32", shape=(2, 80, 200))
