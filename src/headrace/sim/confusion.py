"""How often a diagnosis names what was really wrong: labelled episodes against what was said.

An episode counts once, whatever its length: as the cause that was named longest while it
lasted. Where several things are wrong with a job at once, each is right to name. An episode that
never left its job short of data asks for no diagnosis and is not counted, unless a cause was
named. A cause named where nothing was wrong is a false alarm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from headrace.policy.reservation.events import Mode
from headrace.sim.episode import MODES

AFTERMATH_S = 60.0
"""For so long after an episode its cause may still be named, where steps take several seconds:
queues refill, caches warm [s]."""


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
    episodes: Iterable[Stretch],
    statements: Iterable[Statement],
    *,
    from_s: float = 0.0,
    until_s: float,
    aftermath_s: float = AFTERMATH_S,
) -> Confusion:
    """Compare what was wrong with what was said to be wrong.

    Args:
        episodes: What was injected; episodes of one job may overlap.
        statements: In order of time for each job.
        from_s: What was said before is not counted [s].
        until_s: End of the run [s].
        aftermath_s: For so long after an episode its cause may still be named [s].
    """
    spells = _spells(statements, until_s)
    injected = _by_job(_with_aftermath(episodes, aftermath_s))
    counts: Counter[tuple[str, str]] = Counter()
    for job in sorted(spells.keys() | injected.keys()):
        said, true = spells.get(job, []), injected.get(job, [])
        for episode in true:
            named = _longest(said, episode, true)
            if episode.hurt or named != "none":
                counts[episode.mode, named] += 1
        for spell in said:
            if spell.begin_s >= from_s and not any(_common_s(spell, one) > 0 for one in true):
                counts["none", spell.mode] += 1
    return _scored(counts)


def together(runs: Iterable[Confusion]) -> Confusion:
    """Return several runs as one."""
    counts: Counter[tuple[str, str]] = Counter()
    for run in runs:
        for truth, row in run.counts.items():
            counts.update({(truth, said): count for said, count in row.items()})
    return _scored(counts)


def _with_aftermath(episodes: Iterable[Stretch], aftermath_s: float) -> Iterator[Stretch]:
    for episode in episodes:
        yield replace(episode, end_s=episode.end_s + aftermath_s)


def _by_job(episodes: Iterable[Stretch]) -> dict[str, list[Stretch]]:
    found: dict[str, list[Stretch]] = {}
    for episode in episodes:
        found.setdefault(episode.job, []).append(episode)
    return found


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


def _common_s(spell: Stretch, *episodes: Stretch) -> float:
    """Return how long a spell and episodes last together [s]."""
    begin_s = max(spell.begin_s, *(episode.begin_s for episode in episodes))
    end_s = min(spell.end_s, *(episode.end_s for episode in episodes))
    return max(0.0, end_s - begin_s)


def _longest(spells: Sequence[Stretch], episode: Stretch, true: Sequence[Stretch]) -> Mode:
    """Return the cause that was named longest while an episode of one job lasted.

    Time in which another cause was named that was true as well counts for the episode's.
    """
    named_s: dict[Mode, float] = {}
    for spell in spells:
        at_all_s = _common_s(spell, episode)
        if at_all_s == 0.0:
            continue
        also_s = sum(_common_s(spell, episode, one) for one in true if one.mode == spell.mode)
        right_s = min(also_s, at_all_s)
        named_s[episode.mode] = named_s.get(episode.mode, 0.0) + right_s
        named_s[spell.mode] = named_s.get(spell.mode, 0.0) + at_all_s - right_s
    return max(named_s, key=lambda mode: named_s[mode], default="none")


def _nested(counts: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    return {truth: {said: counts.get((truth, said), 0) for said in MODES} for truth in MODES}


def _scored(counts: Mapping[tuple[str, str], int]) -> Confusion:
    scores: dict[str, ModeScore] = {}
    scores |= {mode: _score(mode, counts) for mode in MODES if mode != "none"}
    return Confusion(counts=_nested(counts), scores=scores)


def _score(mode: Mode, counts: Mapping[tuple[str, str], int]) -> ModeScore:
    right = counts.get((mode, mode), 0)
    named = sum(count for (_, said), count in counts.items() if said == mode)
    true = sum(count for (truth, _), count in counts.items() if truth == mode)
    return ModeScore(
        episodes=true,
        precision=right / named if named else 1.0,
        recall=right / true if true else 1.0,
    )
