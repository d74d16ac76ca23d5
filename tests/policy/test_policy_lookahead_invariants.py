"""What holds for the consumer queue whatever happens, in whatever order."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from headrace.core.parts import WHOLE, SamplePart, parts_of
from headrace.policy.lookahead import Lookahead
from headrace.policy.lookahead_events import (
    AskCancelled,
    Asked,
    Broken,
    Crashed,
    Drop,
    Encoded,
    Event,
    FetchBegan,
    FetchEnded,
    Finished,
    Grow,
    GrowAsked,
    GuardDecided,
    JobChanged,
    JobRemoved,
    ModeChanged,
    PlanChanged,
    Planned,
    QuotasChanged,
    Read,
    ReadAsked,
    ReadWithdrawn,
    Refuse,
    Sent,
    Serve,
    ServeMissing,
    ServeRaw,
    Start,
    Stored,
    Tick,
    Visit,
)
from headrace.policy.lookahead_limits import LookaheadLimits

BUDGET = 40 * 4096


class Plan:
    def __init__(self, recipe: str, shift: int = 0) -> None:
        self._recipe = recipe
        self._shift = shift

    def due(self, step: int) -> list[Planned]:
        begin = step * 3 + self._shift
        return [self.foresee(sample, 0, part) for sample, part in pieces(range(begin, begin + 3))]

    def foresee(self, sample: int, epoch: int, part: SamplePart = WHOLE) -> Planned:
        return Planned(
            sample=sample, epoch=epoch, part=part, kind="ab"[sample % 2],
            cost_s=0.01 * (1 + sample % 5), nbytes=4096 * (1 + sample % 3),
        )  # fmt: skip

    def recipe(self, sample: int) -> str:
        return self._recipe if sample % 5 else ""

    def unkept(self, sample: int) -> Encoded | None:
        return ("url", "digest", sample) if sample % 3 else None

    def stored(self, sample: int) -> Stored:
        return Stored(tier=("hdd", "ssd")[sample % 2], nbytes=10_000)


def pieces(samples: range) -> list[tuple[int, SamplePart]]:
    """Return every seventh sample in two parts, the others as a whole."""
    return [(sample, part) for sample in samples for part in parts_of(1 + (sample % 7 == 0))]


class World:
    """Carries out actions and checks each against what the queue may do."""

    def __init__(self, *, sharing: bool) -> None:
        self.sharing = sharing
        self.queue = Lookahead(LookaheadLimits(memory=BUDGET, workers=3))
        self.now = 0.0
        self.reserved: dict[int, int] = {}
        self.running: list[int] = []
        self.bundles: dict[int, int] = {}
        self.sending: list[int] = []
        self.made: set[int] = set()
        self.visits: dict[int, Visit] = {}
        self.open: dict[int, int] = {}
        self.answers: Counter[int] = Counter()
        self.jobs: set[str] = set()
        self.requests = 0
        self.reads: set[int] = set()
        self.fetched: list[Visit] = []

    def tell(self, event: Event) -> None:
        for action in self.queue.handle(event, self.now):
            match action:
                case Start():
                    assert action.ticket not in self.reserved
                    self.reserved[action.ticket] = action.nbytes
                    self.running.append(action.ticket)
                    self.bundles[action.ticket] = action.bundle
                    self.visits[action.ticket] = action.visit
                case Grow():
                    self.reserved[action.ticket] = action.nbytes
                case Refuse():
                    self.running.remove(action.ticket)
                    del self.reserved[action.ticket]
                case Drop():
                    assert action.ticket not in self.sending
                    self.made.remove(action.ticket)
                    del self.reserved[action.ticket]
                case Serve():
                    assert action.ticket in self.made
                    assert content(action.visit) == content(self.visits[action.ticket])
                    assert action.shared == (action.visit.job != self.visits[action.ticket].job)
                    assert self.sharing or action.ticket not in self.sending
                    self.sending.append(action.ticket)
                    self.answers[action.request] += 1
                case ServeRaw() | ServeMissing():
                    self.answers[action.request] += 1
                case Read():
                    self.reads.remove(action.read)
        held = sum(-(-nbytes // 4096) * 4096 for nbytes in self.reserved.values())
        assert held == self.queue.statistics().memory_used_bytes <= BUDGET
        assert len({self.bundles[ticket] for ticket in self.running}) <= 3

    def finish(self, ticket: int, nbytes: int) -> None:
        self.running.remove(ticket)
        self.reserved[ticket] = min(nbytes, self.reserved[ticket])
        self.made.add(ticket)
        self.tell(Finished(ticket=ticket, nbytes=self.reserved[ticket], seconds=0.02))

    def send(self, place: int) -> None:
        self.tell(Sent(ticket=self.sending.pop(place)))

    def fail(self, event: Broken | Crashed) -> None:
        self.running.remove(event.ticket)
        del self.reserved[event.ticket]
        self.tell(event)


def content(visit: Visit) -> tuple[int, int]:
    return visit.sample, visit.epoch


STEPS = st.lists(
    st.tuples(
        st.sampled_from("jjaaaaffffffgbcsssxturkmpqqwwvhhi"), st.integers(0, 60), st.integers(0, 9)
    ),
    max_size=120,
)


def play(world: World, letter: str, number: int, choice: int) -> None:
    name = f"job{choice % 2}"
    recipe = ("one", "two")[number % 11 == 0] if world.sharing else ""
    world.now += 0.01 * choice
    if letter == "j":
        world.jobs.add(name)
        world.tell(JobChanged(job=name, plan=Plan(recipe), start_step=number % 20, step_time_s=0.1))
    elif letter == "k" and name in world.jobs:
        world.jobs.remove(name)
        world.tell(JobRemoved(job=name))
    elif letter == "p" and name in world.jobs:
        world.tell(PlanChanged(job=name, plan=Plan(recipe, shift=number % 7)))
    elif letter == "m" and name in world.jobs:
        world.tell(ModeChanged(job=name, raw_only="differs" if number % 2 else ""))
    elif letter == "a" and name in world.jobs:
        world.requests += 1
        asked = pieces(range(number, number + 1 + choice))
        world.open[world.requests] = len(asked)
        world.tell(
            Asked(
                request=world.requests, job=name, step=number // 3, rank=choice % 2, world=2,
                samples=[sample for sample, _ in asked], parts=[part for _, part in asked],
                epochs=[0] * len(asked), consumed_step=number // 3 - choice % 4,
                step_time_s=0.05 * choice, wait_s=0.1 * choice, raw=choice == 7,
            )
        )  # fmt: skip
    elif letter == "u" and world.requests:
        request = 1 + number % world.requests
        if world.open.pop(request, None) is not None:
            world.tell(AskCancelled(request=request))
    elif letter == "s" and world.sending:
        world.send(number % len(world.sending))
    elif letter == "x":
        world.tell(GuardDecided(workers=1 + choice % 3, transform=choice < 7, reason="busy"))
    elif letter == "q":
        rates = {"hdd": 10_000.0 * number, "ssd": 1e5 * choice}
        world.tell(QuotasChanged(quotas={name: rates} if choice < 7 else {}))
    elif letter == "w":
        world.requests += 1
        world.reads.add(world.requests)
        world.open[world.requests] = 0
        world.tell(
            ReadAsked(
                read=world.requests, job=name, tier="hdd", nbytes=1000 * number, step=choice
            )
        )  # fmt: skip
    elif letter == "v" and world.reads:
        read = min(world.reads)
        world.reads.remove(read)
        world.tell(ReadWithdrawn(read=read))
    elif letter == "h":
        visits = world.queue.upcoming(name)[choice : choice + number]
        world.fetched += visits
        world.tell(FetchBegan(job=name, visits=visits))
    elif letter == "i":
        ended, world.fetched = world.fetched[:number], world.fetched[number:]
        world.tell(FetchEnded(job=name, visits=[visit for visit in ended if visit.job == name]))
        world.fetched += [visit for visit in ended if visit.job != name]
    elif letter == "t":
        world.tell(Tick())
    elif world.running and letter in "fgbcr":
        ticket = world.running[number % len(world.running)]
        if letter == "f":
            world.finish(ticket, 1 + number * 300)
        elif letter == "g":
            world.tell(GrowAsked(ticket=ticket, nbytes=world.reserved[ticket] + number * 1000))
        elif letter == "b":
            world.fail(Broken(ticket=ticket, code="corrupt", reason="x"))
        else:
            world.fail(Crashed(ticket=ticket, reason="x"))


@seed(20260101)
@settings(max_examples=300, deadline=None)
@pytest.mark.parametrize("sharing", [False, True])
@given(steps=STEPS)
def test_every_question_gets_exactly_one_answer_and_memory_adds_up(
    sharing: bool, steps: list[tuple[str, int, int]]
) -> None:
    world = World(sharing=sharing)
    for letter, number, choice in steps:
        play(world, letter, number, choice)
    world.tell(QuotasChanged(quotas={}))
    assert not world.reads
    for name in ("job0", "job1"):
        world.tell(FetchEnded(job=name, visits=world.fetched))
    world.now += 100.0
    world.tell(Tick())
    for request, asked in world.open.items():
        assert world.answers[request] == asked
    for name in list(world.jobs):
        world.tell(JobRemoved(job=name))
    for ticket in list(world.running):
        world.finish(ticket, 1)
    while world.sending:
        world.send(0)
    assert not world.reserved
    assert world.queue.statistics().memory_used_bytes == 0
