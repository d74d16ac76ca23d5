"""Paths within a store are put together alike everywhere."""

from __future__ import annotations

import pytest

from headrace.core.errors import CallerError
from headrace.storage.paths import folder_of_parts, join


def test_what_lies_in_the_root_has_no_folder_before_it() -> None:
    assert join("", "a/b") == "a/b"
    assert join("x/y", "a/b") == "x/y/a/b"


def test_parts_of_one_folder_are_joined_there() -> None:
    assert folder_of_parts(["/x/y/a", "/x/y/b"]) == "/x/y"


@pytest.mark.parametrize("parts", [[], ["/x/a", "/x/a"], ["/x/a", "/y/a"]])
def test_parts_that_have_no_one_folder_are_refused(parts: list[str]) -> None:
    with pytest.raises(CallerError, match="name each once"):
        folder_of_parts(parts)
