"""Tables show what was there and leave out what was not."""

from __future__ import annotations

import msgspec
import numpy as np

from headrace.report.blocks import Table
from headrace.sim.borrowing import Borrowing
from headrace.sim.confusion import Confusion, ModeScore
from headrace.sim.contest import Outcome
from headrace.sim.episode import MODES
from headrace.sim.measures import Figures, ModeFigures
from headrace.sim.tables import outcome_tables

NOTHING = ModeFigures(iterations=0, failures_per_hour=0.0, idle_share=0.0, idle_wait_s=0.0)
CALM = msgspec.structs.replace(NOTHING, iterations=9, failures_per_hour=2.0)
UNSAID = Confusion(
    counts={truth: dict.fromkeys(MODES, 0) for truth in MODES},
    scores={mode: ModeScore(episodes=0, precision=1.0, recall=1.0) for mode in MODES[1:]},
)
FIGURES = Figures(
    iterations=9,
    idle_wait_s=0.02,
    idle_share=0.01,
    failures_per_hour=2.0,
    samples_per_s=1234.0,
    job_speed={"a": 0.9},
    jain_index=1.0,
    modes={"none": CALM} | dict.fromkeys(MODES[1:], NOTHING),
    borrowing={},
    loans=0,
    refusals=0,
    reorderings=0,
    quota_changes=0,
    bursts_late=0,
    bursts=0,
    diagnosis=UNSAID,
)


def tables(**changes: Figures) -> dict[str, Table]:
    outcomes = {
        name: Outcome(name=name, figures=figures, idle_share=np.zeros(1), took_s=1.0)
        for name, figures in changes.items()
    }
    return {table.title.split()[0]: table for table in outcome_tables(outcomes)}


def test_a_run_without_an_oracle_is_not_compared_with_one() -> None:
    (row,) = tables(static=FIGURES)["Policies"].rows
    assert row == ("static quotas", "20.0 ms", "1.0 %", "2.00", "1,234", "1.0000")


def test_with_an_oracle_each_policy_is_held_against_it() -> None:
    bound = msgspec.structs.replace(FIGURES, samples_per_s=2468.0, job_speed={"a": 1.0})
    shown = tables(static=FIGURES, oracle=bound)["Policies"]
    assert shown.columns[-2:] == ("oracle", "regret")
    assert shown.rows[0][-2:] == ("0.500", "10.0 %")


def test_policies_with_the_same_abilities_are_named_together() -> None:
    note = tables(static=FIGURES, aimd=FIGURES, published=FIGURES)["Policies"].note
    assert "static, aimd: nothing; published: reordering." in note


def test_modes_that_no_iteration_was_in_have_no_column() -> None:
    hurt = msgspec.structs.replace(CALM, failures_per_hour=1.0)
    published = msgspec.structs.replace(
        FIGURES, modes=FIGURES.modes | {"none": hurt, "thrash": CALM}
    )
    shown = tables(static=FIGURES, published=published)["Prefetch"]
    assert shown.columns == ("policy", "nothing", "thrash")
    assert [row[1:] for row in shown.rows] == [("2.00", "0"), ("1.00 (0.500)", "2.00")]


def test_loans_and_diagnoses_that_never_were_have_no_table() -> None:
    assert tables(static=FIGURES).keys() == {"Policies", "Prefetch"}


def test_loans_are_told_by_tier_and_reordering_by_policy() -> None:
    lent = Borrowing(loans=1500, mean_iterations=2.5, longest_iterations=7, mean_bytes_per_s=9.6e6)
    figures = msgspec.structs.replace(FIGURES, borrowing={"hdd": lent}, reorderings=4)
    shown = tables(predictive=figures)["Loans;"]
    assert shown.rows == (("headrace, predictive", "hdd", "1,500", "2.5", "7", "9.60 MB/s"),)
    assert shown.note == "predictive merged a job's reads into runs 4 times"


def test_a_mode_that_never_was_has_no_recall_and_one_never_named_no_precision() -> None:
    counts = UNSAID.counts | {
        "thrash": dict.fromkeys(MODES, 0) | {"congestion": 3},
        "none": dict.fromkeys(MODES, 0) | {"congestion": 1},
    }
    scores = UNSAID.scores | {
        "thrash": ModeScore(episodes=3, precision=1.0, recall=0.0),
        "congestion": ModeScore(episodes=0, precision=0.0, recall=1.0),
    }
    figures = msgspec.structs.replace(FIGURES, diagnosis=Confusion(counts=counts, scores=scores))
    shown = tables(predictive=figures)["Diagnosis"]
    assert shown.columns == ("was wrong", "thrash", "congestion", "nothing", "recall", "precision")
    assert shown.rows == (
        ("thrash", "0", "3", "0", "0.0 %", "–"),
        ("congestion", "0", "0", "0", "–", "0.0 %"),
        ("nothing", "0", "1", "", "", ""),
    )
