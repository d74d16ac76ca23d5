"""A pipeline gives the same bytes however it is cut, wherever it runs."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from importlib.resources import files
from io import BytesIO
from typing import Any

import numpy as np
import pytest
import userops_for_tests
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from skimage import data

from headrace import ops
from headrace.core.digest import record_digest
from headrace.core.draws import SampleKey
from headrace.core.errors import ConfigError, CorruptSampleError
from headrace.core.record import Record
from headrace.transform.pipeline import Pipeline
from headrace.transform.program import Program
from headrace.wire.frames import FrameHeader, pack_fields, record_of

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HERE = "userops_for_tests"


def jpeg(width: int = 400, height: int = 300) -> bytes:
    target = BytesIO()
    Image.fromarray(data.astronaut()).resize((width, height)).save(target, "JPEG")
    return target.getvalue()


CLIP = (files("headrace.transform") / "golden" / "clip.mp4").read_bytes()
RECORDS: dict[str, Record] = {
    "image": {"image": jpeg(), "label": 3, "json": "{}"},
    "video": {"video": CLIP, "key": "clip"},
    "text": {"text": b"hello", "weight": 0.5},
    "both": {"image": jpeg(90, 70), "video": CLIP, "text": "a caption"},
    "other": {"audio": b"RIFF"},
}
EVERYTHING = Pipeline(
    [
        ops.DecodeText(),
        ops.DecodeImage(),
        ops.DecodeVideo(4, "random"),
        ops.RandomResizedCrop(56),
        ops.RandomHorizontalFlip(),
        ops.ColorJitter(0.4, 0.4, 0.4, 0.1),
        ops.UserOp(f"{HERE}:noise", ("image", "video")),
        ops.CenterCrop(48),
        ops.ToFloat(),
        ops.Normalize(MEAN, STD),
    ]
)


def digest_of(kind: str, sample: int) -> str:
    program = Program(EVERYTHING)
    return record_digest(
        program.run(RECORDS[kind], SampleKey(5, 1, sample), stop=program.sample_ops)
    )


@pytest.mark.parametrize("kind", RECORDS)
@pytest.mark.parametrize("sample", range(3))
def test_every_cut_leads_to_the_same_bytes(kind: str, sample: int) -> None:
    program, key = Program(EVERYTHING), SampleKey(5, 1, sample)
    end = program.sample_ops
    whole = digest_of(kind, sample)
    for cut in program.cuts:
        half = program.run(RECORDS[kind], key, stop=cut)
        for second in (cut, *[later for later in program.cuts if later > cut][:2]):
            middle = program.run(half, key, start=cut, stop=second)
            assert record_digest(program.run(middle, key, start=second, stop=end)) == whole


def test_threads_and_processes_give_the_same_bytes() -> None:
    jobs = [(kind, sample) for kind in RECORDS for sample in range(3)]
    alone = [digest_of(*job) for job in jobs]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(digest_of, *zip(*jobs, strict=True))) == alone
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as processes:
        assert list(processes.map(digest_of, *zip(*jobs, strict=True))) == alone


def test_another_epoch_or_seed_gives_other_bytes() -> None:
    program = Program(EVERYTHING)
    keys = [SampleKey(5, 1, 0), SampleKey(5, 2, 0), SampleKey(6, 1, 0), SampleKey(5, 1, 1)]
    digests = {
        record_digest(program.run(RECORDS["image"], key, stop=program.sample_ops)) for key in keys
    }
    assert len(digests) == len(keys)


def test_a_decode_is_never_cut_from_the_crop_behind_it() -> None:
    assert Program(EVERYTHING).cuts == (0, 1, 4, 5, 6, 7, 8, 9, 10)
    apart = Program(Pipeline([ops.DecodeImage(), ops.RandomHorizontalFlip(), ops.Resize(8)]))
    assert apart.cuts == (0, 1, 2, 3)


@pytest.mark.parametrize(("start", "stop"), [(2, 10), (0, 3), (4, 1), (0, 11), (-1, 4)])
def test_a_cut_that_is_not_allowed_is_refused(start: int, stop: int) -> None:
    with pytest.raises(ConfigError, match=r"cut|back"):
        Program(EVERYTHING).run(RECORDS["image"], SampleKey(0, 0, 0), start=start, stop=stop)


def test_other_fields_pass_through_untouched_and_the_record_is_not_changed() -> None:
    record = dict(RECORDS["image"])
    program = Program(EVERYTHING)
    done = program.run(record, SampleKey(0, 0, 0), stop=program.sample_ops)
    assert done["label"] == 3
    assert done["json"] == "{}"
    assert record == RECORDS["image"]


def test_an_array_that_was_given_is_never_written_to() -> None:
    program = Program(EVERYTHING)
    for cut in program.cuts[2:]:
        half = program.run(RECORDS["image"], SampleKey(0, 0, 0), stop=cut)
        half["image"].flags.writeable = False  # type: ignore[union-attr]
        program.run(half, SampleKey(0, 0, 0), start=cut, stop=program.sample_ops)


def test_a_record_without_any_op_s_field_comes_back_as_it_is() -> None:
    program = Program(EVERYTHING)
    done = program.run(RECORDS["other"], SampleKey(0, 0, 0), stop=program.sample_ops)
    assert done == RECORDS["other"]


def test_arrays_that_come_out_are_contiguous_and_the_callers_own() -> None:
    program = Program(EVERYTHING)
    for kind in ("image", "video"):
        for cut in program.cuts[2:]:
            array = program.run(RECORDS[kind], SampleKey(0, 0, 0), stop=cut)[kind]
            assert isinstance(array, np.ndarray)
            assert array.flags.c_contiguous
            assert array.flags.writeable


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 5), st.booleans(), st.booleans(), st.booleans())
def test_the_elementwise_tail_gives_the_same_bytes_on_a_stack(
    count: int, preallocated: bool, cut_inside: bool, apart: bool
) -> None:
    program = Program(EVERYTHING)
    for kind in ("image", "video"):
        start = program.tail_of(["image", "video", "text"]) + cut_inside
        keys = [SampleKey(1, 0, sample) for sample in range(count)]
        halves = [program.run(RECORDS[kind], key, stop=start) for key in keys]
        arrays: Any = [half[kind] for half in halves]
        stack = {kind: arrays if apart else np.stack(arrays), "x": [*np.arange(count)]}
        wholes = [program.run(RECORDS[kind], key, stop=program.sample_ops)[kind] for key in keys]
        out = {kind: np.empty((count, *wholes[0].shape), np.float32)} if preallocated else None  # type: ignore[union-attr]
        done = program.run_stacked(stack, start=start, out=out)
        assert done[kind].tobytes() == np.stack(wholes).tobytes()  # type: ignore[arg-type]
        assert done["x"].tolist() == list(range(count))
        assert out is None or done[kind] is out[kind]


def test_an_empty_stack_stays_empty() -> None:
    program = Program(EVERYTHING)
    stack = np.empty((0, 48, 48, 3), np.uint8)
    assert len(program.run_stacked({"image": stack}, start=8)["image"]) == 0


def test_the_tail_of_a_record_ignores_ops_on_other_fields() -> None:
    program = Program(Pipeline([ops.DecodeImage(), ops.Resize(8), ops.ToFloat(), ops.DecodeText()]))
    assert program.tail_of(["image", "text"]) == 4
    assert program.tail_of(["image", "label"]) == 2
    assert program.tail_of(["text"]) == 4
    with pytest.raises(ConfigError, match="one by one"):
        program.run_stacked({"image": np.zeros((1, 8, 8, 3), np.uint8)}, start=0)


def test_a_corrupt_sample_names_sample_field_and_op() -> None:
    program = Program(EVERYTHING)
    with pytest.raises(CorruptSampleError, match=r"sample 9, field 'image', op 1 \(decode_image\)"):
        program.run({"image": jpeg()[:2000]}, SampleKey(0, 0, 9), stop=program.sample_ops)


@pytest.mark.parametrize(
    ("op_list", "said"),
    [
        ([ops.Resize(8)], "put an op that decodes 'image'"),
        ([ops.DecodeImage(), ops.DecodeImage()], "decode each field once"),
        ([ops.DecodeImage(), ops.ToFloat(), ops.Resize(8)], "behind them"),
        ([ops.DecodeImage(), ops.Normalize(MEAN, STD)], "put to_float before"),
        ([ops.DecodeImage(), ops.ToFloat(), ops.ToFloat()], "to_float takes uint8"),
        ([ops.DecodeImage(), ops.ToFloat(), ops.Normalize((0.0,), (1.0,))], "normalize takes"),
    ],
)
def test_ops_in_an_impossible_order_say_what_to_move(op_list: list[object], said: str) -> None:
    program = Program(Pipeline(op_list))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=said):
        program.run({"image": jpeg()}, SampleKey(0, 0, 0), stop=program.sample_ops)


def user(name: str, **params: object) -> Program:
    op = ops.UserOp(f"{HERE}:{name}", ("image",), params)
    return Program(Pipeline([ops.DecodeImage(), op]))


def test_a_users_op_gets_value_draws_and_parameters() -> None:
    plain = Program(Pipeline([ops.DecodeImage()])).run(
        {"image": jpeg()}, SampleKey(0, 0, 0), stop=1
    )
    done = user("darken", by=4).run({"image": jpeg()}, SampleKey(0, 0, 0), stop=2)
    assert np.array_equal(done["image"], plain["image"] // np.uint8(4))  # type: ignore[operator, arg-type]


def test_only_value_error_makes_a_sample_corrupt_for_a_users_op() -> None:
    def run(name: str) -> Record:
        return user(name).run({"image": jpeg()}, SampleKey(0, 0, 0), stop=2)

    with pytest.raises(CorruptSampleError, match="too dark"):
        run("refuse")
    with pytest.raises(ConfigError, match="failed with KeyError"):
        run("break_down")
    with pytest.raises(MemoryError):
        run("starve")
    with pytest.raises(ConfigError, match="returned object"):
        run("give_object")


@pytest.mark.parametrize(
    "value",
    [
        True,
        np.float64(0.5),
        np.str_("a"),
        np.ones((2, 3), ">f4")[:, ::-1],
        np.float16(np.eye(2)).view(np.matrix),
    ],
)
def test_what_a_users_op_returns_does_not_show_whether_it_travelled(value: object) -> None:
    userops_for_tests.GIVEN.append(value)
    record = user("give").run({"image": jpeg()}, SampleKey(0, 0, 0), stop=2)
    fields, payload = pack_fields(record)
    buffers = [memoryview(part).cast("B") for part in payload]
    travelled = record_of(FrameHeader(kind="tensor", fields=fields), buffers)
    assert type(travelled["image"]) is type(record["image"])
    assert record_digest(travelled) == record_digest(record)


@pytest.mark.parametrize("value", [1 << 63, np.zeros(2, [("a", "i4")]), np.array([object()])])
def test_what_cannot_travel_is_refused_wherever_it_is_made(value: object) -> None:
    userops_for_tests.GIVEN.append(value)
    with pytest.raises(ConfigError, match="returned an"):
        user("give").run({"image": jpeg()}, SampleKey(0, 0, 0), stop=2)


def test_an_array_that_a_users_op_keeps_is_never_written_to() -> None:
    op = ops.UserOp(f"{HERE}:give_kept", ("image",))
    program = Program(Pipeline([ops.DecodeImage(), op, ops.Normalize((0.5, 0.5), (2.0, 2.0))]))
    program.run({"image": jpeg()}, SampleKey(0, 0, 0), stop=3)
    assert (userops_for_tests.KEPT == 1).all()


@pytest.mark.parametrize("path", [f"{HERE}:missing", "no_such_module:f", f"{HERE}:NOT_A_FUNCTION"])
def test_a_users_op_that_cannot_be_imported_is_noticed_at_once(path: str) -> None:
    with pytest.raises(ConfigError, match="user op"):
        Program(Pipeline([ops.UserOp(path, ("image",))]))
