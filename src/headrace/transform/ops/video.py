"""The op that decodes clips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.core.draws import Draws
from headrace.core.errors import ConfigError
from headrace.core.parts import WHOLE, SamplePart
from headrace.core.record import Value
from headrace.transform import cost
from headrace.transform.codecs.orientation import Orientation
from headrace.transform.codecs.video import ClipRules, Source, decode_clip
from headrace.transform.op import Decoder, Frame, Framing, encoded_source
from headrace.transform.pictures import Pictures
from headrace.transform.spec import Array, Encoded, Spec, picture_size

Floats: TypeAlias = "npt.NDArray[np.float64]"
Sampling = Literal["uniform", "random", "fps"]

MOST_FRAMES = 1 << 16
"""A clip repeats frames where it is short, so its size says nothing about what is made of it."""


class DecodeVideo(Decoder, frozen=True):
    """Decode ``frames`` frames of a clip to ``uint8 [T, H, W, 3]`` RGB.

    Takes bytes, or a seekable stream of which only the needed groups of pictures are read.
    A clip that is too short repeats frames, so the shape is always the same. Colours follow
    the stream's own matrix and range (BT.601 where it names none); 10 bit becomes 8 bit.
    """

    frames: int
    """Frames to take."""

    sampling: Sampling = "uniform"
    """``uniform`` the middle of each of T equal parts; ``random`` a random moment in each;
    ``fps`` from a random start, ``1 / fps`` seconds apart."""

    fps: float | None = None
    """Frames per second of ``fps`` sampling, whatever the clip's own rate."""

    stream: int = 0
    """Number among the file's video streams; the first unless said otherwise."""

    orientation: Orientation = "ignore"
    """``apply`` turns frames as the display matrix says; ``ignore`` leaves them as stored."""

    max_pixels: int = 8192 * 4320
    """Clips with larger frames count as corrupt [px]."""

    max_decoded: int = 20_000
    """A clip that needs more decoded frames to reach the wanted ones counts as corrupt."""

    fields: tuple[str, ...] = ("video",)

    def __post_init__(self) -> None:
        if self.frames < 1 or self.stream < 0 or self.max_pixels < 1 or self.max_decoded < 1:
            raise ConfigError(
                f"decode_video.frames={self.frames}, max_pixels={self.max_pixels} and max_decoded="
                f"{self.max_decoded} must be at least 1, stream={self.stream} at least 0"
            )
        if self.frames > MOST_FRAMES:
            raise ConfigError(f"decode_video.frames={self.frames} must be at most {MOST_FRAMES}")
        if (self.sampling == "fps") != (self.fps is not None):
            raise ConfigError(
                f"decode_video.fps={self.fps} and sampling={self.sampling!r}: fps belongs to "
                "sampling='fps' and is needed there"
            )
        if self.fps is not None and not self.fps > 0:
            raise ConfigError(f"decode_video.fps={self.fps:g} must be above 0")

    def decode(self, value: Value, draws: Draws, frame: Frame | None) -> Pictures:
        """Return the frames; see :func:`headrace.transform.codecs.video.decode_clip`."""
        return self.decode_part(value, draws, frame, WHOLE)

    def decode_part(
        self, value: Value, draws: Draws, frame: Frame | None, part: SamplePart
    ) -> Pictures:
        """Return the frames of one of at most ``frames`` parts."""
        rules = ClipRules(
            stream=self.stream,
            orientation=self.orientation,
            max_pixels=self.max_pixels,
            max_decoded=self.max_decoded,
        )
        source: Source = encoded_source(value, self)
        images = decode_clip(
            source, rules, lambda duration_s: self.moments(duration_s, draws), frame, part
        )
        return Pictures(images, clip=True)

    def moments(self, duration_s: float, draws: Draws) -> Sequence[float]:
        """Return the moments whose frames are taken, ascending [s from the clip's start]."""
        if self.fps is not None:
            span = (self.frames - 1) / self.fps
            start = draws.uniform(0.0, max(0.0, duration_s - span))
            return [start + number / self.fps for number in range(self.frames)]
        part = duration_s / self.frames
        if self.sampling == "random":
            return [part * (number + draws.uniform()) for number in range(self.frames)]
        return [part * (number + 0.5) for number in range(self.frames)]

    def decoded(self, frames: Floats, gops: Floats) -> Floats:
        """Return how many of a clip's frames are decoded to reach those that are taken, about."""
        hits = self.frames / np.maximum(gops, 1.0)
        many = np.maximum(hits, 1.0)
        decoded: Floats = frames * np.minimum(hits, 1.0) * many / (many + 1)
        return decoded

    def spanned(self, duration_s: Floats) -> Floats:
        """Return which part of a clip lies between the first and the last moment, about."""
        if self.fps is None:
            return np.ones_like(duration_s)
        span_s = (self.frames - 1) / self.fps
        return np.minimum(1.0, span_s / np.maximum(duration_s, 1e-3))

    def infer(self, spec: Spec) -> Spec:
        """Return ``uint8 [T, H, W, 3]``."""
        width, height = picture_size(spec)
        return Array(dtype="uint8", shape=(self.frames, height, width, 3))

    def decode_cost_s(self, spec: Spec, frame: Framing | None) -> float:
        """Return the estimated CPU time to decode the groups of pictures that are hit [s]."""
        width, height = picture_size(spec)
        total, gops = (spec.frames, spec.gops) if isinstance(spec, Encoded) else (self.frames, 1)
        decoded = float(self.decoded(np.asarray(total, np.float64), np.asarray(gops, np.float64)))
        window = cost.window_s(frame.typical(width, height)) if frame else 0.0
        kept = self.frames * (width * height * cost.TO_RGB + window)
        return width * height * decoded * cost.VIDEO + kept
