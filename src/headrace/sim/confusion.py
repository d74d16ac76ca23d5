"""How often a diagnosis names what was really wrong: labelled episodes against what was said.

An episode counts once, whatever its length: as the cause that was named longest while it
lasted. One that never left its job short of data asks for no diagnosis and is not counted,
unless a cause was named. A cause named where nothing was wrong is a false alarm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from headrace.policy.reservation.events import Mode
from headrace.sim.episode import MODES

AFTERMATH_S = 60.0
"""For so long after an episode its cause may still be named: queues refill, caches warm [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Time in which one thing was, or was said to be, wrong with one job."""

    job: str
    mode: Mode
    begin_s: float
    end_s: float
    hurt: bool = True
    """Whether the job ever waited for data meanwhile."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """A diagnosis, in force until the next one for the same job."""

    job: str
    mode: Mode
    at_s: float


class ModeScore(msgspec.Struct, frozen=True, kw_only=True):
    """How well one mode is recognised."""

    episodes: int
    precision: float
    """Part of the times it was named that it was true; 1 when never named."""
    recall: float
    """Part of its episodes that were named so; 1 when there were none."""


class Confusion(msgspec.Struct, frozen=True, kw_only=True):
    """Truth → what was said → how often; ``none`` in truth are false alarms."""

    counts: dict[str, dict[str, int]]
    scores: dict[str, ModeScore]


def confusion(
    episodes: Iterable[Stretch], statements: Iterable[Statement], *, until_s: float
) -> Confusion:
    """Compare what was wrong with what was said to be wrong.

    Args:
        episodes: What was injected; episodes of one job may overlap.
        statements: In order of time for each job.
        until_s: End of the run [s].
    """
    spells = _spells(statements, until_s)
    counts: Counter[tuple[str, str]] = Counter()
    used: set[int] = set()
    for episode in episodes:
        near = _overlapping(spells.get(episode.job, ()), episode)
        said = _longest(near, episode)
        if episode.hurt or said != "none":
            counts[episode.mode, said] += 1
        used.update(id(spell) for spell in near)
    for spell in (spell for found in spells.values() for spell in found):
        if id(spell) not in used:
            counts["none", spell.mode] += 1
    scores: dict[str, ModeScore] = {}
    scores |= {mode: _score(mode, counts) for mode in MODES if mode != "none"}
    return Confusion(counts=_nested(counts), scores=scores)


def _spells(statements: Iterable[Statement], until_s: float) -> dict[str, list[Stretch]]:
    """Return the stretches in which a cause was named, by job."""
    last: dict[str, Statement] = {}
    spells: dict[str, list[Stretch]] = {}
    for said in statements:
        before = last.get(said.job)
        if before is not None and before.mode == said.mode:
            continue
        if before is not None and before.mode != "none":
            spells.setdefault(said.job, []).append(_spell(before, said.at_s))
        last[said.job] = said
    for before in last.values():
        if before.mode != "none":
            spells.setdefault(before.job, []).append(_spell(before, until_s))
    return spells


def _spell(said: Statement, end_s: float) -> Stretch:
    return Stretch(job=said.job, mode=said.mode, begin_s=said.at_s, end_s=end_s)


def _overlapping(spells: Sequence[Stretch], episode: Stretch) -> list[Stretch]:
    return [spell for spell in spells if _common_s(spell, episode) > 0]


def _common_s(spell: Stretch, episode: Stretch) -> float:
    end_s = min(spell.end_s, episode.end_s + AFTERMATH_S)
    return end_s - max(spell.begin_s, episode.begin_s)


def _longest(spells: Sequence[Stretch], episode: Stretch) -> Mode:
    """Return the cause that was named longest while the episode lasted."""
    named_s: dict[Mode, float] = {}
    for spell in spells:
        named_s[spell.mode] = named_s.get(spell.mode, 0.0) + _common_s(spell, episode)
    return max(named_s, key=lambda mode: named_s[mode], default="none")


def _nested(counts: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    return {truth: {said: counts.get((truth, said), 0) for said in MODES} for truth in MODES}


def _score(mode: Mode, counts: Mapping[tuple[str, str], int]) -> ModeScore:
    right = counts.get((mode, mode), 0)
    named = sum(count for (_, said), count in counts.items() if said == mode)
    true = sum(count for (truth, _), count in counts.items() if truth == mode)
    return ModeScore(
        episodes=true,
        precision=right / named if named else 1.0,
        recall=right / true if true else 1.0,
    )
