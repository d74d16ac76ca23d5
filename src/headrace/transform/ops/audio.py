"""The op that decodes sound."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.core.draws import Draws
from headrace.core.errors import ConfigError
from headrace.core.record import Value
from headrace.transform import cost
from headrace.transform.codecs.audio import PREROLL_S, RATES, Cut, SoundRules, decode_sound
from headrace.transform.op import ValueOp, encoded_source
from headrace.transform.spec import Array, Encoded, Spec

Floats: TypeAlias = "npt.NDArray[np.float64]"

_USUAL_RATE = 44_100
_USUAL_CHANNELS = 2
_USUAL_BYTES_PER_S = 16_000
"""What is assumed of files of which nothing is known."""


class DecodeAudio(ValueOp, frozen=True):
    """Decode sound to ``float32 [channels, samples]``, or ``float32 [samples]`` if ``mono``.

    Values lie in [-1, 1]; only files of floats may be louder. Takes bytes, or a seekable stream of
    which only what a cut needs is read. Files that are shorter than the cut are not filled up.
    """

    rate: int | None = None
    """Rate of the result [Hz]; None leaves each file's own."""

    mono: bool = False
    """Take the mean of the channels, without an axis for them."""

    seconds: float | None = None
    """Length of a cut [s]; None takes everything."""

    cut: Literal["random", "middle", "start"] = "random"
    """Where a cut lies."""

    stream: int = 0
    """Number among the file's audio streams."""

    max_samples: int = 1 << 26
    """A file of which more samples, over all channels, are decoded or made counts as corrupt."""

    fields: tuple[str, ...] = ("audio",)

    def __post_init__(self) -> None:
        low, high = RATES
        if self.rate is not None and not low <= self.rate <= high:
            raise ConfigError(
                f"decode_audio.rate={self.rate} must be between {low} and {high} Hz, or None"
            )
        if self.stream < 0 or self.max_samples < 1:
            raise ConfigError(
                f"decode_audio.stream={self.stream} must be at least 0, max_samples="
                f"{self.max_samples} at least 1"
            )
        if self.seconds is not None and not self.seconds * (self.rate or low) >= 1:
            raise ConfigError(
                f"decode_audio.seconds={self.seconds:g} must be at least one sample, or None"
            )

    def apply(self, value: Value, draws: Draws) -> Value:
        """Return the sound; see :func:`headrace.transform.codecs.audio.decode_sound`."""
        rules = SoundRules(
            stream=self.stream, rate=self.rate, mono=self.mono, max_samples=self.max_samples
        )
        sound = decode_sound(encoded_source(value, self), rules, self._cut(draws))
        return sound[0] if self.mono else sound

    def decoded(self, durations_s: Floats) -> Floats:
        """Return which part of files of these durations is decoded, about."""
        if self.seconds is None:
            return np.ones_like(durations_s)
        return np.minimum(1.0, (self.seconds + PREROLL_S) / np.maximum(durations_s, 1e-3))

    def infer(self, spec: Spec) -> Spec:
        """Return about as many samples as the file's duration, or the cut, has."""
        taken_s = min(duration_s(spec), self.seconds or float("inf"))
        samples = taken_s * (self.rate or _USUAL_RATE)
        return Array(dtype="float32", shape=(samples,) if self.mono else (_USUAL_CHANNELS, samples))

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        whole_s = duration_s(spec)
        taken_s = min(whole_s, self.seconds or float("inf"))
        decoded_s = whole_s * float(self.decoded(np.asarray(whole_s)))
        decoded = decoded_s * _USUAL_RATE * _USUAL_CHANNELS * cost.AUDIO
        made = taken_s * self.rate * cost.RESAMPLE if self.rate else 0.0
        return decoded + made * (1 if self.mono else _USUAL_CHANNELS)

    def _cut(self, draws: Draws) -> Cut | None:
        if self.seconds is None:
            return None
        place = {"start": 0.0, "middle": 0.5}.get(self.cut)
        return Cut(self.seconds, draws.uniform() if place is None else place)


def duration_s(spec: Spec) -> float:
    """Return how long encoded sound lasts, about [s]."""
    known = spec.duration_s if isinstance(spec, Encoded) else 0.0
    return known or spec.nbytes / _USUAL_BYTES_PER_S
