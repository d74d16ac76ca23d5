"""The consumer queue on a bench: a plan, and a queue that is told things at times made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.core.parts import WHOLE, SamplePart
from headrace.policy.lookahead import Lookahead
from headrace.policy.lookahead_events import (
    Action,
    Asked,
    Encoded,
    Event,
    Finished,
    JobChanged,
    Planned,
    Start,
    Stored,
)
from headrace.policy.lookahead_limits import LookaheadLimits
from headrace.policy.window import WindowLimits

KB = 1024
MB = 1024 * KB


@dataclass
class Steps:
    """A plan whose step ``s`` holds the samples ``s * width`` to ``s * width + width - 1``."""

    width: int = 2
    cost_s: float = 0.01
    nbytes: int = 100 * KB
    heavy: dict[int, float] = field(default_factory=dict)
    large: dict[int, int] = field(default_factory=dict)
    unprepared: frozenset[int] = frozenset()
    first: int = 0
    stored_bytes: int = 100_000
    tiers: dict[int, str] = field(default_factory=dict)
    content: str = ""
    leaves_copies: bool = False

    def due(self, step: int) -> Sequence[Planned]:
        begin = self.first + step * self.width
        return [self.foresee(sample, 0) for sample in range(begin, begin + self.width)]

    def foresee(self, sample: int, epoch: int, part: SamplePart = WHOLE) -> Planned:
        return Planned(
            sample=sample,
            epoch=epoch,
            part=part,
            kind="image",
            cost_s=self.heavy.get(sample, self.cost_s),
            nbytes=self.large.get(sample, self.nbytes),
            prepare=sample not in self.unprepared,
        )

    def recipe(self, sample: int) -> str:
        return self.content

    def unkept(self, sample: int) -> Encoded | None:
        return ("url", "digest", sample) if self.leaves_copies else None

    def stored(self, sample: int) -> Stored:
        return Stored(tier=self.tiers.get(sample, "hdd"), nbytes=self.stored_bytes)


def only(actions: list[Action], kind: type) -> list:
    """Return the actions of one kind."""
    return [action for action in actions if isinstance(action, kind)]


class Bench:
    """A queue and what it said so far."""

    def __init__(
        self, *, memory: int = 100 * MB, workers: int = 2, window: WindowLimits | None = None
    ) -> None:
        self.queue = Lookahead(
            LookaheadLimits(memory=memory, workers=workers, window=window or WindowLimits())
        )
        self.now = 0.0
        self.started: list[Start] = []
        self._requests = 0

    def tell(self, event: Event, at: float | None = None) -> list[Action]:
        self.now = self.now if at is None else at
        actions = self.queue.handle(event, self.now)
        self.started += [action for action in actions if isinstance(action, Start)]
        return actions

    def job(self, name: str = "job", plan: Steps | None = None, **options: object) -> list[Action]:
        given = {"start_step": 0, "step_time_s": 0.1, **options}
        return self.tell(JobChanged(job=name, plan=plan or Steps(), **given))  # type: ignore[arg-type]

    def ask(
        self, step: int, *samples: int, job: str = "job", wait_s: float = 1.0, raw: bool = False,
        consumed: int | None = None, rank: int = 0, world: int = 1, step_time_s: float = 0.1,
        epoch: int = 0,
    ) -> list[Action]:  # fmt: skip
        self._requests += 1
        return self.tell(
            Asked(
                request=self._requests, job=job, step=step, rank=rank, world=world,
                samples=samples, epochs=[epoch] * len(samples),
                consumed_step=step - 1 if consumed is None else consumed,
                step_time_s=step_time_s, wait_s=wait_s, raw=raw,
            )
        )  # fmt: skip

    def finish(self, start: Start, *, nbytes: int | None = None, seconds: float = 0.01):
        self.started.remove(start)
        return self.tell(
            Finished(
                ticket=start.ticket,
                nbytes=start.nbytes if nbytes is None else nbytes,
                seconds=seconds,
            )
        )

    def finish_all(self, count: int) -> None:
        for _ in range(count):
            self.finish(self.started[0])

    def running_samples(self) -> list[int]:
        return [start.visit.sample for start in self.started]
