"""The op that makes mel spectrograms of sound."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Literal

import numpy as np

from headrace.core.draws import Draws
from headrace.core.errors import ConfigError, CorruptSampleError
from headrace.core.record import AnyArray, Value
from headrace.transform import cost
from headrace.transform.exact import ln
from headrace.transform.mel import Floats, MelBands, MelScale, mel_power
from headrace.transform.op import Op, ValueOp, require_array
from headrace.transform.ops.audio import DecodeAudio
from headrace.transform.ops.user import UserOp
from headrace.transform.spec import Array, Spec

_LN_10 = log(10)
_WHISPER_RANGE = 8.0
"""What lies further below the loudest is raised to there [powers of ten]."""


class LogMel(ValueOp, frozen=True):
    """Make log-mel spectrograms, ``float32 [..., n_mels, frames]``, of sound ``[..., samples]``.

    The defaults are Whisper's features. With ``form="ln"`` or ``"db"`` there is a frame more,
    and the numbers are the logarithms of torchaudio's ``MelSpectrogram`` or librosa's.
    """

    rate: int
    """Rate of the sound [Hz]: the one that ``DecodeAudio`` makes."""

    n_mels: int = 80
    n_fft: int = 400
    """Length of a window and of its transform [samples]."""

    hop: int = 160
    """From one window to the next [samples]."""

    low: float = 0.0
    high: float | None = None
    """Ends of the lowest and the highest band [Hz]; None is half the rate."""

    scale: MelScale = "slaney"
    """``slaney`` as Whisper and librosa have it, ``htk`` as torchaudio does unless told."""

    norm: Literal["slaney", "none"] = "slaney"
    """``slaney``: bands have the same area; ``none``: the same height, as torchaudio's."""

    form: Literal["whisper", "ln", "db"] = "whisper"
    """``ln`` natural logarithm, ``db`` ten times the decimal one; ``whisper`` the decimal one, at
    most 8 below its largest, plus 4, divided by 4, and without the last frame."""

    floor: float = 1e-10
    """Least power that the logarithm is taken of."""

    into: str = "mel"
    fields: tuple[str, ...] = ("audio",)

    def __post_init__(self) -> None:
        if min(self.rate, self.n_mels, self.hop) < 1 or self.n_fft < 2 or not self.floor > 0:
            raise ConfigError(
                f"log_mel.rate={self.rate}, n_mels={self.n_mels} and hop={self.hop} must be at "
                f"least 1, n_fft={self.n_fft} at least 2, floor={self.floor:g} above 0"
            )
        if not 0 <= self.low < self._high <= self.rate / 2:
            raise ConfigError(
                f"log_mel.low={self.low:g} and high={self._high:g} Hz must rise, and end at half "
                f"the rate of {self.rate} Hz"
            )

    def check_behind(self, before: Sequence[Op]) -> None:
        """Raise ConfigError where sound of another rate is made for the op: it would not notice."""
        acting = [op for op in before if {*op.fields} & {*self.fields}]
        for op in reversed(acting):
            if isinstance(op, UserOp):
                return
            if isinstance(op, DecodeAudio) and op.rate != self.rate:
                raise ConfigError(
                    f"log_mel.rate={self.rate} follows decode_audio.rate={op.rate}; give both the "
                    "same rate"
                )

    def target(self, field: str) -> str:  # noqa: ARG002 - sound has one field
        """Return ``into``."""
        return self.into

    def apply(self, value: Value, draws: Draws) -> Value:  # noqa: ARG002 - nothing random
        """Return the spectrogram.

        Raises:
            ConfigError: the value is no array of floats.
        """
        sound = require_array(value, self, self.fields[0])
        if sound.dtype.kind != "f" or not sound.ndim:
            raise ConfigError(
                f"log_mel takes floats [..., samples], not {sound.dtype} {list(sound.shape)}; put "
                "decode_audio before it"
            )
        if not sound.size:
            raise CorruptSampleError("there is no sound to make a spectrogram of")
        channels = [self._logarithm(self._power(one)) for one in sound.reshape(-1, sound.shape[-1])]
        return np.stack(channels).reshape(*sound.shape[:-1], *channels[0].shape)

    def infer(self, spec: Spec) -> Spec:
        """Return a column for each hop."""
        if not isinstance(spec, Array):
            return spec
        *lead, samples = spec.shape
        return Array(dtype="float32", shape=(*lead, self.n_mels, samples / self.hop))

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        return cost.MEL * cost.elements(spec) / 4 * self.n_fft / self.hop

    @property
    def _high(self) -> float:
        return self.rate / 2 if self.high is None else self.high

    def _power(self, sound: AnyArray) -> Floats:
        bands = MelBands(
            rate=self.rate,
            n_fft=self.n_fft,
            n_mels=self.n_mels,
            low=self.low,
            high=self._high,
            scale=self.scale,
            is_even=self.norm == "slaney",
        )
        power = mel_power(sound, self.hop, bands)
        return power[:, :-1] if self.form == "whisper" and power.shape[1] > 1 else power

    def _logarithm(self, power: Floats) -> AnyArray:
        logarithm = ln(np.maximum(power, self.floor))
        if self.form == "db":
            logarithm *= 10 / _LN_10
        if self.form == "whisper":
            logarithm /= _LN_10
            logarithm = np.maximum(logarithm, logarithm.max() - _WHISPER_RANGE)
            logarithm = (logarithm + 4) / 4
        return logarithm.astype(np.float32)
