"""What ops cost, for planning: CPU seconds per pixel, per byte, per element.

Measured on one core of an EPYC 7003 (2.45 GHz) with Pillow 13 (libjpeg-turbo 3.2), PyAV 18 and
NumPy 2.4, as the least of seven runs of ``time.process_time`` on photographs of 0.26 and 2.8
megapixels and on H.264 clips of 320 x 180 to 1280 x 720. Only ratios matter to a plan:
another CPU scales all of them alike. ``headrace explain --measure`` measures the real thing.
"""

from __future__ import annotations

from headrace.transform.spec import Array, Encoded, Spec, picture_size

_NS = 1e-9

JPEG = {1: 7.5 * _NS, 2: 2.6 * _NS, 4: 2.0 * _NS, 8: 1.6 * _NS}
"""Decoding JPEG at 1 / key of its size [s per stored pixel]."""

IMAGE = {"png": 31 * _NS, "webp": 15 * _NS}
"""Decoding other formats [s per pixel]."""

VIDEO = 2.5 * _NS
"""Decoding H.264 on one thread, unseen B frames left out [s per pixel of a frame walked past]."""

TO_RGB = 0.4 * _NS
"""YUV to RGB [s per pixel of a frame that is kept]."""

RESIZE_IN = 2.2 * _NS
"""Antialiased resize, horizontal pass and copy [s per pixel that goes in]."""

RESIZE_OUT = 8 * _NS
"""Antialiased resize, vertical pass [s per pixel that comes out]."""

CROP = 0.6 * _NS
FLIP = 0.7 * _NS
ENHANCE = 4.5 * _NS
HUE = 32 * _NS
"""[s per pixel] of a crop, a flip, one of brightness, contrast or saturation, and hue."""

TO_FLOAT = 0.55 * _NS
NORMALIZE = 0.30 * _NS
"""[s per element]."""

AUDIO = 8 * _NS
"""Decoding sound [s per sample of one channel]."""

RESAMPLE = 75 * _NS
"""Bringing sound to another rate [s per sample that comes out]."""

MEL = 7 * _NS
"""Spectra and mel bands [s per element of all windows]."""

COPY = 0.1 * _NS
"""Copying arrays to where they are joined [s per byte]."""

TEXT = 0.5 * _NS
TOKENIZE = 400 * _NS
"""Decoding and tokenizing text [s per byte]."""

USER = 100e-6
"""A user's own op, of which nothing is known [s per sample]."""


def pixels(spec: Spec) -> float:
    """Return the pixels of a picture, or of all frames of a clip."""
    width, height = picture_size(spec)
    return width * height * frames(spec)


def frames(spec: Spec) -> float:
    """Return the frames of a clip, 1 for a picture."""
    if isinstance(spec, Encoded):
        return spec.frames
    return spec.shape[0] if len(spec.shape) == 4 else 1


def elements(spec: Spec) -> float:
    """Return the number of elements of an array."""
    if isinstance(spec, Encoded):
        return spec.nbytes
    return Array(dtype="uint8", shape=spec.shape).nbytes


def window_s(window: tuple[float, float, float, float]) -> float:
    """Return the CPU time to cut and resize one picture [s]."""
    box_width, box_height, width, height = window
    if (box_width, box_height) == (width, height):
        return CROP * width * height
    return RESIZE_IN * box_width * box_height + RESIZE_OUT * width * height
