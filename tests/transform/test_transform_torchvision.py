"""Ops mean what torchvision means: equal bytes on its PIL backend, given the same choices."""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from skimage import data
from torchvision import transforms
from torchvision.transforms import functional

from headrace import ops
from headrace.core.draws import Draws, SampleKey
from headrace.core.record import Record
from headrace.transform.pictures import Pictures
from headrace.transform.pipeline import Pipeline
from headrace.transform.program import Program

KEY = SampleKey(seed=11, epoch=2, sample=5)
SIZES = [(64, 48), (223, 301), (500, 333), (31, 900), (1, 7)]


@lru_cache
def photograph(width: int, height: int) -> Image.Image:
    return Image.fromarray(data.astronaut()).resize((width, height), Image.Resampling.BICUBIC)


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    target = BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def run(op_list: list[object], image: bytes, key: SampleKey = KEY) -> np.ndarray:
    program = Program(Pipeline(op_list))
    result: Record = program.run({"image": image}, key, stop=program.sample_ops)
    array = result["image"]
    assert isinstance(array, np.ndarray)
    return array


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("wanted", [32, (40, 24)])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic", "lanczos"])
def test_resize_is_torchvisions(
    size: tuple[int, int], wanted: int | tuple[int, int], interpolation: str
) -> None:
    image = photograph(*size)
    ours = run([ops.DecodeImage(), ops.Resize(wanted, interpolation)], encoded(image, "PNG"))
    mode = transforms.InterpolationMode(interpolation)
    theirs = transforms.Resize(wanted, interpolation=mode)(image)
    assert np.array_equal(ours, np.asarray(theirs))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("wanted", [1, 32, 33, 224, (40, 24), (25, 401)])
def test_center_crop_is_torchvisions_even_where_it_pads(
    size: tuple[int, int], wanted: int | tuple[int, int]
) -> None:
    image = photograph(*size)
    ours = run([ops.DecodeImage(), ops.CenterCrop(wanted)], encoded(image, "PNG"))
    assert np.array_equal(ours, np.asarray(transforms.CenterCrop(wanted)(image)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("sample", range(6))
def test_random_resized_crop_cuts_its_box_as_torchvision_does(
    size: tuple[int, int], sample: int
) -> None:
    image, key = photograph(*size), SampleKey(3, 0, sample)
    op = ops.RandomResizedCrop(56, interpolation="bicubic")
    left, top, right, bottom = op.window(*size, Draws(key, 1)).box
    theirs = functional.resized_crop(
        image,
        top,
        left,
        bottom - top,
        right - left,
        [56, 56],
        transforms.InterpolationMode.BICUBIC,
    )
    ours = run([ops.DecodeImage(), op], encoded(image, "PNG"), key)
    assert np.array_equal(ours, np.asarray(theirs))


def test_random_resized_crop_draws_areas_and_ratios_as_torchvision_does() -> None:
    op = ops.RandomResizedCrop(8, scale=(0.1, 0.6), ratio=(0.5, 2.0))
    area, ratio, left = [], [], []
    for sample in range(1500):
        box = op.window(400, 400, Draws(SampleKey(0, 0, sample), 0)).box
        area.append((box[2] - box[0]) * (box[3] - box[1]) / 160_000)
        ratio.append(np.log((box[2] - box[0]) / (box[3] - box[1])))
        left.append(box[0] / (400 - (box[2] - box[0]) + 1))
    image = photograph(400, 400)
    theirs = np.array(
        [
            transforms.RandomResizedCrop.get_params(image, [0.1, 0.6], [0.5, 2.0])
            for _ in range(1500)
        ]
    )
    their_area = theirs[:, 2] * theirs[:, 3] / 160_000
    assert np.mean(area) == pytest.approx(their_area.mean(), abs=0.02)
    assert np.std(area) == pytest.approx(their_area.std(), abs=0.02)
    assert np.std(ratio) == pytest.approx(np.log(theirs[:, 3] / theirs[:, 2]).std(), abs=0.04)
    assert np.mean(left) == pytest.approx(0.5, abs=0.04)
    assert all(0.5 * 0.98 <= np.exp(value) <= 2.0 * 1.02 for value in ratio)


@pytest.mark.parametrize("size", [(1000, 10), (10, 1000), (1, 1)])
def test_random_resized_crop_falls_back_to_torchvisions_middle(size: tuple[int, int]) -> None:
    op = ops.RandomResizedCrop(8, scale=(1.5, 1.6))
    left, top, right, bottom = op.window(*size, Draws(KEY, 0)).box
    theirs = transforms.RandomResizedCrop.get_params(photograph(*size), [1.5, 1.6], [3 / 4, 4 / 3])
    assert (top, left, bottom - top, right - left) == theirs


def test_flip_is_torchvisions() -> None:
    image = photograph(33, 20)
    ours = run([ops.DecodeImage(), ops.RandomHorizontalFlip(1.0)], encoded(image, "PNG"))
    assert np.array_equal(ours, np.asarray(functional.hflip(image)))


@pytest.mark.parametrize("sample", range(12))
def test_color_jitter_is_torchvisions_with_the_same_factors_and_order(sample: int) -> None:
    key, image = SampleKey(9, 1, sample), photograph(60, 45)
    op = ops.ColorJitter(brightness=0.4, contrast=(0.5, 1.7), saturation=0.8, hue=0.3)
    draws = Draws(key, 1)
    order = draws.permutation(4)
    factors = [draws.uniform(*span) for span in ((0.6, 1.4), (0.5, 1.7), (0.2, 1.8), (-0.3, 0.3))]
    steps = (
        functional.adjust_brightness,
        functional.adjust_contrast,
        functional.adjust_saturation,
        functional.adjust_hue,
    )
    theirs = image
    for number in order:
        theirs = steps[number](theirs, factors[number])
    ours = run([ops.DecodeImage(), op], encoded(image, "PNG"), key)
    assert np.array_equal(ours, np.asarray(theirs))


def test_a_jitter_that_names_no_span_changes_nothing() -> None:
    image = photograph(30, 20)
    ours = run([ops.DecodeImage(), ops.ColorJitter()], encoded(image, "PNG"))
    assert np.array_equal(ours, np.asarray(image))


def test_to_float_and_normalize_are_torchvisions_to_the_last_bit() -> None:
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    levels = np.arange(256, dtype=np.uint8).repeat(3).reshape(16, 16, 3)
    image = Image.fromarray(levels)
    both = transforms.Compose([transforms.ToTensor(), transforms.Normalize(mean, std)])
    ours = run([ops.DecodeImage(), ops.ToFloat()], encoded(image, "PNG"))
    assert ours.tobytes() == transforms.ToTensor()(image).numpy().tobytes()
    ours = run([ops.DecodeImage(), ops.ToFloat(), ops.Normalize(mean, std)], encoded(image, "PNG"))
    assert ours.tobytes() == both(image).numpy().tobytes()


def test_the_usual_evaluation_chain_is_torchvisions() -> None:
    image = photograph(500, 333)
    chain = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224)])
    ours = run([ops.DecodeImage(), ops.Resize(256), ops.CenterCrop(224)], encoded(image, "PNG"))
    assert np.array_equal(ours, np.asarray(chain(image)))


