"""Corrects estimates made from headers by what tasks turned out to take."""

from __future__ import annotations

_SMALLEST_COST_S = 1e-4
_COST_GAIN = 0.1
_SIZE_DECAY = 0.02
_RATIO_LIMITS = (0.01, 100.0)


class Estimates:
    """Ratios of measured to foreseen, by media kind.

    Costs follow the mean; sizes follow the largest lately seen, because a reservation
    that is too small costs a handshake and one that is too large only memory.
    """

    def __init__(self) -> None:
        self._cost: dict[str, float] = {}
        self._size: dict[str, float] = {}

    def cost_s(self, kind: str, foreseen_s: float) -> float:
        """Return the CPU a sample will take [s]."""
        return max(foreseen_s, _SMALLEST_COST_S) * self._cost.get(kind, 1.0)

    def nbytes(self, kind: str, foreseen: int) -> int:
        """Return the memory to reserve for a sample [bytes]."""
        return max(1, round(foreseen * self._size.get(kind, 1.0)))

    def learn(
        self, kind: str, *, foreseen_s: float, seconds: float, foreseen_bytes: int, nbytes: int
    ) -> None:
        """Take in one finished task."""
        ratio = _clamped(seconds / max(foreseen_s, _SMALLEST_COST_S))
        known = self._cost.get(kind)
        self._cost[kind] = ratio if known is None else known + _COST_GAIN * (ratio - known)
        self.learn_size(kind, foreseen_bytes=foreseen_bytes, nbytes=nbytes)

    def learn_size(self, kind: str, *, foreseen_bytes: int, nbytes: int) -> None:
        """Take in the size of one result."""
        ratio = nbytes / max(foreseen_bytes, 1)
        known = self._size.get(kind, ratio)
        self._size[kind] = max(ratio, known + _SIZE_DECAY * (ratio - known))


def _clamped(ratio: float) -> float:
    low, high = _RATIO_LIMITS
    return min(max(ratio, low), high)
