"""Pictures of every kind that datasets hold, and broken ones."""

from __future__ import annotations

import struct
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile, features
from skimage import data

from headrace import ops
from headrace.core.draws import Draws, SampleKey
from headrace.core.errors import ConfigError, CorruptSampleError, StorageError
from headrace.transform import corrupt
from headrace.transform.pictures import Pictures

DRAWS = Draws(SampleKey(0, 0, 0), 0)


@lru_cache
def photograph(width: int = 64, height: int = 48) -> Image.Image:
    return Image.fromarray(data.astronaut()).resize((width, height))


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    target = BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def decode(file: bytes, **options: object) -> np.ndarray:
    result = ops.DecodeImage(**options).decode(file, DRAWS, None)
    assert isinstance(result, Pictures)
    return result.array()


LOSSLESS = [("PNG", {}), ("WEBP", {"lossless": True}), ("BMP", {}), ("TIFF", {}), ("PPM", {})]


@pytest.mark.parametrize(("kind", "options"), LOSSLESS)
def test_lossless_formats_give_the_pixels_back(kind: str, options: dict[str, object]) -> None:
    image = photograph()
    assert np.array_equal(decode(encoded(image, kind, **options)), np.asarray(image))


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF", "JPEG2000", "AVIF"])
def test_lossy_formats_come_close(kind: str) -> None:
    if kind == "AVIF" and not features.check("avif"):
        pytest.skip("this Pillow has no AVIF")
    pixels = decode(encoded(photograph(), kind))
    assert pixels.shape == (48, 64, 3)
    assert np.abs(pixels.astype(int) - np.asarray(photograph())).mean() < 12


@pytest.mark.parametrize("mode", ["L", "1", "P", "CMYK", "LA", "RGBA", "YCbCr"])
def test_every_colour_mode_becomes_rgb_as_pillow_converts_it(mode: str) -> None:
    image = photograph().convert(mode)
    file = encoded(image, "TIFF")
    assert np.array_equal(decode(file), np.asarray(Image.open(BytesIO(file)).convert("RGB")))


def test_a_cmyk_jpeg_looks_like_its_rgb_original() -> None:
    file = encoded(photograph().convert("CMYK"), "JPEG", quality=95)
    assert np.abs(decode(file).astype(int) - np.asarray(photograph())).mean() < 6


def test_alpha_is_dropped_or_composited_as_asked() -> None:
    image = Image.new("RGBA", (2, 1), (200, 100, 50, 0))
    image.putpixel((1, 0), (200, 100, 50, 255))
    file = encoded(image, "PNG")
    assert decode(file).tolist() == [[[200, 100, 50], [200, 100, 50]]]
    on_white = decode(file, background=(255, 255, 255))
    assert on_white.tolist() == [[[255, 255, 255], [200, 100, 50]]]


def test_a_transparent_palette_entry_is_composited_too() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putdata([0, 1])
    file = encoded(image, "PNG", transparency=0)
    assert decode(file).tolist() == [[[10, 20, 30], [40, 50, 60]]]
    assert decode(file, background=(9, 9, 9)).tolist() == [[[9, 9, 9], [40, 50, 60]]]


def test_16_bit_gray_keeps_its_high_byte() -> None:
    levels = np.array([[0, 255, 256, 32768, 65535]], np.uint16)
    pixels = decode(encoded(Image.fromarray(levels), "PNG"))
    assert pixels[0, :, 0].tolist() == [0, 0, 1, 128, 255]
    assert (pixels[..., 0] == pixels[..., 2]).all()


