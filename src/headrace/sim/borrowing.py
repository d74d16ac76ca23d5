"""How long jobs borrow: lengths of loans in iterations, by tier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from headrace.core.media import TierName
from headrace.policy.reservation.events import Action, Lend, Reclaim


class Borrowing(msgspec.Struct, frozen=True, kw_only=True):
    """Loans of one tier; one that is renewed at once is one loan."""

    loans: int
    mean_iterations: float
    longest_iterations: int
    mean_bytes_per_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class _Spell:
    begin: int
    end: int
    bytes_per_s: float


def borrowing(
    decided: Iterable[tuple[float, Action]], asked_s: Mapping[str, npt.NDArray[np.float64]]
) -> dict[TierName, Borrowing]:
    """Return the lengths of loans by tier.

    Args:
        decided: (time [s], action), in order of time.
        asked_s: Job → when each of its iterations asked for its batch, ascending [s].
    """
    spells: dict[tuple[TierName, str], list[_Spell]] = {}
    open_loans: dict[int, tuple[float, Lend]] = {}
    for at_s, action in decided:
        match action:
            case Lend() as lend:
                open_loans[lend.loan] = (at_s, lend)
            case Reclaim(loan=loan) if loan in open_loans:
                began_s, lend = open_loans.pop(loan)
                spell = _spell(asked_s.get(lend.job), began_s, at_s, lend.bytes_per_s)
                spells.setdefault((lend.tier, lend.job), []).append(spell)
            case _:
                pass
    tiers: dict[TierName, list[_Spell]] = {}
    for (tier, _), found in sorted(spells.items()):
        tiers.setdefault(tier, []).extend(_joined(found))
    return {tier: _summary(found) for tier, found in tiers.items()}


def _spell(
    asked_s: npt.NDArray[np.float64] | None, begin_s: float, end_s: float, bytes_per_s: float
) -> _Spell:
    if asked_s is None:
        return _Spell(begin=0, end=0, bytes_per_s=bytes_per_s)
    begin, end = np.searchsorted(asked_s, (begin_s, end_s), side="right")
    return _Spell(begin=int(begin), end=int(end), bytes_per_s=bytes_per_s)


def _joined(spells: Iterable[_Spell]) -> list[_Spell]:
    """Merge a loan with the one it follows within an iteration."""
    joined: list[_Spell] = []
    for spell in spells:
        if joined and spell.begin <= joined[-1].end + 1:
            joined.append(_both(joined.pop(), spell))
        else:
            joined.append(spell)
    return joined


def _both(first: _Spell, second: _Spell) -> _Spell:
    most = max(first.bytes_per_s, second.bytes_per_s)
    return _Spell(begin=first.begin, end=max(first.end, second.end), bytes_per_s=most)


def _summary(spells: list[_Spell]) -> Borrowing:
    lengths = [spell.end - spell.begin for spell in spells]
    return Borrowing(
        loans=len(spells),
        mean_iterations=float(np.mean(lengths)),
        longest_iterations=max(lengths),
        mean_bytes_per_s=float(np.mean([spell.bytes_per_s for spell in spells])),
    )
