"""The mixer and its keys: fixed for all time, and well spread."""

from __future__ import annotations

import numpy as np

from headrace.core.mixing import key_words, mix64


def test_the_mixer_is_the_published_one() -> None:
    """The first outputs of SplitMix64 with seed 0, as its authors list them."""
    counter = np.arange(3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert [f"{word:016x}" for word in mix64(counter).tolist()] == [
        "e220a8397b1dcdaf",
        "6e789e6aa1b965f4",
        "06c45d188009454f",
    ]


def test_one_flipped_bit_flips_about_half_of_the_bits() -> None:
    values = np.arange(500, dtype=np.uint64)
    for bit in (0, 17, 63):
        changed = mix64(values) ^ mix64(values ^ np.uint64(1 << bit))
        assert 30 < np.bitwise_count(changed).mean() < 34


def test_key_words_depend_on_every_part_and_on_where_parts_end() -> None:
    assert key_words(20, b"ab", b"c").size == 20
    one, other = key_words(4, b"ab", b"c"), key_words(4, b"a", b"bc")
    assert not np.any(one == other)
    assert np.array_equal(key_words(9, b"x")[:4], key_words(4, b"x"))
