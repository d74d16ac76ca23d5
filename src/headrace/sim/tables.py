"""Outcomes as tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import nan

from headrace.report.blocks import Table
from headrace.report.units import bytes_, percent, ratio, seconds, significant
from headrace.sim.confusion import Confusion
from headrace.sim.contenders import BASELINE, BOUND, contender
from headrace.sim.contest import Outcome
from headrace.sim.episode import MODES
from headrace.sim.estate import Abilities
from headrace.sim.measures import Figures, regret

_ABILITIES = {
    "clairvoyant_cache": "clairvoyant cache",
    "early_prefetch": "early prefetch",
    "reordering": "reordering",
    "announces_bursts": "announced checkpoints",
}

_AGAINST = "; oracle: samples over the oracle's; regret: most of its speed there that a job lacks"


def outcome_tables(outcomes: Mapping[str, Outcome]) -> tuple[Table, ...]:
    """Return all tables of a contest."""
    figures = {name: outcome.figures for name, outcome in outcomes.items()}
    diagnoses = tuple(
        diagnosis(name, found.diagnosis)
        for name, found in figures.items()
        if any(found.diagnosis.counts[truth][said] for truth in MODES for said in MODES[1:])
    )
    lent = (loans(figures),) if any(found.borrowing for found in figures.values()) else ()
    return (policies(figures), modes(figures), *lent, *diagnoses)


def policies(figures: Mapping[str, Figures]) -> Table:
    """Return what each policy came to; against the oracle too, if it ran."""
    bound = figures.get(BOUND)
    against = ("oracle", "regret") if bound else ()
    return Table(
        title="Policies on the same jobs and mishaps",
        columns=("policy", "idle wait", "idle", "failures", "samples/s", "Jain", *against),
        rows=tuple(
            (
                contender(name).title,
                seconds(found.idle_wait_s),
                percent(found.idle_share),
                significant(found.failures_per_hour),
                f"{found.samples_per_s:,.0f}",
                f"{found.jain_index:.4f}",
                *(_against(found, bound) if bound else ()),
            )
            for name, found in figures.items()
        ),
        note="Idle wait: mean of an iteration; failures: per hour and job; Jain: of the jobs' "
        f"speeds{_AGAINST if bound else ''}. Besides bandwidth, {_abilities(figures)}.",
    )


def _against(found: Figures, bound: Figures) -> tuple[str, str]:
    return ratio(found.samples_per_s / bound.samples_per_s), percent(regret(found, bound))


def _abilities(names: Iterable[str]) -> str:
    """Return what else each policy's software does, those that are alike together."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(abilities_in_words(contender(name).abilities), []).append(name)
    return "; ".join(f"{', '.join(those)}: {words}" for words, those in alike.items())


def modes(figures: Mapping[str, Figures]) -> Table:
    """Return failures by what was wrong when they happened, and how they compare."""
    base = figures.get(BASELINE)
    occurred = {m for found in figures.values() for m in MODES if found.modes[m].iterations}
    shown = [mode for mode in MODES if mode in occurred | {"none"}]
    return Table(
        title="Prefetch failures per hour and job, by what was wrong (part of static quotas')",
        columns=("policy", *("nothing" if mode == "none" else mode for mode in shown)),
        rows=tuple(
            (contender(name).title, *(_failures(found, base, mode) for mode in shown))
            for name, found in figures.items()
        ),
    )


def loans(figures: Mapping[str, Figures]) -> Table:
    """Return how jobs borrowed, by tier."""
    return Table(
        title="Loans; one that is renewed at once is one",
        columns=("policy", "tier", "loans", "mean iterations", "longest", "mean size"),
        rows=tuple(
            (
                contender(name).title,
                tier,
                f"{found.loans:,}",
                f"{found.mean_iterations:.1f}",
                f"{found.longest_iterations}",
                f"{bytes_(found.mean_bytes_per_s)}/s",
            )
            for name, one in figures.items()
            for tier, found in one.borrowing.items()
        ),
        note="; ".join(
            f"{name} merged a job's reads into runs {one.reorderings} times"
            for name, one in figures.items()
            if one.reorderings
        ),
    )


def diagnosis(name: str, found: Confusion) -> Table:
    """Return what one policy's diagnoses were of what was injected."""
    counts = found.counts
    said = [m for m in MODES[1:] if any(counts[m].values()) or any(c[m] for c in counts.values())]
    return Table(
        title=f"Diagnosis by {contender(name).title}: what was wrong, and what was said",
        columns=("was wrong", *said, "nothing", "recall", "precision"),
        rows=(
            *((truth, *_diagnosed(found, truth, said)) for truth in said),
            ("nothing", *(f"{counts['none'][mode]}" for mode in said), "", "", ""),
        ),
        note="Episodes in which a job waited; each counts as the cause that was named longest.",
    )


def _diagnosed(found: Confusion, truth: str, said: Sequence[str]) -> Iterator[str]:
    """Yield the cells of one mode; of one that never was, or was never named, no score."""
    counts, score = found.counts[truth], found.scores[truth]
    named = any(row[truth] for row in found.counts.values())
    yield from (f"{counts[mode]}" for mode in (*said, "none"))
    yield percent(score.recall if score.episodes else nan)
    yield percent(score.precision if named else nan)


def abilities_in_words(abilities: Abilities) -> str:
    """Return what the software does besides dividing bandwidth."""
    able: Sequence[str] = [word for name, word in _ABILITIES.items() if getattr(abilities, name)]
    return ", ".join(able) or "nothing"


def _failures(found: Figures, base: Figures | None, mode: str) -> str:
    rate = found.modes[mode].failures_per_hour
    reference = base.modes[mode].failures_per_hour if base else 0.0
    if base is None or base is found or reference == 0 or rate == 0:
        return significant(rate)
    return f"{significant(rate)} ({ratio(rate / reference)})"
