"""Which heavy samples are begun before their step is: pure, without a clock.

A loader makes the next few steps. What takes longer than the loop needs for these is late, even if
it is the first thing of its step that is begun. So it is begun while its step is further away: the
nearest first, few at a time, and no more than memory allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from headrace.core.errors import ConfigError
from headrace.core.parts import SamplePart

MARGIN = 2.0
"""What takes more than its lead divided by this is begun earlier: estimates are off by as much. So
long may nearer steps wait for a thread, too."""


class EarlyPiece(NamedTuple):
    """One sample of a step, or one part of it."""

    step: int
    sample: int
    epoch: int
    part: SamplePart


class Takes(NamedTuple):
    """How long a piece and its sample take, by what is known now."""

    piece_s: float
    """On one thread [s]."""

    sample_s: float
    """From the first of its pieces to the last, on all threads [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadStartLimits:
    """How much is begun early."""

    making: int
    """Pieces that may be in the making at a time."""

    making_short: int
    """The same if the next one ends soon enough for nearer steps to wait for it."""

    samples: int
    """Samples that may be in the making or lie ready, in whole or in part."""

    budget_bytes: int
    """Memory that results may hold [bytes]."""

    foreseen: int = 256
    """Pieces of further steps that are remembered; beyond that no step is looked at."""

    def __post_init__(self) -> None:
        least = min(self.making, self.making_short, self.samples, self.budget_bytes, self.foreseen)
        if least < 1:
            raise ConfigError(f"head starts: each limit must be at least 1, which fails in {self}")


class HeadStarts:
    """Heavy pieces of steps that are not in the making: foreseen, begun, ready. Not thread-safe."""

    def __init__(self, limits: HeadStartLimits) -> None:
        self._limits = limits
        self._foreseen: dict[EarlyPiece, int] = {}
        self._making: dict[EarlyPiece, int] = {}
        self._ready: dict[EarlyPiece, int] = {}
        self._passed: set[EarlyPiece] = set()
        """Those in the making whose step goes without them."""

    @property
    def wants_more(self) -> bool:
        """Whether further steps are to be looked at."""
        return len(self._foreseen) < self._limits.foreseen

    @property
    def making(self) -> int:
        """Pieces in the making."""
        return len(self._making)

    @property
    def ready(self) -> int:
        """Pieces that lie ready."""
        return len(self._ready)

    @property
    def held_bytes(self) -> int:
        """Memory that results hold, or will when they are made [bytes]."""
        return sum(self._making.values()) + sum(self._ready.values())

    def foresee(self, piece: EarlyPiece, nbytes: int) -> None:
        """Remember a piece, and what its result will hold [bytes]; those of nearer steps first.

        One that memory can never hold is left to its step: it would keep others from beginning.
        """
        if nbytes <= self._limits.budget_bytes:
            self._foreseen[piece] = nbytes

    def begin_next(
        self, *, lead_s: float, takes: Callable[[EarlyPiece], Takes]
    ) -> EarlyPiece | None:
        """Return the piece to begin now, which is in the making from then on; None: none yet.

        Where memory or anything else does not suffice for the nearest, no other goes first.

        Args:
            lead_s: How long before it is needed a piece is begun with its step [s].
            takes: Returns how long a piece takes.
        """
        if len(self._making) >= max(self._limits.making, self._limits.making_short):
            return None
        for piece, nbytes in self._foreseen.items():
            piece_s, sample_s = takes(piece)
            if sample_s * MARGIN > lead_s:
                is_short = piece_s * MARGIN <= lead_s
                may = self._has_thread(is_short=is_short) and self._has_room(piece, nbytes)
                return self._begun(piece, nbytes) if may else None
        return None

    def end(self, piece: EarlyPiece, nbytes: int | None) -> bool:
        """Note that a piece is made, or failed; return whether its result is kept.

        Args:
            piece: One that was in the making.
            nbytes: What its result holds [bytes]; None: nobody needs it, or there is none.
        """
        del self._making[piece]
        is_late = piece in self._passed
        self._passed.discard(piece)
        if nbytes is None or is_late or self.held_bytes + nbytes > self._limits.budget_bytes:
            return False
        self._ready[piece] = nbytes
        return True

    def take(self, piece: EarlyPiece) -> None:
        """Note that a piece's own step makes it, or has what lay ready, or needs it no more."""
        self._foreseen.pop(piece, None)
        self._ready.pop(piece, None)

    def is_making(self, piece: EarlyPiece) -> bool:
        """Return whether a piece was begun and is not made yet."""
        return piece in self._making

    def has_begun(self, piece: EarlyPiece) -> bool:
        """Return whether a piece is in the making or lies ready."""
        return piece in self._making or piece in self._ready

    def pass_by(self, step: int) -> list[EarlyPiece]:
        """Forget a step that has taken all that it needs; return its pieces that were left.

        Those that are still in the making are not kept.
        """
        left = [piece for piece in (*self._foreseen, *self._ready) if piece.step == step]
        for piece in left:
            self.take(piece)
        self._passed.update(piece for piece in self._making if piece.step == step)
        return left

    def _has_thread(self, *, is_short: bool) -> bool:
        limits = self._limits
        return len(self._making) < (limits.making_short if is_short else limits.making)

    def _has_room(self, piece: EarlyPiece, nbytes: int) -> bool:
        samples = {found[:3] for found in (piece, *self._making, *self._ready)}
        fits = self.held_bytes + nbytes <= self._limits.budget_bytes
        return fits and len(samples) <= self._limits.samples

    def _begun(self, piece: EarlyPiece, nbytes: int) -> EarlyPiece:
        del self._foreseen[piece]
        self._making[piece] = nbytes
        return piece
