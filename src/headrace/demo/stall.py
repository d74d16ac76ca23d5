"""How long a demo's loop stood still, told by the analysis that traces go through. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headrace.analysis.analyser import Analyser
from headrace.analysis.figures import Spread
from headrace.demo.protocol import Stepped
from headrace.trace.events import Event, Kind, batch_of
from headrace.trace.importer import Notes

_NS_PER_S = 1e9


class Stall(NamedTuple):
    """Of the loops of some segments."""

    share: float
    """Of their time, 0 to 1."""

    wait_s: Spread
    """For each step's batch [s]."""


def stall_of(segments: Sequence[Sequence[Stepped]]) -> Stall:
    """Return how long the loops waited, segment by segment; each has at least one step."""
    analyser = Analyser()
    analyser.add(batch_of(_events(segments)))
    (job,) = analyser.result(format_name="demo", notes=Notes()).jobs
    assert job.accelerators is not None
    assert job.wait_s is not None
    return Stall(job.accelerators.idle_share, job.wait_s)


def _events(segments: Sequence[Sequence[Stepped]]) -> Iterator[Event]:
    """Yield each segment's steps as those of a rank of its own: time between them is no stall."""
    for rank, steps in enumerate(segments):
        for step in steps:
            begin_ns = round(step.begin_s * _NS_PER_S)
            for kind, seconds in ((Kind.STEP, step.end_s - step.begin_s), (Kind.WAIT, step.wait_s)):
                duration_ns = round(seconds * _NS_PER_S)
                yield Event(
                    kind=kind,
                    begin_ns=begin_ns,
                    duration_ns=duration_ns,
                    rank=rank,
                    step=step.step,
                )
