"""The normal distribution, as tables: what links quantities, whatever their own distributions."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from headrace.analysis.columns import Floats

_REACH = 8.2
"""Beyond so many standard deviations a double cannot tell a probability from 0 or 1."""

_POINTS = 8193


class _Table(NamedTuple):
    scores: Floats
    levels: Floats


@cache
def _table() -> _Table:
    scores = np.linspace(-_REACH, _REACH, _POINTS)
    levels = [0.5 * math.erfc(-score / math.sqrt(2.0)) for score in scores.tolist()]
    return _Table(scores, np.array(levels))


def normal_levels(scores: Floats) -> Floats:
    """Return the probability of less than each score, 0 to 1, within 1e-6."""
    table = _table()
    levels: Floats = np.interp(scores, table.scores, table.levels)
    return levels


def normal_scores(levels: Floats) -> Floats:
    """Return the scores below which a normal variable is with each probability."""
    table = _table()
    scores: Floats = np.interp(levels, table.levels, table.scores)
    return scores
