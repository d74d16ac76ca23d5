"""What the controller makes of a loader's job, as the loader's statistics show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headrace.client.reporting.words import Word
from headrace.core.media import TierName


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlStatistics:
    """How a loader and its controller stand."""

    controller: str
    """Its address."""

    speaks: bool
    """Whether this process reports for all ranks of its host."""

    away: bool = False
    """The last attempt to reach it failed: what it said last stays in force."""

    score: float | None = None
    """Health of the job's prefetch, 0 to 100; None before the host has reported."""

    level: str = ""
    mode: str = ""
    """What is wrong, if anything; empty, like the level, as long as there is no score."""

    reason: str = ""
    quotas: Mapping[TierName, float] = field(default_factory=dict)
    """Tier → bandwidth that this host may read by itself [B/s]; not named: not limited."""

    direct_bytes_per_s: float | None = None
    """This process's part of it, which is in force [B/s]; None: not limited."""

    direct_bytes: int = 0
    """Read from storage by this process since its start [bytes]."""

    answered_ago_s: float | None = None
    """Time since the controller answered last [s]; None: it never did."""

    def with_word(self, word: Word, now: float) -> ControlStatistics:
        """Return the same with what the host's speaker knows."""
        answer = word.answer
        if answer is None:
            return replace(self, away=word.away)
        known = replace(
            self,
            away=word.away,
            reason=answer.reason,
            quotas=answer.quotas,
            answered_ago_s=max(0.0, now - word.answered_at),
        )
        if not word.has_reported:
            return known
        return replace(known, score=answer.score, level=answer.level, mode=answer.mode)
