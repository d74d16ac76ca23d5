from __future__ import annotations

import click
import pytest

from headrace.cli.sizes import MOST_BYTES, ByteSize


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2GiB", 2 << 30), ("500MB", 500_000_000), ("1.5k", 1536), ("77", 77), ("3 mib", 3 << 20)],
)
def test_sizes_are_read_as_people_write_them(text: str, expected: int) -> None:
    assert ByteSize().convert(text, None, None) == expected


@pytest.mark.parametrize("text", ["", "two", "-3MB", "3XB", "1e9"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="2GiB"):
        ByteSize().convert(text, None, None)


@pytest.mark.parametrize("text", [f"{MOST_BYTES + 4096}", "99999999TB", "9" * 400])
def test_a_size_that_nothing_has_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="more than any machine has"):
        ByteSize().convert(text, None, None)
