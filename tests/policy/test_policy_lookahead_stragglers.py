"""A training loop against the queue, on a clock of its own: what a heavy sample does to others.

Figures of one core of an EPYC 7003: a photograph of 960 x 720 is decoded in 7 ms, a clip of
60 s of 1280 x 720 in 3.4 s. A step takes 0.25 s and needs 16 samples; two workers make them.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from queue_for_tests import MB, Bench, Steps, only

from headrace.core.parts import WHOLE, SamplePart, parts_of
from headrace.policy.lookahead_events import (
    Action,
    Asked,
    Planned,
    Sent,
    Serve,
    ServeRaw,
    Start,
    Tick,
)
from headrace.policy.window import WindowLimits

STEP_S = 0.25
WIDTH = 16
PICTURE_S = 0.007
CLIP_S = 3.4
EVERY = 20
"""One sample of every so many steps is a clip."""

LEAD_S = 1.0
"""Samples are started this long before they have to be, and no earlier: less than a clip takes."""


def is_clip(sample: int) -> bool:
    return sample % (EVERY * WIDTH) == (EVERY - 1) * WIDTH


def taken_s(start: Start) -> float:
    return CLIP_S / start.visit.part.count if is_clip(start.visit.sample) else PICTURE_S


@dataclass
class Mixed(Steps):
    """Pictures and clips, of which headers tell ``told`` times what they take."""

    width: int = WIDTH
    told: float = 1.0
    parts: int = 1

    def due(self, step: int) -> Sequence[Planned]:
        begin = step * self.width
        return [
            self.foresee(sample, 0, part)
            for sample in range(begin, begin + self.width)
            for part in parts_of(self.parts if is_clip(sample) else 1)
        ]

    def foresee(self, sample: int, epoch: int, part: SamplePart = WHOLE) -> Planned:
        kind, cost_s = ("video", self.told * CLIP_S) if is_clip(sample) else ("image", PICTURE_S)
        return Planned(
            sample=sample, epoch=epoch, part=part, kind=kind, cost_s=cost_s / part.count, nbytes=MB
        )


@dataclass
class Loop:
    """Trains on what the queue serves; ``waits`` is how long each step was waited for [s]."""

    plan: Mixed
    waits: list[float] = field(default_factory=list)
    open: int = 0
    """Samples of the step that are still to come."""

    def run(self, steps: int) -> list[float]:
        self.bench = Bench(memory=1024 * MB, window=WindowLimits(lead_s=LEAD_S))
        self.finishing: list[tuple[float, int, Start]] = []
        self.take_in(self.bench.job(plan=self.plan, step_time_s=STEP_S))
        for step in range(steps):
            self.train(step)
        return self.waits

    def train(self, step: int) -> None:
        due = self.bench.now + STEP_S
        self.pass_until(due)
        asked = self.plan.due(step)
        self.open = len(asked)
        self.take_in(self.ask(step, asked))
        while self.open:
            self.pass_until(self.finishing[0][0])
        self.waits.append(self.bench.now - due)

    def ask(self, step: int, asked: Sequence[Planned]) -> list[Action]:
        return self.bench.tell(
            Asked(
                request=step, job="job", step=step, rank=0, world=1,
                samples=[planned.sample for planned in asked], epochs=[0] * len(asked),
                parts=[planned.part for planned in asked], consumed_step=step - 1,
                step_time_s=STEP_S, wait_s=60.0,
            )
        )  # fmt: skip

    def pass_until(self, at: float) -> None:
        while self.finishing and self.finishing[0][0] <= at:
            time, _, start = heapq.heappop(self.finishing)
            self.bench.now = time
            self.take_in(self.bench.finish(start, seconds=taken_s(start)))
        self.take_in(self.bench.tell(Tick(), at=at))

    def take_in(self, actions: list[Action]) -> None:
        for start in only(actions, Start):
            heapq.heappush(self.finishing, (self.bench.now + taken_s(start), start.ticket, start))
        assert not only(actions, ServeRaw)
        for served in only(actions, Serve):
            self.open -= 1
            self.take_in(self.bench.tell(Sent(ticket=served.ticket)))


@pytest.mark.parametrize("parts", [1, 4])
def test_a_heavy_clip_among_pictures_delays_no_step(parts: int) -> None:
    waits = Loop(Mixed(parts=parts)).run(5 * EVERY)
    assert max(waits) < PICTURE_S


def test_a_header_that_tells_too_little_delays_one_step_and_no_other_after_it() -> None:
    waits = Loop(Mixed(told=0.1)).run(5 * EVERY)
    late = [step for step, wait_s in enumerate(waits) if wait_s > PICTURE_S]
    assert late == [EVERY - 1]


def test_parts_shorten_what_a_clip_that_nobody_foresaw_is_waited_for() -> None:
    alone, divided = (max(Loop(Mixed(told=0.1, parts=parts)).run(2 * EVERY)) for parts in (1, 4))
    assert divided < 0.6 * alone
