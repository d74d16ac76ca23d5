"""Colour jitter with torchvision's meaning on PIL images."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from PIL import Image, ImageEnhance

from headrace.core.draws import Draws
from headrace.core.errors import ConfigError
from headrace.transform import cost
from headrace.transform.op import MEDIA, PictureOp
from headrace.transform.pictures import Pictures
from headrace.transform.spec import Spec

Span = float | tuple[float, float]
Change = Callable[[Image.Image], Image.Image]


class ColorJitter(PictureOp, frozen=True):
    """Change brightness, contrast, saturation and hue by random factors, in random order.

    A number ``x`` means the span ``[max(0, 1 - x), 1 + x]``, for hue ``[-x, x]`` (at most
    0.5). All frames of a clip get the same factors in the same order.
    """

    brightness: Span = 0.0
    contrast: Span = 0.0
    saturation: Span = 0.0
    hue: Span = 0.0
    fields: tuple[str, ...] = MEDIA

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation"):
            low, high = _around_one(getattr(self, name))
            if not 0 <= low <= high:
                raise ConfigError(
                    f"color_jitter.{name}={getattr(self, name)} must not be negative, and a pair "
                    "must be (smallest, largest)"
                )
        low, high = _around_zero(self.hue)
        if not -0.5 <= low <= high <= 0.5:
            raise ConfigError(f"color_jitter.hue={self.hue} must lie within [-0.5, 0.5]")

    def apply(self, pictures: Pictures, draws: Draws) -> Pictures:
        """Return the pictures with their colours changed."""
        order = draws.permutation(4)
        changes = self._changes(draws)
        for number in order:
            change = changes[number]
            if change is not None:
                pictures = pictures.map(change)
        return pictures

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        spans = (*map(_around_one, (self.brightness, self.contrast, self.saturation)),)
        enhancements = sum(span != (1.0, 1.0) for span in spans)
        hue = cost.HUE if _around_zero(self.hue) != (0.0, 0.0) else 0.0
        return (enhancements * cost.ENHANCE + hue) * cost.pixels(spec)

    def _changes(self, draws: Draws) -> list[Change | None]:
        """Return the four changes; factors are drawn even for those that change nothing."""
        changes: list[Change | None] = []
        for span, enhancer in (
            (self.brightness, ImageEnhance.Brightness),
            (self.contrast, ImageEnhance.Contrast),
            (self.saturation, ImageEnhance.Color),
        ):
            low, high = _around_one(span)
            factor = draws.uniform(low, high)
            changes.append(partial(_enhance, enhancer, factor) if (low, high) != (1, 1) else None)
        low, high = _around_zero(self.hue)
        factor = draws.uniform(low, high)
        changes.append(partial(_shift_hue, factor) if (low, high) != (0, 0) else None)
        return changes


def _around_one(span: Span) -> tuple[float, float]:
    if isinstance(span, tuple):
        return span
    return (max(0.0, 1 - span), 1 + span) if span >= 0 else (span, span)


def _around_zero(span: Span) -> tuple[float, float]:
    return span if isinstance(span, tuple) else (-span, span)


def _enhance(
    enhancer: type[ImageEnhance._Enhance], factor: float, image: Image.Image
) -> Image.Image:
    return enhancer(image).enhance(factor)  # type: ignore[call-arg]


def _shift_hue(factor: float, image: Image.Image) -> Image.Image:
    shift = int(np.int32(factor * 255)) % 256
    hue, saturation, value = image.convert("HSV").split()
    turned = hue.point([(level + shift) % 256 for level in range(256)])
    return Image.merge("HSV", (turned, saturation, value)).convert("RGB")
