"""Histograms as the verbs print them."""

from __future__ import annotations

from collections.abc import Sequence

_BARS = " ▁▂▃▄▅▆▇█"


def bars(counts: Sequence[int]) -> str:
    """Return a histogram of block characters; whatever is not zero can be seen."""
    top = max(counts, default=0)
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // top) if count else 0] for count in counts)
