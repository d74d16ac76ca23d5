"""Bandwidths as people write them: ``10Gbit``, ``500MB``, ``1.25e9``."""

from __future__ import annotations

import re
from typing import Any

import click

_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_UNITS = {"": 1.0, "b": 1.0, "bit": 0.125}
_FORM = re.compile(r"\s*(\d+(?:\.\d+)?(?:e\d+)?)\s*([kmgt]?)(bit|b|)(?:/s)?\s*", re.IGNORECASE)


class Bandwidth(click.ParamType[float]):
    """Bytes per second, with a unit or without; ``bit`` for bits."""

    name = "rate"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the bandwidth [B/s]."""
        match = _FORM.fullmatch(str(value))
        if match is None or not float(match.group(1)):
            self.fail(f"{value!r} is no bandwidth; write 10Gbit, 500MB or bytes/s", param, ctx)
        number, factor, unit = match.groups()
        return float(number) * _FACTORS[factor.lower()] * _UNITS[unit.lower()]
