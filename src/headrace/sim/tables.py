"""Outcomes as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def outcome_tables(outcomes: Mapping[str, Outcome]) -> tuple[Table, ...]:
    """Return all tables of a contest."""
    figures = {name: outcome.figures for name, outcome in outcomes.items()}
    diagnoses = tuple(
        _diagnosis(name, found.diagnosis)
        for name, found in figures.items()
        if any(found.diagnosis.counts[truth][said] for truth in MODES for said in MODES[1:])
    )
    return (policies(figures), modes(figures), loans(figures), *diagnoses)


def policies(figures: Mapping[str, Figures]) -> Table:
    """Return what each policy came to; speed and regret are against the oracle, if it ran."""
    bound = figures.get(BOUND)
    return Table(
        title="Policies on the same jobs and mishaps",
        columns=("policy", "idle wait/iteration", "idle", "failures/h and job", "samples/s",
                 "of the oracle", "Jain", "regret"),
        rows=tuple(
            (
                contender(name).title,
                seconds(found.idle_wait_s),
                percent(found.idle_share),
                significant(found.failures_per_hour),
                f"{found.samples_per_s:.0f}",
                ratio(found.samples_per_s / bound.samples_per_s) if bound else "–",
                f"{found.jain_index:.4f}",
                percent(regret(found, bound)) if bound else "–",
            )
            for name, found in figures.items()
        ),
        note="Besides bandwidth: " + "; ".join(f"{name}: {_able(name)}" for name in figures),
    )  # fmt: skip


def modes(figures: Mapping[str, Figures]) -> Table:
    """Return failures by what was wrong when they happened, and how they compare."""
    base = figures.get(BASELINE)
    return Table(
        title="Prefetch failures per hour and job, by what was wrong (part of static quotas')",
        columns=("policy", *("nothing" if mode == "none" else mode for mode in MODES)),
        rows=tuple(
            (contender(name).title, *(_failures(found, base, mode) for mode in MODES))
            for name, found in figures.items()
        ),
    )


def loans(figures: Mapping[str, Figures]) -> Table:
    """Return how jobs borrowed, by tier."""
    return Table(
        title="Loans; one that is renewed at once is one",
        columns=("policy", "tier", "loans", "mean iterations", "longest", "mean size", "reordered"),
        rows=tuple(
            (
                contender(name).title,
                tier,
                f"{found.loans:,}",
                f"{found.mean_iterations:.1f}",
                f"{found.longest_iterations}",
                f"{bytes_(found.mean_bytes_per_s)}/s",
                f"{one.reorderings}",
            )
            for name, one in figures.items()
            for tier, found in one.borrowing.items()
        ),
    )


def _diagnosis(name: str, found: Confusion) -> Table:
    said = [mode for mode in MODES if mode != "none"]
    return Table(
        title=f"Diagnosis by {contender(name).title}: what was wrong, and what was said",
        columns=("was wrong", *said, "nothing", "recall", "precision"),
        rows=tuple(
            (
                "nothing" if truth == "none" else truth,
                *(f"{found.counts[truth][mode]}" for mode in said),
                f"{found.counts[truth]['none']}" if truth != "none" else "",
                percent(found.scores[truth].recall) if truth != "none" else "",
                percent(found.scores[truth].precision) if truth != "none" else "",
            )
            for truth in MODES
        ),
        note="Episodes in which a job waited; each counts as the cause that was named longest.",
    )


def abilities_in_words(abilities: Abilities) -> str:
    """Return what the software does besides dividing bandwidth."""
    able: Sequence[str] = [word for name, word in _ABILITIES.items() if getattr(abilities, name)]
    return ", ".join(able) or "nothing"


def _able(name: str) -> str:
    return abilities_in_words(contender(name).abilities)


def _failures(found: Figures, base: Figures | None, mode: str) -> str:
    rate = found.modes[mode].failures_per_hour
    reference = base.modes[mode].failures_per_hour if base else 0.0
    if base is None or base is found or reference == 0:
        return significant(rate)
    return f"{significant(rate)} ({ratio(rate / reference)})"
