"""The op that decodes pictures."""

from __future__ import annotations

from headrace.core.draws import Draws
from headrace.core.errors import ConfigError
from headrace.core.record import Value
from headrace.transform import cost
from headrace.transform.codecs.image import Background, ImageRules, decode_image
from headrace.transform.codecs.orientation import Orientation
from headrace.transform.op import Decoder, Frame, Framing, encoded_bytes
from headrace.transform.pictures import Pictures
from headrace.transform.spec import Array, Encoded, Spec, picture_size

MAX_PIXELS = 89_478_485
"""Pillow's own limit, above which it warns; its hard limit is twice that."""


class DecodeImage(Decoder, frozen=True):
    """Decode JPEG, PNG, WebP, GIF, BMP, TIFF, PPM, AVIF or JPEG 2000 to ``uint8 [H, W, 3]`` RGB.

    Like torchvision's loader: CMYK and palettes are converted by Pillow, an ICC profile is not
    applied, of an animated picture the first frame is taken. 16-bit channels keep their high
    byte; 32-bit pictures have no defined range and are refused.
    """

    orientation: Orientation = "ignore"
    """``apply`` turns the picture as its EXIF says; ``ignore`` leaves it as stored."""

    background: Background | None = None
    """RGB colour to composite transparency over; None drops the alpha channel."""

    scaled: bool = True
    """Let JPEG be decoded at 1/2, 1/4 or 1/8 when the crop behind still has enough pixels:
    up to five times faster, and close to the exact result but not equal to it."""

    max_pixels: int = MAX_PIXELS
    """Larger pictures count as corrupt [px]."""

    max_scans: int = 100
    """JPEG with more scans counts as corrupt: decoding takes as long as that many pictures, and a
    file of a megabyte may have ten thousand. Programs write about ten."""

    fields: tuple[str, ...] = ("image",)

    def __post_init__(self) -> None:
        if self.max_scans < 1:
            raise ConfigError(f"decode_image.max_scans={self.max_scans} must be at least 1")
        if not 0 < self.max_pixels <= 2 * MAX_PIXELS:
            raise ConfigError(
                f"decode_image.max_pixels={self.max_pixels} must lie in [1, {2 * MAX_PIXELS}], "
                "the most that Pillow decodes"
            )
        if self.background and not all(0 <= level <= 255 for level in self.background):
            raise ConfigError(f"decode_image.background={self.background} must be three bytes")

    def decode(self, value: Value, draws: Draws, frame: Frame | None) -> Pictures:  # noqa: ARG002
        """Return the picture; see :func:`headrace.transform.codecs.image.decode_image`."""
        rules = ImageRules(
            orientation=self.orientation,
            background=self.background,
            max_pixels=self.max_pixels,
            max_scans=self.max_scans,
            scaled=self.scaled,
        )
        return Pictures((decode_image(encoded_bytes(value, self), rules, frame),), clip=False)

    def infer(self, spec: Spec) -> Spec:
        """Return ``uint8 [H, W, 3]``."""
        width, height = picture_size(spec)
        return Array(dtype="uint8", shape=(height, width, 3))

    def decode_cost_s(self, spec: Spec, frame: Framing | None) -> float:
        """Return the estimated CPU time [s], less where the framing lets JPEG be scaled."""
        width, height = picture_size(spec)
        codec = spec.codec if isinstance(spec, Encoded) else ""
        window = frame.typical(width, height) if frame else (width, height, width, height)
        scale = 1
        if self.scaled and frame and codec in ("", "jpeg"):
            ratio = min(window[0] / window[2], window[1] / window[3])
            scale = next((step for step in (8, 4, 2) if ratio >= step), 1)
        per_pixel = cost.IMAGE.get(codec, cost.JPEG[scale])
        box = (window[0] / scale, window[1] / scale, *window[2:])
        return width * height * per_pixel + (cost.window_s(box) if frame else 0.0)
