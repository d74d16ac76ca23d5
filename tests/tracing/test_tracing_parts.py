"""The parts of a load: together the whole of it, each for a reason that was seen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.tracing.probe.parts import Parts, Seen, parts_of

TIMES = st.integers(0, 10**12)


def parts(metadata: int, retrieval: int, transformation: int, overhead: int) -> Parts:
    return Parts(
        metadata=metadata,
        retrieval=retrieval,
        transformation=transformation,
        overhead=overhead,
    )


def seen(**values: int) -> Seen:
    nothing = {"opening_ns": 0, "reading_ns": 0, "collating_ns": 0, "cpu_ns": 0, "unseen_bytes": 0}
    return Seen(**{"took_ns": 100, **nothing, **values})


def test_computing_is_transformation() -> None:
    assert parts_of(seen(cpu_ns=100)) == parts(0, 0, 100, 0)


def test_opening_and_reading_are_what_they_took() -> None:
    assert parts_of(seen(cpu_ns=60, opening_ns=10, reading_ns=30)) == parts(10, 30, 60, 0)


def test_sleep_is_retrieval_where_bytes_came_in_that_no_hook_saw() -> None:
    assert parts_of(seen(cpu_ns=40, unseen_bytes=1)) == parts(0, 60, 40, 0)


def test_sleep_of_another_reason_is_overhead() -> None:
    assert parts_of(seen(cpu_ns=40)) == parts(0, 0, 40, 60)


def test_making_a_batch_is_overhead() -> None:
    assert parts_of(seen(cpu_ns=100, collating_ns=15)) == parts(0, 0, 85, 15)


@given(TIMES, st.floats(0, 1), st.floats(0, 1), TIMES, TIMES, st.integers(0, 10))
def test_parts_are_the_whole_load(
    took: int, opening: float, reading: float, collating: int, cpu: int, unseen: int
) -> None:
    opening_ns = int(took * opening)
    reading_ns = int((took - opening_ns) * reading)
    found = parts_of(Seen(took_ns=took, opening_ns=opening_ns, reading_ns=reading_ns,
                          collating_ns=collating, cpu_ns=cpu, unseen_bytes=unseen))  # fmt: skip
    every = (found.metadata, found.retrieval, found.transformation, found.overhead)
    assert sum(every) == took
    assert min(every) >= 0
