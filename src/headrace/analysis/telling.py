"""Names and numbers as tables and drawings tell them."""

from __future__ import annotations

from headrace.analysis.figures import Checkpoints, Loading, Spread
from headrace.report.printable import printable
from headrace.report.units import seconds, significant

LABELS = {
    "data": "waiting for data",
    "checkpoint_read": "reading checkpoints",
    "checkpoint_save": "saving checkpoints",
    "barrier": "waiting for other ranks",
    "compute": "computing",
}
"""How causes of idle time, and activities of ranks, are called."""

UNKNOWN = "–"

_LONGEST_NAME = 44


def shortened(name: str) -> str:
    """Return a name as it can be shown: of a long one the end, which tells more."""
    name = printable(name)
    return name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}"


def told_ranks(number: int) -> str:
    """Return a number of ranks."""
    return "1 rank" if number == 1 else f"{number:,} ranks"


def told_quantity(value: float) -> str:
    """Return a number that is whole, or has three digits."""
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else significant(value)


def told_cost(value: float) -> str:
    """Return a cost by hundredths, or with three digits where it is less than one."""
    return f"{value:,.2f}" if value >= 1 else significant(value)


def told_mean(spread: Spread | None) -> str:
    """Return the mean of a spread of times [s]."""
    return UNKNOWN if spread is None else seconds(spread.mean)


def told_number(value: int | None) -> str:
    """Return a whole number."""
    return UNKNOWN if value is None else f"{value:,}"


def latency_of(loading: Loading | None) -> Spread | None:
    """Return how loading latency is spread."""
    return None if loading is None else loading.latency_s


def per_rank_of(checkpoints: Checkpoints | None) -> Spread | None:
    """Return how the time of a rank is spread."""
    return None if checkpoints is None else checkpoints.per_rank_s
