"""Zeros and large sums that a trace may tell are analysed without a word."""

from __future__ import annotations

import pytest

from headrace.analysis.analyser import Analyser
from headrace.trace.events import Event, Kind, batch_of
from headrace.trace.importer import Notes

BEGIN_NS = 1_700_000_000_000_000_000
WAIT = Event(kind=Kind.WAIT, begin_ns=BEGIN_NS + 3 * 10**9, duration_ns=348_292_712, job="j")


@pytest.mark.parametrize(
    "read",
    [
        Event(kind=Kind.RETRIEVAL, begin_ns=BEGIN_NS, duration_ns=0, job="j", bytes=100),
        Event(kind=Kind.RETRIEVAL, begin_ns=BEGIN_NS, duration_ns=10**8, job="j", bytes=1, count=0),
    ],
)
def test_reads_of_no_time_or_of_no_number_are_no_divisors(read: Event) -> None:
    analyser = Analyser()
    analyser.add(batch_of([read, WAIT]))
    assert analyser.result(format_name="x", notes=Notes()).jobs[0].job == "j"


def test_reads_of_a_file_may_take_longer_than_a_fraction_can_count() -> None:
    load = Event(kind=Kind.RETRIEVAL, begin_ns=BEGIN_NS, duration_ns=10**8, job="j", bytes=100)
    read = Event(
        kind=Kind.CHECKPOINT_READ,
        begin_ns=BEGIN_NS + 10**9,
        duration_ns=2**56,
        job="j",
        file="/a/b",
    )
    analyser = Analyser()
    analyser.add(batch_of([load, read]))
    assert analyser.result(format_name="x", notes=Notes()).jobs[0].job == "j"
