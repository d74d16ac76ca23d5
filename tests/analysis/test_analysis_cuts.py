"""When agents began to run other ops, as told by the trace of a job's first rank."""

from __future__ import annotations

import random

from headrace.analysis.analyser import Analyser
from headrace.analysis.columns import Columns
from headrace.analysis.cuts import MOST_MOVES, MovedCuts
from headrace.analysis.figures import CutMove, JobFigures
from headrace.analysis.overview import blocks
from headrace.report.blocks import Table
from headrace.trace.events import Event, Kind, batch_of
from headrace.trace.importer import Notes

S = 1_000_000_000


def move(at_s: float, samples: str, before: int, after: int, **told: int) -> Event:
    counts = {"ops_before": before, "ops": after, "agent_ns": 2_000_000, "trainer_ns": 0}
    return Event(
        kind=Kind.CALL,
        name=f"move cut of {samples}",
        begin_ns=round(at_s * S),
        rank=0,
        bytes=49_152,
        counts={**counts, **told},
    )


STEP = Event(kind=Kind.STEP, begin_ns=S, duration_ns=S, rank=0, step=0)


def of(events: list[Event]) -> tuple[JobFigures, dict[str, Table]]:
    analyser = Analyser()
    analyser.add(batch_of(events))
    found = analyser.result(format_name="made up", notes=Notes())
    tables = [block for block in blocks(found) if isinstance(block, Table)]
    return found.jobs[0], {table.title: table for table in tables}


def test_moves_are_told_in_the_order_of_time_with_what_they_rest_on() -> None:
    later = move(9.0, "image", 0, 2)
    sooner = move(3.5, "video", 2, 0, link_bytes_per_s=1_000_000)
    other = Event(kind=Kind.CALL, name="transform", begin_ns=S)
    job, tables = of([later, STEP, sooner, other])
    assert [(cut.at_s, cut.samples) for cut in job.cuts] == [(2.5, "video"), (8.0, "image")]
    assert job.cuts[0] == CutMove(
        at_s=2.5, samples="video", ops_before=2, ops=0, sample_bytes=49_152,
        agent_s=0.002, trainer_s=0.0, link_bytes_per_s=1_000_000,
    )  # fmt: skip
    assert job.cuts[1].link_bytes_per_s is None, "no sample was waited for"
    rows = tables["Agents run other ops"].rows
    assert [row[:3] for row in rows] == [("2.50 s", "video", "2 → 0"), ("8.00 s", "image", "0 → 2")]


def test_a_job_whose_cut_stayed_has_no_such_table() -> None:
    job, tables = of([STEP])
    assert job.cuts == ()
    assert "Agents run other ops" not in tables


def test_the_first_of_very_many_are_kept_however_they_come() -> None:
    moves = [move(number, "image", 0, 2) for number in range(3 * MOST_MOVES)]
    random.Random(1).shuffle(moves)
    cuts = MovedCuts()
    for begin in range(0, len(moves), 100):
        cuts.add(Columns(batch_of(moves[begin : begin + 100])))
    assert [cut.at_s for cut in cuts.result(0)] == list(range(MOST_MOVES))
    assert cuts.given_up == 2 * MOST_MOVES
