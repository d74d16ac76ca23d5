"""Headers of damaged media are described as broken, whatever a parser throws at them."""

from __future__ import annotations

import io
import warnings

import pytest
from made_up_media import clip, picture, tone

from headrace.dataset.location import Kind
from headrace.dataset.probe import probe

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000")


@pytest.mark.parametrize("format", FORMATS)
def test_a_picture_with_any_byte_damaged_is_described(format: str) -> None:
    assert probe_damaged("image", picture(24, 16, format)) > 0


@pytest.mark.parametrize(("kind", "file"), [("video", clip(3)), ("audio", tone(0.1))])
def test_a_clip_and_a_sound_with_any_byte_of_their_headers_damaged_are_described(
    kind: Kind, file: bytes
) -> None:
    assert probe_damaged(kind, file) > 0


def probe_damaged(kind: Kind, file: bytes) -> int:
    """Damage each byte of a header in turn; return how often it was found."""
    broken = 0
    for position in [*range(min(len(file), 300)), *range(300, len(file), len(file) // 100)]:
        damaged = bytearray(file)
        damaged[position] ^= 0xFF
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            broken += probe(kind, lambda: io.BytesIO(damaged)).broken is not None  # noqa: B023
    return broken
