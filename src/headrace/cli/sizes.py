"""Sizes as people write them: ``2GiB``, ``500MB``, ``1048576``."""

from __future__ import annotations

import re
from typing import Any

import click

_UNITS = {"": 1, "B": 1} | {
    f"{letter}{suffix}": base**power
    for power, letter in enumerate("KMGT", start=1)
    for suffix, base in (("", 1024), ("iB", 1024), ("B", 1000))
}
MOST_BYTES = 1 << 60
"""Largest size that is taken for meant; what the system counts in 64 bits has room beyond it."""

_FORM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


class ByteSize(click.ParamType[int]):
    """A number of bytes, with a unit or without."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the size in bytes."""
        match = _FORM.fullmatch(str(value))
        units = {unit.upper(): factor for unit, factor in _UNITS.items()}
        if match is None or match.group(2).upper() not in units:
            self.fail(
                f"{value!r} is not a size; write 2GiB, 500MB or a number of bytes", param, ctx
            )
        size: float = float(match.group(1)) * units[match.group(2).upper()]
        if size > MOST_BYTES:
            self.fail(f"{value!r} is more than any machine has", param, ctx)
        return round(size)
