"""Pipelines round-trip through JSON, have one name, and refuse what they do not know."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace.ops
from headrace import ops
from headrace.core.errors import ConfigError
from headrace.transform import ops as transform_ops
from headrace.transform.pipeline import TRANSFORM_VERSION, Pipeline

sizes = st.integers(1, 500) | st.tuples(st.integers(1, 500), st.integers(1, 500))
shares = st.floats(0.01, 1)
op_lists = st.lists(
    st.one_of(
        st.builds(ops.DecodeImage, orientation=st.sampled_from(["ignore", "apply"])),
        st.builds(ops.DecodeVideo, st.integers(1, 64), sampling=st.sampled_from(["random"])),
        st.builds(ops.Resize, sizes, st.sampled_from(["nearest", "bilinear", "lanczos"])),
        st.builds(ops.CenterCrop, sizes),
        st.builds(ops.RandomResizedCrop, sizes, st.tuples(shares, shares).map(sorted).map(tuple)),
        st.builds(ops.RandomHorizontalFlip, shares),
        st.builds(ops.ColorJitter, shares, shares, st.tuples(shares, st.just(1.5)), st.just(0.1)),
        st.just(ops.ToFloat()),
        st.builds(ops.Normalize, st.just((0.5, 0.4, 0.3)), st.tuples(shares, shares, shares)),
        st.builds(ops.DecodeText, errors=st.sampled_from(["strict", "replace"])),
        st.builds(ops.UserOp, st.just("a.b:c"), st.just(("x",)), st.just({"k": [1, "z", None]})),
    ),
    max_size=8,
)


@given(op_lists)
def test_a_pipeline_survives_json(op_list: list[object]) -> None:
    pipeline = Pipeline(op_list)  # type: ignore[arg-type]
    again = Pipeline.from_json(pipeline.to_json(), allowed=("a.b:c",))
    assert again == pipeline
    assert again.to_json() == pipeline.to_json()
    assert again.digest == pipeline.digest


def test_the_same_parameters_in_other_words_have_the_same_name() -> None:
    shortly = Pipeline.from_json('[{"op": "resize", "size": 32}, {"op": "random_horizontal_flip"}]')
    fully = Pipeline([ops.Resize(32), ops.RandomHorizontalFlip(p=0.5)])
    whole_number = Pipeline([ops.RandomHorizontalFlip(1)])
    assert shortly.digest == fully.digest
    assert whole_number.digest == Pipeline([ops.RandomHorizontalFlip(1.0)]).digest
    assert fully.digest != Pipeline([ops.Resize(33), ops.RandomHorizontalFlip()]).digest


def test_the_canonical_json_is_pinned_because_it_names_jobs() -> None:
    text = Pipeline([ops.CenterCrop((3, 4))]).to_json()
    assert text == (
        '{"ops":[{"fields":["image","video"],"op":"center_crop","size":[3,4]}],"version":1}'
    )
    assert TRANSFORM_VERSION == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"op": "decode_imge"}]', "did you mean 'decode_image'"),
        ('[{"op": "zzz"}]', "known are"),
        ('[{"op": "resize", "sise": 3}]', "did you mean 'size'"),
        ('[{"op": "resize"}]', "size"),
        ('[{"op": "resize", "size": "big"}]', "resize"),
        ('[{"op": "resize", "size": 0}]', "at least 1"),
        ('[{"op": "random_resized_crop", "size": 8, "scale": [1, 0.5]}]', "smallest, largest"),
        ('[{"op": "random_horizontal_flip", "p": 1.5}]', r"\[0, 1\]"),
        ('[{"op": "color_jitter", "hue": 0.7}]', "hue"),
        ('[{"op": "color_jitter", "brightness": -0.1}]', "brightness"),
        ('[{"op": "normalize", "mean": [0], "std": [1, 1]}]', "channels"),
        ('[{"op": "normalize", "mean": [0], "std": [0]}]', "above 0"),
        ('[{"op": "decode_text", "encoding": "utf-88"}]', "utf-88"),
        ('[{"op": "tokenize", "tokenizer": "no json"}]', "from_file"),
        ('[{"op": "pack", "length": 0}]', "length"),
        ('[{"op": "user", "path": "os.system", "fields": ["x"]}]', "package.module:function"),
        ('[{"op": "pack", "length": 8}, {"op": "decode_text"}]', "follows pack"),
        ("[3]", "op 0"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('"x"', "JSON object"),
        ('{"ops": [], "extra": 1}', "unknown key 'extra'"),
        ('{"ops": [], "version": 99}', "version 99"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Pipeline.from_json(text)


def test_something_that_is_no_op_is_refused() -> None:
    with pytest.raises(ConfigError, match="made of a list of ops"):
        Pipeline(None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"headrace\.ops"):
        Pipeline([lambda image: image])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("path", "allowed", "passes"),
    [
        ("pkg.mod:f", (), False),
        ("pkg.mod:f", ("pkg.mod:f",), True),
        ("pkg.mod:f", ("pkg.mod:*",), True),
        ("pkg.module:f", ("pkg.mod:*",), False),
        ("pkg.mod.sub:f", ("pkg.mod:*",), False),
        ("os:system", ("pkg.mod:*",), False),
    ],
)
def test_user_ops_from_elsewhere_must_be_allowed(
    path: str, allowed: tuple[str, ...], passes: bool
) -> None:
    text = Pipeline([ops.UserOp(path, ("image",))]).to_json()
    if passes:
        assert Pipeline.from_json(text, allowed=allowed).ops[0].path == path  # type: ignore[attr-defined]
    else:
        with pytest.raises(ConfigError, match="not allowed"):
            Pipeline.from_json(text, allowed=allowed)


def test_a_pipeline_from_elsewhere_imports_nothing_by_being_read() -> None:
    text = json.dumps([{"op": "user", "path": "this:c", "fields": ["x"]}])
    import sys

    Pipeline.from_json(text, allowed=("*",))
    assert "this" not in sys.modules


def test_the_public_names_are_the_ops() -> None:
    assert headrace.ops.__all__ == transform_ops.__all__
    assert sorted(ops.__all__) == [
        "CenterCrop",
        "ColorJitter",
        "DecodeAudio",
        "DecodeImage",
        "DecodeText",
        "DecodeVideo",
        "LogMel",
        "Normalize",
        "Pack",
        "Pad",
        "Ragged",
        "RandomHorizontalFlip",
        "RandomResizedCrop",
        "Resize",
        "Segments",
        "ToFloat",
        "Tokenize",
        "Truncate",
        "UserOp",
    ]


@pytest.mark.parametrize("size", [1.5, float("nan"), "32", None, True, (1,), (1, 2, 3), (8, 1.5)])
def test_a_size_that_is_no_whole_number_is_refused_where_it_is_written(size: object) -> None:
    for make in (ops.Resize, ops.CenterCrop, ops.RandomResizedCrop):
        with pytest.raises(ConfigError, match="whole number"):
            make(size)  # type: ignore[operator]
