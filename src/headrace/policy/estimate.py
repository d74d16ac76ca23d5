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
"""Relative change of a ratio from which on it is worth to estimate anew."""

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
        of_kind = self._cost.setdefault(kind, _Recent()).add(ratio)
        return self._of_weight(kind, foreseen_s).add(ratio) or of_kind

    def learn_size(self, kind: str, *, foreseen_bytes: int, nbytes: int) -> None:
        """Take in the size of one result."""
        ratio = nbytes / max(foreseen_bytes, 1)
        known = self._size.get(kind, ratio)
        self._size[kind] = max(ratio, known + _SIZE_DECAY * (ratio - known))

    def _ratio(self, kind: str, foreseen_s: float) -> float:
        recent = self._of_weight(kind, foreseen_s)
        if len(recent) < FEW:
            recent = self._cost.get(kind, recent)
        return recent.median

    def _of_weight(self, kind: str, foreseen_s: float) -> _Recent:
        return self._cost.setdefault((kind, math.frexp(foreseen_s)[1]), _Recent())


class _Recent:
    """The last ratios and their median, the lower one of two: outliers are slow, never quick."""

    def __init__(self) -> None:
        self.median = 1.0
        self._ratios: deque[float] = deque(maxlen=KEPT)
        self._told = 1.0

    def __len__(self) -> int:
        return len(self._ratios)

    def add(self, ratio: float) -> bool:
        """Take in one; return whether the median is far from when that was returned last."""
        self._ratios.append(ratio)
        self.median = sorted(self._ratios)[(len(self._ratios) - 1) // 2]
        moved = abs(self.median - self._told) > MOVED * self._told
        self._told = self.median if moved else self._told
        return moved
