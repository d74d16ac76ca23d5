"""Text: decoded, tokenized alike everywhere, packed without losing a token."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from headrace import ops
from headrace.core.draws import Draws, SampleKey
from headrace.core.errors import ConfigError, CorruptSampleError, NotFoundError
from headrace.transform.pipeline import Pipeline
from headrace.transform.program import Program

DRAWS = Draws(SampleKey(0, 0, 0), 0)
KEY = SampleKey(0, 0, 0)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    words = ["[UNK]", "[BOS]", "head", "race", "feeds", "the", "loop"]
    made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, "[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[BOS] $A", special_tokens=[("[BOS]", 1)]
    )
    made.enable_truncation(3)
    made.enable_padding(length=64)
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    return path


def test_text_is_decoded_in_the_named_encoding() -> None:
    assert ops.DecodeText("latin-1").apply("é".encode("latin-1"), DRAWS) == "é"
    assert ops.DecodeText().apply("already text", DRAWS) == "already text"


def test_undecodable_bytes_are_corrupt_unless_replaced() -> None:
    with pytest.raises(CorruptSampleError, match="at byte 2"):
        ops.DecodeText().apply(b"ab\xff", DRAWS)
    assert ops.DecodeText(errors="replace").apply(b"ab\xff", DRAWS) == "ab\ufffd"


def test_tokens_replace_the_text(tokenizer: Path) -> None:
    program = Program(Pipeline([ops.DecodeText(), ops.Tokenize.from_file(tokenizer)]))
    done = program.run({"text": b"head race feeds the loop", "label": 1}, KEY, stop=2)
    assert sorted(done) == ["label", "tokens"]
    tokens = done["tokens"]
    assert isinstance(tokens, np.ndarray)
    assert tokens.dtype == np.int32
    assert tokens.tolist() == [1, 2, 3, 4, 5, 6]


def test_length_and_special_tokens_are_the_ops_choice_not_the_files(tokenizer: Path) -> None:
    op = ops.Tokenize.from_file(tokenizer, special_tokens=False, max_tokens=4)
    assert op.apply("head race feeds the loop", DRAWS).tolist() == [2, 3, 4, 5]  # type: ignore[union-attr]
    assert op.apply("", DRAWS).tolist() == []  # type: ignore[union-attr]


def test_the_tokenizer_travels_inside_the_pipeline(tokenizer: Path) -> None:
    pipeline = Pipeline([ops.Tokenize.from_file(tokenizer)])
    text = pipeline.to_json()
    tokenizer.unlink()
    again = Pipeline.from_json(text)
    assert again.digest == pipeline.digest
    done = Program(again).run({"text": "the loop"}, KEY, stop=1)
    assert done["tokens"].tolist() == [1, 5, 6]  # type: ignore[union-attr]
    assert str(tokenizer) not in text
    assert len(repr(again)) < 300


def test_what_is_wrong_with_a_tokenizer_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"absent\.json"):
        ops.Tokenize.from_file(tmp_path / "absent.json")
    with pytest.raises(ConfigError, match=r"not a tokenizer\.json"):
        ops.Tokenize('{"a": 1}').apply("x", DRAWS)
    with pytest.raises(ConfigError, match="decode_text before"):
        ops.Tokenize('{"a": 1}').apply(b"x", DRAWS)


texts = st.lists(
    st.lists(st.integers(1, 50_000), max_size=40).map(lambda ids: np.array(ids, np.int32)),
    min_size=1,
    max_size=12,
)


@settings(deadline=None)
@given(texts, st.integers(1, 17), st.sampled_from([None, 0]))
def test_packing_loses_no_token_and_keeps_the_order(
    batch: list[np.ndarray], length: int, eos: int | None
) -> None:
    packed = ops.Pack(length, eos=eos, pad=-1).join({"tokens": list(batch), "label": [1]})
    tokens, segments, positions = (
        np.asarray(packed[name]) for name in ("tokens", "segments", "positions")
    )
    assert tokens.shape == segments.shape == positions.shape
    assert tokens.shape[1] == length
    assert tokens.dtype == segments.dtype == positions.dtype == np.int32
    for number, text in enumerate(batch, start=1):
        mine = segments.reshape(-1) == number
        expected = text.tolist() + ([] if eos is None else [eos])
        assert tokens.reshape(-1)[mine].tolist() == expected
        assert positions.reshape(-1)[mine].tolist() == list(range(len(expected)))
    padding = segments.reshape(-1) == 0
    assert (tokens.reshape(-1)[padding] == -1).all()
    assert padding.sum() < length or tokens.shape[0] == 1
    assert packed["label"] == [1]


def test_a_batch_op_runs_on_columns_after_the_ops_on_samples(tokenizer: Path) -> None:
    program = Program(Pipeline([ops.Tokenize.from_file(tokenizer), ops.Pack(4, eos=9)]))
    assert program.sample_ops == 1
    assert program.cuts == (0, 1)
    rows = [program.run({"text": text}, KEY, stop=1)["tokens"] for text in ("the loop", "head")]
    packed, _ = program.run_batch({"tokens": rows}, {})  # type: ignore[dict-item]
    assert np.asarray(packed["tokens"]).tolist() == [[1, 5, 6, 9], [1, 2, 9, 0]]
    assert np.asarray(packed["segments"]).tolist() == [[1, 1, 1, 1], [2, 2, 2, 0]]


def test_a_batch_without_tokens_is_left_alone() -> None:
    program = Program(Pipeline([ops.Pack(4)]))
    assert program.run_batch({"label": [1, 2]}, {}) == ({"label": [1, 2]}, {})


def test_packing_something_else_than_tokens_is_refused() -> None:
    with pytest.raises(ConfigError, match="makes arrays of it"):
        ops.Pack(4).join({"tokens": ["text"]})
