"""Where a pipeline is cut, and what is said about it."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from headrace import ops
from headrace.core.draws import SampleKey
from headrace.core.errors import ConfigError
from headrace.transform.explain import explain, measured
from headrace.transform.pipeline import Pipeline
from headrace.transform.program import Program
from headrace.transform.spec import Array
from headrace.transform.split import KindProfile, Premise, estimate, plan_split

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
USUAL = Program(
    Pipeline(
        [
            ops.DecodeImage(),
            ops.DecodeVideo(8),
            ops.RandomResizedCrop(224),
            ops.RandomHorizontalFlip(),
            ops.DecodeText(),
            ops.ToFloat(),
            ops.Normalize(MEAN, STD),
        ]
    )
)
PHOTO = KindProfile(kind="image", nbytes=110e3, width=640, height=480, samples=7)
CLIP = KindProfile(kind="video", nbytes=2e6, width=1280, height=720, frames=250, gops=5)
TEXT = KindProfile(kind="text", nbytes=4000)
OTHER = KindProfile(kind="other", nbytes=100)


def photograph(width: int, height: int) -> bytes:
    noise = np.random.default_rng(1).integers(0, 255, (height, width, 3), np.uint8)
    target = BytesIO()
    Image.fromarray(noise).save(target, "JPEG")
    return target.getvalue()


def test_storage_decodes_crops_and_flips_and_leaves_the_floats_to_the_trainer() -> None:
    plan = plan_split(USUAL, [PHOTO, CLIP, TEXT, OTHER])
    assert plan.cuts == {"image": 4, "video": 4, "text": 5, "other": 0}


def test_raw_bytes_are_sent_where_storage_is_as_dear_as_the_trainer() -> None:
    busy = Premise(storage_price=1.0)
    assert plan_split(USUAL, [PHOTO, TEXT], busy).cuts == {"image": 0, "text": 0}


def test_raw_bytes_are_sent_over_a_thin_wire_when_pixels_outweigh_the_file() -> None:
    thin = Premise(bandwidth=5e6)
    small_file = KindProfile(kind="image", nbytes=20e3, width=640, height=480)
    assert plan_split(USUAL, [small_file], thin).cuts == {"image": 0}
    large_file = KindProfile(kind="image", nbytes=2e6, width=2048, height=1365)
    assert plan_split(USUAL, [large_file], thin).cuts == {"image": 4}


@given(
    st.floats(1e3, 1e8),
    st.floats(16, 8000),
    st.floats(1e5, 1e11),
    st.floats(0, 2),
)
def test_floats_are_never_shipped_and_every_cut_is_allowed(
    nbytes: float, side: float, bandwidth: float, price: float
) -> None:
    profile = KindProfile(kind="image", nbytes=nbytes, width=side, height=side)
    premise = Premise(bandwidth=bandwidth, storage_price=price)
    cut = plan_split(USUAL, [profile], premise).cuts["image"]
    assert cut in USUAL.cuts
    assert cut <= 5


def test_estimated_shapes_are_the_real_shapes() -> None:
    file = photograph(320, 200)
    profile = KindProfile(kind="image", nbytes=len(file), width=320, height=200)
    for op_list in (
        [ops.DecodeImage(), ops.Resize(100), ops.CenterCrop((60, 90)), ops.ToFloat()],
        [
            ops.DecodeImage(),
            ops.RandomResizedCrop((30, 50)),
            ops.ToFloat(),
            ops.Normalize(MEAN, STD),
        ],
        [ops.DecodeImage(), ops.ColorJitter(0.1), ops.RandomHorizontalFlip()],
    ):
        program = Program(Pipeline(op_list))
        for cut in program.cuts[1:]:
            array = program.run({"image": file}, SampleKey(0, 0, 0), stop=cut)["image"]
            assert isinstance(array, np.ndarray)
            spec = estimate(program, profile)[cut - 1].after
            assert spec == Array(dtype=array.dtype.name, shape=array.shape)


def test_a_scaled_decode_is_estimated_cheaper_than_a_full_one() -> None:
    large = KindProfile(kind="image", nbytes=1e6, width=3000, height=2000, codec="jpeg")
    fast = estimate(Program(Pipeline([ops.DecodeImage(), ops.Resize(224)])), large)
    slow = estimate(Program(Pipeline([ops.DecodeImage(scaled=False), ops.Resize(224)])), large)
    assert 2 * fast[0].cpu_s < slow[0].cpu_s
    assert fast[1].joined
    assert fast[1].cpu_s == 0


def test_explain_says_place_cost_and_bytes_of_each_op() -> None:
    image, text = explain(USUAL, [PHOTO, TEXT])
    assert [row.place for row in image.rows] == [
        "storage",
        "-",
        "storage",
        "storage",
        "-",
        "trainer",
        "trainer",
    ]
    assert image.samples == 7
    assert image.wire_bytes == 224 * 224 * 3
    assert image.rows[-1].bytes_out == 224 * 224 * 3 * 4
    assert image.storage_s > image.trainer_s > 0
    assert text.wire_bytes == 4000


def test_explain_of_a_raw_plan_puts_the_file_on_the_wire() -> None:
    (image,) = explain(USUAL, [PHOTO], Premise(storage_price=1.0))
    assert image.cut == 0
    assert image.wire_bytes == PHOTO.nbytes
    assert image.storage_s == 0


def test_measuring_replaces_estimates_by_real_times_and_sizes() -> None:
    file = photograph(320, 200)
    (estimated,) = explain(USUAL, [PHOTO])
    real = measured(USUAL, estimated, [{"image": file}, {"image": b"broken"}, {"image": file}])
    assert real.measured_on == 2
    assert real.rows[0].bytes_in == len(file)
    assert real.rows[0].bytes_out == 224 * 224 * 3
    assert real.rows[-1].bytes_out == 224 * 224 * 3 * 4
    assert real.rows[0].cpu_s > 0
    assert real.rows[1].cpu_s == 0
    assert measured(USUAL, estimated, [{"image": b"broken"}]) == estimated


def test_batch_ops_are_the_trainers() -> None:
    program = Program(Pipeline([ops.DecodeText(), ops.Pack(8, fields=("text",))]))
    (text,) = explain(program, [TEXT])
    assert text.rows[1].place == "trainer, per batch"


def test_a_premise_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="bandwidth"):
        Premise(bandwidth=0)


@pytest.mark.parametrize(("nbytes", "duration_s"), [(160_000, 10), (5e6, 300), (1.8e6, 10)])
def test_storage_makes_mel_spectrograms_and_the_trainer_pads_them(
    nbytes: float, duration_s: float
) -> None:
    sound = KindProfile(kind="audio", nbytes=nbytes, duration_s=duration_s)
    program = Program(
        Pipeline(
            [
                ops.DecodeAudio(rate=16_000, mono=True, seconds=10.0),
                ops.LogMel(16_000),
                ops.Pad(axis=-1, fields=("mel",)),
            ]
        )
    )
    (explained,) = explain(program, [sound])
    assert [row.place for row in explained.rows] == ["storage", "storage", "trainer, per batch"]
    assert explained.wire_bytes == 80 * 1000 * 4
