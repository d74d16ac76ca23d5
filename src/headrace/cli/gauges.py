"""Shares, rates and levels as the estate's verbs show them."""

from __future__ import annotations

import math

from rich.text import Text

from headrace.report.units import bytes_, seconds
from headrace.wire.estate import JobView

_EIGHTHS = " ▏▎▍▌▋▊▉"

_SILENT_S = 30.0
"""A job not heard of for so long is told as silent: an idle one speaks up every ten seconds."""

STYLES = {"healthy": "green", "tight": "yellow", "danger": "dark_orange", "critical": "red"}
"""Colour of each level of health."""


def gauge(share: float, *, width: int, style: str) -> Text:
    """Return a bar of ``width`` letters; a share that is not zero can be seen."""
    share = min(max(share, 0.0), 1.0)
    eighths = math.ceil(share * width * 8)
    full, rest = divmod(eighths, 8)
    bar = "█" * full + (_EIGHTHS[rest] if rest else "")
    return Text(bar.ljust(width, "·"), style=style)


def amount(nbytes: float) -> str:
    """Return an amount: ``120 MB``; a dash for none."""
    return bytes_(nbytes) if nbytes else "–"


def rate(bytes_per_s: float) -> str:
    """Return a bandwidth: ``120 MB/s``; nothing for none."""
    return f"{bytes_(bytes_per_s)}/s" if bytes_per_s else "–"


def short_name(name: str, width: int) -> str:
    """Return a name cut to ``width``, with a sign that it was."""
    return name if len(name) <= width else name[: width - 1] + "…"


def felt(wait_s: float) -> str:
    """Return how long a job waited; what nobody feels is a dash."""
    return seconds(wait_s) if wait_s >= 1e-3 else "–"


def silence(job: JobView) -> str:
    """Return since when a job was not heard of: ``silent 45 s``; empty while it speaks."""
    return f"silent {job.age_s:.0f} s" if job.age_s > _SILENT_S else ""


def needs_word(job: JobView) -> bool:
    """Return whether there is something to be said of a job's health."""
    is_unwell = job.level != "healthy" or job.mode != "none"
    return bool(job.reason) and is_unwell and not silence(job)
