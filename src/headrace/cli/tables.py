"""Numbers, histograms and JSON as the verbs print them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from headrace.core.errors import CallerError

_BARS = " ▁▂▃▄▅▆▇█"


def bytes_text(size: float) -> str:
    """Return a size with three digits and its unit: ``3.21 MB``."""
    return _scaled(size, (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)))


def seconds_text(seconds: float) -> str:
    """Return a time with three digits and its unit: ``5.42 ms``."""
    return _scaled(seconds, (("h", 3600.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)))


def bars(counts: Sequence[int]) -> str:
    """Return a histogram of block characters; whatever is not zero can be seen."""
    top = max(counts, default=0)
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // top) if count else 0] for count in counts)


def write_json(target: str, value: Any) -> None:
    """Write a value as indented JSON to a file; ``-`` is standard output.

    Raises:
        CallerError: the file cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        Path(target).write_text(text)
    except OSError as error:
        raise CallerError(f"cannot write {target}: {error.strerror}; name another file") from error


def _scaled(value: float, units: Sequence[tuple[str, float]]) -> str:
    unit, factor = next((u for u in units if abs(value) >= u[1]), units[-1])
    return (
        f"{value / factor:.3g} {unit}"
        if abs(value) < 1000 * factor
        else f"{value / factor:.0f} {unit}"
    )
