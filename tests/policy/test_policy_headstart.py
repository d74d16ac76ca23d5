"""Which heavy samples begin before their step, and a training loop without agents by a clock.

Figures of one core of an EPYC 7003: a photograph of 960 x 720 is decoded in 7 ms, a clip of
60 s of 1280 x 720 in 3.4 s. A step takes 0.25 s and needs 16 samples; two threads make them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import pytest

from headrace.core.errors import ConfigError
from headrace.core.parts import WHOLE, SamplePart, parts_of
from headrace.policy.headstart import EarlyPiece, HeadStartLimits, HeadStarts, Takes

MB = 1 << 20
STEP_S = 0.25
WIDTH = 16
PICTURE_S = 0.007
CLIP_S = 3.4
EVERY = 20
AHEAD = 4
THREADS = 2


def piece(step: int, sample: int = 0, part: SamplePart = WHOLE) -> EarlyPiece:
    return EarlyPiece(step, sample, 0, part)


def starts(
    *, making: int = 1, short: int = 1, samples: int = 4, budget_bytes: int = 100 * MB
) -> HeadStarts:
    return HeadStarts(
        HeadStartLimits(
            making=making, making_short=short, samples=samples, budget_bytes=budget_bytes
        )
    )


def begun(one: HeadStarts, *, lead_s: float = 1.0, takes_s: float = CLIP_S) -> EarlyPiece | None:
    return one.begin_next(lead_s=lead_s, takes=lambda _: Takes(takes_s, takes_s))


def test_the_nearest_begins_first_and_few_are_made_at_a_time() -> None:
    one = starts(making=2)
    for step in (11, 12, 13):
        one.foresee(piece(step), MB)
    assert [begun(one) for _ in range(3)] == [piece(11), piece(12), None]
    assert one.is_making(piece(11))
    one.end(piece(12), MB)
    assert begun(one) == piece(13)


def test_short_parts_may_have_all_threads_and_long_ones_leave_some_to_nearer_steps() -> None:
    one = starts(making=1, short=3)
    for number, part in enumerate(parts_of(4)):
        one.foresee(piece(11 + number, part=part), MB)
    short, long = Takes(0.5, CLIP_S), Takes(0.6, CLIP_S)
    assert one.begin_next(lead_s=1.0, takes=lambda _: long) is not None
    assert one.begin_next(lead_s=1.0, takes=lambda _: long) is None
    assert one.begin_next(lead_s=1.0, takes=lambda _: short) is not None
    assert one.begin_next(lead_s=1.0, takes=lambda _: short) is not None
    assert one.begin_next(lead_s=1.0, takes=lambda _: short) is None


def test_what_its_own_step_makes_in_time_is_not_begun_early() -> None:
    one = starts()
    one.foresee(piece(11), MB)
    one.foresee(piece(12, sample=1), MB)
    costs = {0: Takes(0.4, 0.4), 1: Takes(0.6, 0.6)}
    assert one.begin_next(lead_s=1.0, takes=lambda early: costs[early.sample]) == piece(12, 1)
    assert begun(one, lead_s=1.0, takes_s=0.5) is None


def test_memory_is_never_exceeded_and_the_nearest_has_it_first() -> None:
    one = starts(making=3, budget_bytes=10 * MB)
    one.foresee(piece(11), 6 * MB)
    one.foresee(piece(12), 6 * MB)
    one.foresee(piece(13), MB)
    assert begun(one) == piece(11)
    assert begun(one) is None, "a further one that would fit does not take the nearer one's"
    assert not one.end(piece(11), 11 * MB), "it turned out too large to be kept"
    assert begun(one) == piece(12)
    assert one.end(piece(12), 4 * MB)
    assert begun(one) == piece(13)
    assert one.held_bytes == 5 * MB
    one.take(piece(12))
    assert one.held_bytes == MB


def test_what_memory_can_never_hold_keeps_no_other_from_it() -> None:
    one = starts(budget_bytes=10 * MB)
    one.foresee(piece(11), 11 * MB)
    one.foresee(piece(12), MB)
    assert begun(one) == piece(12)
    assert one.pass_by(11) == []


def test_so_many_samples_are_ahead_whatever_their_parts() -> None:
    one = starts(making=9, samples=2)
    for step in (11, 12, 13):
        for part in parts_of(2):
            one.foresee(piece(step, part=part), MB)
    found = [begun(one) for _ in range(5)]
    assert [early and early.step for early in found] == [11, 11, 12, 12, None]


def test_a_failure_leaves_nothing_and_a_step_forgets_what_it_does_not_need() -> None:
    one = starts(making=2)
    for step in (11, 12):
        one.foresee(piece(step), MB)
    begun(one)
    assert not one.end(piece(11), None)
    assert one.pass_by(11) == []
    assert one.pass_by(12) == [piece(12)]
    assert (one.pass_by(12), one.held_bytes, begun(one)) == ([], 0, None)


def test_what_is_made_after_its_step_went_without_it_is_not_kept() -> None:
    one = starts()
    one.foresee(piece(11), MB)
    begun(one)
    assert one.pass_by(11) == []
    assert not one.end(piece(11), MB)
    assert one.held_bytes == 0


def test_no_more_is_foreseen_than_is_remembered() -> None:
    one = HeadStarts(
        HeadStartLimits(making=1, making_short=1, samples=1, budget_bytes=MB, foreseen=2)
    )
    one.foresee(piece(11), MB)
    assert one.wants_more
    one.foresee(piece(12), MB)
    assert not one.wants_more


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        starts(making=0)


@dataclass
class Loop:
    """A loop, the steps that may be made ahead of it, and threads that make the nearest first."""

    parts: int
    looks_beyond: bool
    waits: list[float] = field(default_factory=list)

    def run(self, steps: int) -> list[float]:
        self.now = 0.0
        self.starts = starts(short=THREADS, budget_bytes=1000 * MB)
        self.queue: list[tuple[int, int, EarlyPiece]] = []
        self.working: list[tuple[float, int, EarlyPiece]] = []
        self.open: dict[int, set[EarlyPiece]] = {}
        self.made: set[EarlyPiece] = set()
        self.count = 0
        for step in range(AHEAD):
            self.claim(step)
        for step in range(steps):
            self.take(step)
        return self.waits

    def pieces(self, step: int) -> list[EarlyPiece]:
        clip = step % EVERY == EVERY - 1
        heavy = [piece(step, 0, part) for part in parts_of(self.parts)] if clip else []
        return heavy + [piece(step, number) for number in range(bool(clip), WIDTH)]

    def is_heavy(self, early: EarlyPiece) -> bool:
        return early.sample == 0 and early.step % EVERY == EVERY - 1

    def takes_s(self, early: EarlyPiece) -> float:
        return CLIP_S / early.part.count if self.is_heavy(early) else PICTURE_S

    def claim(self, step: int) -> None:
        """Let a step be made; what was begun early is not made again."""
        own = set(self.pieces(step)) - self.made
        self.open[step] = own
        for early in self.pieces(step):
            if early in own and not self.starts.is_making(early):
                self.push(early)
            self.starts.take(early)
        if self.looks_beyond:
            for early in filter(self.is_heavy, self.pieces(step + 40)):
                self.starts.foresee(early, MB)
        self.work()

    def push(self, early: EarlyPiece) -> None:
        self.count += 1
        heapq.heappush(self.queue, (early.step, self.count, early))

    def work(self) -> None:
        while early := self.starts.begin_next(lead_s=AHEAD * STEP_S, takes=self.takes):
            self.push(early)
        while self.queue and len(self.working) < THREADS:
            _, number, early = heapq.heappop(self.queue)
            heapq.heappush(self.working, (self.now + self.takes_s(early), number, early))

    def takes(self, early: EarlyPiece) -> Takes:
        return Takes(self.takes_s(early), CLIP_S / (THREADS if self.parts > 1 else 1))

    def finish_next(self) -> None:
        self.now, _, early = heapq.heappop(self.working)
        if self.starts.is_making(early):
            self.starts.end(early, MB)
        self.made.add(early)
        self.open.get(early.step, set()).discard(early)
        self.work()

    def take(self, step: int) -> None:
        """Work for a step's time, wait for the next one, and make room for another."""
        due = self.now + STEP_S
        while self.working and self.working[0][0] <= due:
            self.finish_next()
        self.now = due
        while self.open[step]:
            self.finish_next()
        self.waits.append(self.now - due)
        self.claim(step + AHEAD)


@pytest.mark.parametrize("parts", [1, 13])
def test_a_clip_of_a_minute_delays_no_batch_of_a_loop_without_agents(parts: int) -> None:
    late = Loop(parts, looks_beyond=False).run(6 * EVERY)
    assert max(late) > 0.3, "it is late when it begins with its step"
    waits = Loop(parts, looks_beyond=True).run(6 * EVERY)
    assert max(waits[2 * EVERY :]) == 0.0
