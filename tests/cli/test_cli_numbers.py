from __future__ import annotations

import click
import pytest

from headrace.cli.numbers import FiniteRange


@pytest.mark.parametrize("text", ["nan", "inf", "1e999"])
def test_what_nothing_can_be_compared_with_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="not finite"):
        FiniteRange(min=0).convert(text, None, None)


def test_bounds_are_those_of_click() -> None:
    assert FiniteRange(min=0).convert("2.5", None, None) == 2.5
    with pytest.raises(click.BadParameter, match="range"):
        FiniteRange(min=0).convert("-1", None, None)
