"""Parsed tables become typed values; a key that is not known and an infinite number do not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from headrace.core.errors import ConfigError
from headrace.core.strict import convert


@dataclass(frozen=True, kw_only=True, slots=True)
class Inner:
    rate: float = 1.0

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ConfigError(f"rate={self.rate:g} must not be negative")


@dataclass(frozen=True, kw_only=True, slots=True)
class Middle:
    name: str
    inner: Inner = field(default_factory=Inner)


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    middle: Middle | None = None
    many: dict[str, Inner] = {}
    rows: list[Inner] = []
    between: tuple[float, float] = (0.0, 1.0)


def test_dataclasses_in_structures_are_filled() -> None:
    found = convert({"middle": {"name": "a", "inner": {"rate": 2}}}, Outer, source="x.toml")
    assert found == Outer(middle=Middle(name="a", inner=Inner(rate=2.0)))


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"midle": {}}, "x.toml: unknown key 'midle'; did you mean 'middle'?"),
        ({"middle": {"name": "a", "inner": {"rat": 1}}}, "x.toml: middle.inner: unknown key 'rat'"),
        ({"many": {"b": {"rat": 1}}}, "x.toml: many.b: unknown key 'rat'"),
        ({"rows": [{}, {"rat": 1}]}, "x.toml: rows.1: unknown key 'rat'"),
        ({"middle": {}}, "x.toml: Object missing required field `name`"),
        ({"middle": 5}, "x.toml: Expected `object | null`, got `int`"),
        ({"rows": [{"rate": -1}]}, "x.toml: rate=-1 must not be negative"),
        ({"rows": [{"rate": float("nan")}]}, "x.toml: rows.0.rate: nan is no number"),
        ({"between": [0.0, float("inf")]}, "x.toml: between.1: inf is no number"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(document: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        convert(document, Outer, source="x.toml")
    assert str(refused.value).startswith(said)