def test_a_float_picture_is_refused_because_its_white_is_unknown() -> None:
    file = encoded(Image.fromarray(np.ones((2, 2), np.float32)), "TIFF")
    with pytest.raises(CorruptSampleError, match="no defined white"):
        decode(file)


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_of_an_animation_the_first_frame_is_taken(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    file = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    red, green, blue = decode(file).reshape(-1, 3).mean(0)
    assert red > 240
    assert green < 15
    assert blue < 15


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_exif_orientation_is_applied_only_when_asked(orientation: int, kind: str) -> None:
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    file = encoded(photograph(20, 12), kind, exif=exif)
    stored = Image.open(BytesIO(file)).convert("RGB")
    assert np.array_equal(decode(file), np.asarray(stored))
    upright = ImageOps.exif_transpose(Image.open(BytesIO(file))).convert("RGB")
    assert np.array_equal(decode(file, orientation="apply"), np.asarray(upright))


def test_a_nonsense_orientation_means_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 77
    file = encoded(photograph(20, 12), "JPEG", exif=exif)
    assert np.array_equal(decode(file, orientation="apply"), decode(file))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF"])
def test_a_file_cut_off_anywhere_is_corrupt_or_whole_but_nothing_else(kind: str) -> None:
    file = encoded(photograph(), kind)
    whole = decode(file)
    for length in {*range(0, min(len(file), 700), 23), *range(0, len(file), len(file) // 60)}:
        try:
            pixels = decode(file[:length])
        except CorruptSampleError as error:
            assert "\n" not in str(error)
        else:
            assert np.array_equal(pixels, whole)


def test_a_jpeg_without_its_second_half_is_corrupt() -> None:
    file = encoded(photograph(300, 200), "JPEG")
    with pytest.raises(CorruptSampleError, match="truncated"):
        decode(file[: len(file) // 2])


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_flipped_bytes_never_raise_anything_but_corrupt(choices: st.DataObject) -> None:
    kind = choices.draw(st.sampled_from(["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"]))
    file = bytearray(encoded(photograph(24, 18), kind))
    for _ in range(choices.draw(st.integers(1, 6))):
        file[choices.draw(st.integers(0, len(file) - 1))] = choices.draw(st.integers(0, 255))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pixels = decode(bytes(file), orientation="apply", max_pixels=10_000)
    except CorruptSampleError:
        return
    assert pixels.dtype == np.uint8
    assert pixels.ndim == 3


@given(st.binary(max_size=200))
def test_noise_is_corrupt(noise: bytes) -> None:
    with pytest.raises(CorruptSampleError):
        decode(noise)


def test_a_picture_above_the_limit_is_corrupt_and_says_which_limit() -> None:
    with pytest.raises(CorruptSampleError, match="max_pixels=1000"):
        decode(encoded(photograph(), "PNG"), max_pixels=1000)


def test_a_decompression_bomb_is_corrupt_before_it_is_decoded() -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
        for name, content in chunks
    )
    with pytest.raises(CorruptSampleError):
        decode(b"\x89PNG\r\n\x1a\n" + body)


def test_a_strip_that_a_resize_would_blow_up_is_corrupt() -> None:
    file = encoded(Image.new("RGB", (1, 20_000)), "PNG")
    with pytest.raises(CorruptSampleError, match="resized"):
        ops.Resize(512).window(*Image.open(BytesIO(file)).size, DRAWS)


def test_a_limit_beyond_pillows_own_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="max_pixels"):
        ops.DecodeImage(max_pixels=10**10)


def test_a_lack_of_memory_is_not_the_samples_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    file = encoded(photograph(), "BMP")

    def starve(self: object) -> None:
        raise MemoryError

    monkeypatch.setattr(ImageFile.ImageFile, "load", starve)
    monkeypatch.setattr(corrupt, "_memory_is_left", lambda: False)
    with pytest.raises(MemoryError):
        decode(file)


def test_a_header_that_claims_absurd_memory_is_the_samples_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = encoded(photograph(), "BMP")

    def starve(self: object) -> None:
        raise OSError("out of memory when reading image file")

    monkeypatch.setattr(ImageFile.ImageFile, "load", starve)
    monkeypatch.setattr(corrupt, "_memory_is_left", lambda: True)
    with pytest.raises(CorruptSampleError, match="out of memory"):
        decode(file)


def test_a_storage_failure_while_reading_is_not_the_samples_fault() -> None:
    class Failing(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise StorageError("the disk is gone")

    with pytest.raises(StorageError):
        ops.DecodeImage().decode(Failing(), DRAWS, None)


def test_threads_decode_at_once_and_get_the_same_pixels() -> None:
    files = [encoded(photograph(200 + n, 150), "JPEG") for n in range(8)]
    alone = [decode(file).tobytes() for file in files]
    with ThreadPoolExecutor(4) as pool:
        assert [array.tobytes() for array in pool.map(decode, files * 3)] == alone * 3


def test_pillows_globals_are_left_alone() -> None:
    before = (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES)
    decode(encoded(photograph(), "JPEG"))
    assert before == (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES)


def test_what_else_pillow_was_taught_to_open_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plugin that only this process has registered must not make its batches differ."""

    def accept(prefix: bytes) -> bool:
        return prefix.startswith(b"odd")

    def open_odd(stream: object, name: str) -> Image.Image:
        return Image.new("RGB", (8, 8))

    monkeypatch.setitem(Image.OPEN, "ODD", (open_odd, accept))
    monkeypatch.setattr(Image, "ID", [*Image.ID, "ODD"])
    assert Image.open(BytesIO(b"odd picture")).size == (8, 8)
    with pytest.raises(CorruptSampleError, match="cannot be decoded"):
        decode(b"odd picture")


def with_scans(scans: int) -> bytes:
    """Return a progressive JPEG with its last scan repeated, and 500 of them in a comment."""
    file = encoded(photograph(), "JPEG", progressive=True)
    begin, end = file.rindex(b"\xff\xda"), len(file) - 2
    comment = b"\xff\xfe" + struct.pack(">H", 2 + 2 * 500) + b"\xff\xda" * 500
    return file[:2] + comment + file[2:end] + file[begin:end] * scans + file[end:]


def test_a_jpeg_of_scans_without_end_is_corrupt_before_it_is_decoded() -> None:
    assert decode(with_scans(20)).shape == (48, 64, 3), "what stands in a comment is no scan"
    with pytest.raises(CorruptSampleError, match="max_scans=100"):
        decode(with_scans(100))
    with pytest.raises(CorruptSampleError, match="max_scans=20"):
        decode(with_scans(20), max_scans=20)
    with pytest.raises(ConfigError, match="max_scans"):
        ops.DecodeImage(max_scans=0)


def test_what_is_no_picture_is_said_to_be_none_in_the_same_words_each_time() -> None:
    with pytest.raises(CorruptSampleError, match=r"6 B cannot .* none of the formats JPEG"):
        decode(b"nobody")
