"""Samples that are made in parts: each part is started, kept, served and lost by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from queue_for_tests import KB, Bench, Steps, only

from headrace.core.parts import SamplePart, parts_of
from headrace.policy.lookahead_events import (
    Asked,
    Broken,
    Crashed,
    Planned,
    QuotasChanged,
    Serve,
    ServeMissing,
    ServeRaw,
    Start,
    Tick,
)

CLIP = 4
"""Sample of step 2 that is made in parts."""


@dataclass
class InParts(Steps):
    count: int = 3

    def due(self, step: int) -> Sequence[Planned]:
        begin = step * self.width
        return [
            self.foresee(sample, 0, part)
            for sample in range(begin, begin + self.width)
            for part in parts_of(self.count if sample == CLIP else 1)
        ]


def parts(starts: Sequence[Start]) -> list[SamplePart]:
    return [start.visit.part for start in starts if start.visit.sample == CLIP]


def ask(bench: Bench, *wanted: SamplePart, wait_s: float = 1.0) -> list:  # type: ignore[type-arg]
    return bench.tell(
        Asked(
            request=9, job="job", step=2, rank=0, world=1, samples=[CLIP] * len(wanted),
            epochs=[0] * len(wanted), consumed_step=0, step_time_s=0.1, wait_s=wait_s, parts=wanted,
        )
    )  # fmt: skip


def running(workers: int = 8, **plan: object) -> Bench:
    bench = Bench(workers=workers)
    bench.job(plan=InParts(heavy={CLIP: 0.5}, **plan))  # type: ignore[arg-type]
    return bench


def test_parts_run_side_by_side_each_with_its_own_memory() -> None:
    bench = running(count=3)
    assert sorted(part.number for part in parts(bench.started)) == [0, 1, 2]
    assert len({start.ticket for start in bench.started}) == len(bench.started)


def test_parts_are_served_by_themselves() -> None:
    bench = running()
    first, *others = [start for start in bench.started if start.visit.sample == CLIP]
    bench.finish(first)
    (served,) = only(ask(bench, *parts_of(3)), Serve)
    assert served.visit.part == first.visit.part
    for start in others:
        (served,) = only(bench.finish(start), Serve)
        assert served.visit.part == start.visit.part


def test_a_part_that_takes_its_worker_down_is_started_again_alone() -> None:
    bench = running()
    first, *_ = [start for start in bench.started if start.visit.sample == CLIP]
    (again,) = only(bench.tell(Crashed(ticket=first.ticket, reason="killed")), Start)
    assert again.visit == first.visit
    assert not parts(only(bench.tell(Crashed(ticket=again.ticket, reason="killed")), Start))
    answers = only(ask(bench, *parts_of(3)), ServeRaw)
    assert {answer.code for answer in answers} == {"crashed"}, "the sample is not trusted any more"


def test_a_broken_part_says_nothing_of_the_others() -> None:
    bench = running()
    first, *others = [start for start in bench.started if start.visit.sample == CLIP]
    ask(bench, *parts_of(3))
    (missing,) = only(
        bench.tell(Broken(ticket=first.ticket, code="corrupt", reason="a bad frame")), ServeMissing
    )
    assert missing.visit.part == first.visit.part
    assert len([only(bench.finish(start), Serve) for start in others]) == 2


def test_another_division_of_a_sample_is_made_by_itself() -> None:
    bench = running()
    ask(bench, *parts_of(2))
    for start in list(bench.started)[:4]:
        bench.finish(start)
    assert set(parts(bench.started)) >= set(parts_of(2))


def test_a_part_pays_its_part_of_what_is_read() -> None:
    bench = Bench(workers=8)
    bench.tell(QuotasChanged(quotas={"job": {"hdd": 400 * KB}}))
    bench.job(plan=InParts(width=1, heavy={CLIP: 0.5}, stored_bytes=90 * KB))
    for at in range(100):
        bench.tell(Tick(), at=at / 100)
    # 0.25 s are saved up, then 400 KB/s: after 0.99 s at most 496 KB and one more were read
    assert sum(start.visit.part.of(90 * KB) for start in bench.started) <= 496 * KB + 90 * KB
    assert len(parts(bench.started)) == 3
