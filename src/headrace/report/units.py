"""Numbers as people write them."""

from __future__ import annotations

import math

_BYTES = ("B", "kB", "MB", "GB", "TB", "PB")


def seconds(value: float) -> str:
    """Return a duration with three significant digits: ``3.50 h``, ``1.24 s``, ``18.3 ms``."""
    if math.isnan(value):
        return "–"
    rounded = _rounded(value)
    if rounded >= 3600:
        return f"{significant(value / 3600)} h"
    if rounded >= 1 or value == 0:
        return f"{significant(value)} s"
    if rounded >= 1e-3:
        return f"{significant(value * 1e3)} ms"
    return f"{significant(value * 1e6)} µs"


def round_seconds(value: float) -> str:
    """Return a round duration for an axis: ``1 s``, ``10 ms``, ``100 µs``."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:g} {unit}"
    return f"{value * 1e6:g} µs"


def bytes_(value: float) -> str:
    """Return a size in decimal units: ``178 MB``."""
    for unit in _BYTES:
        if _rounded(value) < 1000 or unit == _BYTES[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{significant(value)} {unit}"
        value /= 1000
    raise AssertionError("unreachable")


def round_bytes(value: float) -> str:
    """Return a round size for an axis: ``1 B``, ``10 kB``, ``100 MB``."""
    for unit in _BYTES[:-1]:
        if value < 1000:
            return f"{value:g} {unit}"
        value /= 1000
    return f"{value:g} {_BYTES[-1]}"


def percent(share: float) -> str:
    """Return a share as a percentage, with a decimal when it is small or not quite the whole."""
    if math.isnan(share):
        return "–"
    if 0.995 <= abs(share) < 1:
        return f"{math.copysign(min(100 * abs(share), 99.9), share):.1f} %"
    return f"{100 * share:.1f} %" if abs(share) < 0.1 else f"{100 * share:.0f} %"


def significant(value: float) -> str:
    """Return three significant digits without an exponent."""
    if value == 0 or math.isnan(value):
        return "0" if value == 0 else "–"
    decimals = max(0, 2 - math.floor(math.log10(abs(_rounded(value)))))
    return f"{value:.{decimals}f}"


def _rounded(value: float) -> float:
    """Return a value as it is shown, so that 999.6 kB is 1.00 MB."""
    return float(f"{value:.3g}")


def counted(count: int, noun: str) -> str:
    """Return a count of something whose name takes an s: ``1 rank``, ``1,024 ranks``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def ratio(value: float) -> str:
    """Return a ratio as it is compared with a goal: three decimals below 1, else two."""
    if math.isnan(value):
        return "–"
    if 0 < value < 0.0005:
        return "< 0.001"
    return f"{value:.3f}" if value < 1 else f"{value:.2f}"