def test_an_unscaled_jpeg_is_decoded_exactly() -> None:
    file = encoded(photograph(900, 700), "JPEG", quality=90)
    ours = run([ops.DecodeImage(scaled=False), ops.Resize(100)], file)
    theirs = transforms.Resize(100)(Image.open(BytesIO(file)).convert("RGB"))
    assert np.array_equal(ours, np.asarray(theirs))


@pytest.mark.parametrize("scale", [2, 4, 8])
@pytest.mark.parametrize("subsampling", [0, 2])
def test_a_scaled_jpeg_stays_within_two_levels_of_the_exact_result(
    scale: int, subsampling: int
) -> None:
    """Measured mean absolute error on photographs: 0.4 to 1.6 of 255 levels."""
    worst = 0.0
    for name in ("astronaut", "coffee", "rocket"):
        image = Image.fromarray(getattr(data, name)()).resize((1203, 905), Image.Resampling.LANCZOS)
        file = encoded(image, "JPEG", quality=92, subsampling=subsampling)
        for sample in range(4):
            key = SampleKey(1, 0, sample)
            crop = ops.RandomResizedCrop(1203 // (3 * scale), scale=(0.5, 1.0))
            fast = run([ops.DecodeImage(), crop], file, key).astype(int)
            exact = run([ops.DecodeImage(scaled=False), crop], file, key).astype(int)
            worst = max(worst, float(np.abs(fast - exact).mean()))
    assert 0 < worst < 2.0


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("kind", ["JPEG", "MPO"])
def test_scaling_works_for_every_kind_of_jpeg(mode: str, kind: str) -> None:
    file = encoded(photograph(905, 603).convert(mode), kind, quality=95)
    fast = run([ops.DecodeImage(), ops.Resize(100)], file).astype(int)
    exact = run([ops.DecodeImage(scaled=False), ops.Resize(100)], file).astype(int)
    assert 0 < np.abs(fast - exact).mean() < 2.0


def test_a_scaled_jpeg_is_turned_upright_before_it_is_cropped() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    file = encoded(photograph(900, 600), "JPEG", exif=exif)
    chain = [ops.Resize(100), ops.CenterCrop((120, 80))]
    fast = run([ops.DecodeImage(orientation="apply"), *chain], file).astype(int)
    exact = run([ops.DecodeImage(orientation="apply", scaled=False), *chain], file).astype(int)
    assert fast.shape == (120, 80, 3)
    assert np.abs(fast - exact).mean() < 2.0


def test_all_frames_of_a_clip_get_the_same_change() -> None:
    image = photograph(40, 30)
    clip = Pictures((image, image, image), clip=True)
    changed = ops.ColorJitter(0.5, 0.5, 0.5, 0.2).apply(clip, Draws(KEY, 0)).array()
    assert (changed[0] == changed[1]).all()
    assert (changed[0] == changed[2]).all()
    assert not np.array_equal(changed[0], np.asarray(image))
