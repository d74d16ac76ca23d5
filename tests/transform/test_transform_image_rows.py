"""JPEG is decoded down to the rows that are needed, and these are as if all were decoded."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile
from skimage import data

from headrace import ops
from headrace.core.draws import Draws, SampleKey
from headrace.core.errors import CorruptSampleError
from headrace.transform.codecs.jpegrows import load_rows
from headrace.transform.op import Frame

PHOTO = Image.fromarray(data.astronaut())
DARK = Image.new("RGB", (320, 240))
DARK.paste(PHOTO.resize((320, 40)), (0, 0))
KINDS: list[dict[str, object]] = [
    {"subsampling": 0},
    {"subsampling": 1},
    {"subsampling": 2},
    {"progressive": True},
    {"restart_marker_rows": 1},
    {"quality": 5, "optimize": True},
]


def jpeg(image: Image.Image = PHOTO, **options: object) -> bytes:
    target = BytesIO()
    image.save(target, "JPEG", **options)
    return target.getvalue()


def opened(file: bytes, scale: int = 1) -> ImageFile.ImageFile:
    image = Image.open(BytesIO(file))
    image.draft(None, (image.width // scale, image.height // scale))
    return image


@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    mode=st.sampled_from(["RGB", "L", "CMYK"]),
    size=st.tuples(st.integers(8, 150), st.integers(8, 150)),
    scale=st.sampled_from([1, 2, 4, 8]),
    share=st.floats(0, 1),
)
def test_needed_rows_are_as_if_all_were_decoded(
    kind: dict[str, object], mode: str, size: tuple[int, int], scale: int, share: float
) -> None:
    file = jpeg(PHOTO.resize(size).convert(mode), **kind)
    whole, image = opened(file, scale), opened(file, scale)
    rows = max(1, round(share * image.height))
    load_rows(image, file, rows)
    assert np.array_equal(np.asarray(image)[:rows], np.asarray(whole)[:rows])


def test_rows_far_below_are_not_decoded() -> None:
    image = opened(jpeg())
    load_rows(image, jpeg(), 200)
    pixels = np.asarray(image)
    assert pixels[:200].any(axis=(1, 2)).all()
    assert not pixels[300:].any()


def test_a_black_picture_is_decoded_although_it_never_shows_how_far() -> None:
    file = jpeg(DARK)
    image = opened(file)
    load_rows(image, file, 100)
    assert np.array_equal(np.asarray(image), np.asarray(opened(file)))


@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
def test_a_truncated_file_is_corrupt_whatever_rows_are_needed(kept: float) -> None:
    draws = Draws(SampleKey(0, 0, 0), 0)
    file = jpeg()
    decoder, frame = ops.DecodeImage(), Frame(ops.CenterCrop((16, 512)), draws)
    assert decoder.decode(file, draws, frame).size == (512, 16)
    with pytest.raises(CorruptSampleError, match="truncated"):
        decoder.decode(file[: int(len(file) * kept)], draws, frame)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_picture_is_cut_where_it_is_after_the_turn(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    draws = Draws(SampleKey(0, 0, 0), 0)
    file = jpeg(PHOTO.crop((0, 0, 300, 200)), exif=exif)
    decoder, crop = ops.DecodeImage(orientation="apply"), ops.RandomResizedCrop(128)
    cut = decoder.decode(file, draws, Frame(crop, Draws(SampleKey(0, 0, 0), 1)))
    whole = decoder.decode(file, draws, None)
    window = crop.window(*whole.size, Draws(SampleKey(0, 0, 0), 1))
    assert window.scale() == 1
    assert np.array_equal(cut.array(), whole.map(window.apply).array())
