"""Names against truth: confusion, precision and recall of each cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from headrace.analysis.causes import Cause
from headrace.report.blocks import Table
from headrace.report.units import ratio

CAUSES = tuple(cause for cause in Cause if cause is not Cause.UNEXPLAINED)


class Verdict(NamedTuple):
    """What was wrong with one job, and what was said to be, what lost most first."""

    seed: int
    true: tuple[Cause, ...]
    named: tuple[Cause, ...]


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """How well one cause is recognised."""

    jobs: int
    """That had it."""

    precision: float
    """Part of the times it was named that it was true; 1 when never named."""

    recall: float
    """Part of the jobs that had it of which it was named; 1 when there were none."""


def scores(verdicts: Sequence[Verdict]) -> dict[str, Score]:
    """Return the score of each cause; a job may have several, and each counts."""
    return {cause.value: _score(cause, verdicts) for cause in CAUSES}


def confusion(verdicts: Iterable[Verdict]) -> dict[str, dict[str, int]]:
    """Return truth → named → jobs.

    A cause that was there and named counts under itself. One that was not named counts under
    what was named instead though it was not there, else under ``none``; what was named besides,
    and was not there, counts as said of a job with ``none``.
    """
    counts: Counter[tuple[Cause, Cause]] = Counter()
    for _, true, named in verdicts:
        missed = [cause for cause in true if cause not in named]
        wrong = [cause for cause in named if cause not in true]
        counts.update((cause, cause) for cause in true if cause in named)
        for cause in missed:
            counts[cause, wrong.pop(0) if wrong else Cause.NONE] += 1
        counts.update((Cause.NONE, cause) for cause in wrong)
    return {
        truth.value: {said.value: counts[truth, said] for said in Cause if counts[truth, said]}
        for truth in CAUSES
    }


def table(title: str, verdicts: Sequence[Verdict]) -> Table:
    """Return scores and confusion for people."""
    found, counts = scores(verdicts), confusion(verdicts)
    return Table(
        title=title,
        columns=("cause", "jobs", "precision", "recall", "named instead"),
        rows=tuple(
            (name, str(one.jobs), ratio(one.precision), ratio(one.recall), _others(counts, name))
            for name, one in found.items()
        ),
    )


def _others(counts: dict[str, dict[str, int]], truth: str) -> str:
    others = {said: count for said, count in counts[truth].items() if said != truth}
    return ", ".join(f"{count} {said}" for said, count in others.items())


def _score(cause: Cause, verdicts: Sequence[Verdict]) -> Score:
    named = sum(cause in verdict.named for verdict in verdicts)
    true = sum(cause in verdict.true for verdict in verdicts)
    right = sum(cause in verdict.named and cause in verdict.true for verdict in verdicts)
    return Score(
        jobs=true,
        precision=right / named if named else 1.0,
        recall=right / true if true else 1.0,
    )
