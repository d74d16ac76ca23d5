"""An op on a field acts on each of several values of it, with draws of its own for each."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from skimage import data

from headrace import ops
from headrace.core.digest import record_digest
from headrace.core.draws import Draws, SampleKey
from headrace.core.errors import CorruptSampleError
from headrace.core.numbered import is_numbered, shared_name
from headrace.core.record import Record
from headrace.transform.explain import explain, measured
from headrace.transform.fingerprint import compatible, fingerprint
from headrace.transform.op import Op
from headrace.transform.pipeline import Pipeline
from headrace.transform.program import Program
from headrace.transform.split import KindProfile, estimate
from headrace.wire.frames import FrameHeader, pack_fields, record_of

KEY = SampleKey(7, 2, 11)


def jpeg(width: int, height: int) -> bytes:
    target = BytesIO()
    Image.fromarray(data.astronaut()).resize((width, height)).save(target, "JPEG")
    return target.getvalue()


PICTURE = jpeg(90, 70)
DOCUMENT: Record = {
    "image.0": PICTURE,
    "image.1": PICTURE,
    "image.2": jpeg(64, 100),
    "text": "<image>one<image>two<image>",
}
RANDOM = (
    ops.DecodeImage(),
    ops.RandomResizedCrop(32),
    ops.RandomHorizontalFlip(),
    ops.ColorJitter(0.4, 0.4, 0.4, 0.1),
    ops.ToFloat(),
    ops.Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2)),
)


def made(record: Record, *chain: Op) -> Record:
    program = Program(Pipeline(chain))
    return program.run(record, KEY, stop=program.sample_ops)


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("image.0", "image"),
        ("image.17", "image"),
        ("a.b.3", "a.b"),
        ("image", "image"),
        ("image.01", "image.01"),
        ("image.x", "image.x"),
        (".3", ".3"),
        ("image.", "image."),
    ],
)
def test_only_a_whole_number_behind_a_dot_counts(field: str, name: str) -> None:
    assert shared_name(field) == name
    assert is_numbered(field) == (field != name)


def test_each_picture_of_a_document_is_transformed_with_draws_of_its_own() -> None:
    record = made(DOCUMENT, *RANDOM)
    assert [np.shape(record[f"image.{number}"]) for number in range(3)] == [(3, 32, 32)] * 3
    assert not np.array_equal(record["image.0"], record["image.1"])
    assert record["text"] == DOCUMENT["text"]


def test_the_first_of_several_is_made_as_an_only_one() -> None:
    alone, several = made({"image": PICTURE}, *RANDOM), made(DOCUMENT, *RANDOM)
    np.testing.assert_array_equal(alone["image"], several["image.0"])
    assert Draws(KEY, 3).word() == Draws(KEY, 3, 0).word() != Draws(KEY, 3, 1).word()


def test_draws_of_numbers_and_of_positions_never_meet() -> None:
    words = {Draws(KEY, position, number).word() for position in range(16) for number in range(16)}
    assert len(words) == 256


def test_a_document_is_the_same_however_it_is_cut_and_sent() -> None:
    program = Program(Pipeline(RANDOM))
    whole = record_digest(program.run(DOCUMENT, KEY, stop=program.sample_ops))
    for cut in program.cuts:
        fields, payload = pack_fields(program.run(DOCUMENT, KEY, stop=cut))
        header = FrameHeader(kind="tensor", sample=11, epoch=2, cut=cut, fields=fields)
        sent = record_of(header, payload)
        assert record_digest(program.run(sent, KEY, start=cut, stop=program.sample_ops)) == whole


def test_one_broken_picture_makes_the_document_broken_and_is_named() -> None:
    with pytest.raises(CorruptSampleError, match=r"field 'image\.1', op 0 \(decode_image\)"):
        made({**DOCUMENT, "image.1": PICTURE[:100]}, *RANDOM)


def test_an_op_may_act_on_one_of_several_alone() -> None:
    flip = ops.RandomHorizontalFlip(1.0, fields=("image.1",))
    plain, flipped = made(DOCUMENT, ops.DecodeImage()), made(DOCUMENT, ops.DecodeImage(), flip)
    np.testing.assert_array_equal(plain["image.0"], flipped["image.0"])
    np.testing.assert_array_equal(np.asarray(plain["image.1"])[:, ::-1], flipped["image.1"])


def test_an_op_that_names_a_field_twice_acts_once() -> None:
    flip = ops.RandomHorizontalFlip(1.0, fields=("image", "image.1"))
    plain, flipped = made(DOCUMENT, ops.DecodeImage()), made(DOCUMENT, ops.DecodeImage(), flip)
    np.testing.assert_array_equal(np.asarray(plain["image.1"])[:, ::-1], flipped["image.1"])


def test_a_crop_of_one_picture_alone_keeps_its_place_between_decode_and_resize() -> None:
    """The decoder may not take the resize in, although it is the next on the others."""
    chain = (ops.DecodeImage(), ops.CenterCrop(40, fields=("image.1",)), ops.Resize((8, 8)))
    record = made(DOCUMENT, *chain)
    cropped = made({"image": PICTURE}, ops.DecodeImage(), ops.CenterCrop(40), ops.Resize((8, 8)))
    np.testing.assert_array_equal(record["image.1"], cropped["image"])


def test_results_in_another_field_keep_their_numbers() -> None:
    op = ops.Tokenize('{"version":"1.0"}', into="tokens")
    assert [op.result_of(field) for field in ("text", "text.4")] == ["tokens", "tokens.4"]


def test_a_document_is_explained_by_all_of_its_pictures() -> None:
    program = Program(Pipeline((ops.DecodeImage(), ops.ToFloat())))
    (estimate,) = explain(program, [KindProfile(kind="image", nbytes=1000, width=90, height=70)])
    (row, _) = measured(program, estimate, [DOCUMENT]).rows
    assert row.cpu_s > 0
    assert row.bytes_out == 3 * (90 * 70 * 2 + 64 * 100) + len(str(DOCUMENT["text"]))


def test_a_document_is_planned_with_the_costs_and_bytes_of_all_of_its_pictures() -> None:
    program = Program(Pipeline((ops.DecodeImage(), ops.ToFloat())))
    one = KindProfile(kind="image", nbytes=1000, width=90, height=70)
    three = KindProfile(kind="image", nbytes=3000, width=90, height=70, values=3)
    for single, several in zip(estimate(program, one), estimate(program, three), strict=True):
        assert several.cpu_s == pytest.approx(3 * single.cpu_s)
        assert several.bytes_before == pytest.approx(3 * single.bytes_before)
        assert several.bytes_after == pytest.approx(3 * single.bytes_after)


def test_hosts_that_do_not_agree_on_second_pictures_are_told_apart() -> None:
    ours = fingerprint(Program(Pipeline(RANDOM)))
    theirs = fingerprint(Program(Pipeline(RANDOM)))
    assert compatible(ours, theirs) is None
    theirs.golden["second photo.jpg#0"] = ours.golden["photo.jpg#0"]
    assert "second photo.jpg" in str(compatible(ours, theirs))
