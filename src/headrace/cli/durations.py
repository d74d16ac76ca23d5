"""Durations as people write them: ``20ms``, ``90s``, ``15m``, ``2h``, ``1d``."""

from __future__ import annotations

import re
from typing import Any

import click

_SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_FORM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|[smhd]?)\s*")


class Duration(click.ParamType[float]):
    """A time span, with a unit or in seconds."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the duration in seconds."""
        match = _FORM.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is no duration; write 90s, 15m, 2h or 1d", param, ctx)
        return float(match.group(1)) * _SECONDS[match.group(2)]
