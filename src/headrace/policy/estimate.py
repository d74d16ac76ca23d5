"""Corrects estimates made from headers by what samples turned out to take.

Agents start samples by it, and trainers decide by it how long a late one can be waited for.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable

SMALLEST_COST_S = 1e-4
"""No sample is foreseen to take less [s]."""

KEPT = 15
"""Samples whose ratio of measured to foreseen is remembered, for each kind and weight: up to
half of them may be outliers without an effect."""

FEW = 3
"""As long as there are fewer of a weight, all of the kind count."""

MOVED = 0.2
NOTICEABLE_S = 2e-3
"""Change of a ratio, relative to what it was, and of what a sample takes by it [s], from which on
it is worth to estimate anew: of short texts the ratio is never at rest, and no time is won."""

_SIZE_DECAY = 0.02
_RATIO_LIMITS = (0.01, 100.0)


class Estimates:
    """Ratios of measured to foreseen, by media kind.

    Costs follow the median of the last samples of the kind that were foreseen to cost the same
    within a factor of two: what a header tells may be right for small samples and wrong for large
    ones. Sizes follow the largest lately seen, because a reservation that is too small costs a
    handshake and one that is too large only memory.
    """

    def __init__(self) -> None:
        self._cost: dict[Hashable, _Recent] = {}
        self._size: dict[str, float] = {}

    def cost_s(self, kind: str, foreseen_s: float) -> float:
        """Return how long a sample will take [s]."""
        foreseen_s = max(foreseen_s, SMALLEST_COST_S)
        return foreseen_s * self._ratio(kind, foreseen_s)

    def ratio(self, kind: str) -> float | None:
        """Return what samples of a kind lately took, over what was foreseen; None: none came."""
        recent = self._cost.get(kind)
        return recent.median if recent else None

    def nbytes(self, kind: str, foreseen: int) -> int:
        """Return the memory to reserve for a sample [bytes]."""
        return max(1, round(foreseen * self._size.get(kind, 1.0)))

    def learn(self, kind: str, *, foreseen_s: float, seconds: float) -> bool:
        """Take in how long a sample took; return whether estimates changed noticeably."""
        foreseen_s = max(foreseen_s, SMALLEST_COST_S)
        low, high = _RATIO_LIMITS
        ratio = min(max(seconds / foreseen_s, low), high)
        of_kind = self._recent(kind).add(ratio, foreseen_s)
        return self._recent(_weight(kind, foreseen_s)).add(ratio, foreseen_s) or of_kind

    def learn_size(self, kind: str, *, foreseen_bytes: int, nbytes: int) -> None:
        """Take in the size of one result."""
        ratio = nbytes / max(foreseen_bytes, 1)
        known = self._size.get(kind, ratio)
        self._size[kind] = max(ratio, known + _SIZE_DECAY * (ratio - known))

    def _ratio(self, kind: str, foreseen_s: float) -> float:
        recent = self._cost.get(_weight(kind, foreseen_s))
        if recent is None or len(recent) < FEW:
            recent = self._cost.get(kind, recent)
        return recent.median if recent else 1.0

    def _recent(self, name: Hashable) -> _Recent:
        recent = self._cost.get(name)
        if recent is None:
            recent = self._cost[name] = _Recent()
        return recent


def _weight(kind: str, foreseen_s: float) -> tuple[str, int]:
    """Name a kind's samples that were foreseen to cost the same within a factor of two."""
    return kind, math.frexp(foreseen_s)[1]


class _Recent:
    """The last ratios and their median, the lower one of two: outliers are slow, never quick."""

    def __init__(self) -> None:
        self.median = 1.0
        self._ratios: deque[float] = deque(maxlen=KEPT)
        self._told = 1.0

    def __len__(self) -> int:
        return len(self._ratios)

    def add(self, ratio: float, foreseen_s: float) -> bool:
        """Take in one; return whether the median is far from when that was returned last."""
        self._ratios.append(ratio)
        self.median = sorted(self._ratios)[(len(self._ratios) - 1) // 2]
        change = abs(self.median - self._told)
        moved = change > MOVED * self._told and change * foreseen_s > NOTICEABLE_S
        self._told = self.median if moved else self._told
        return moved
