"""Where a running job is split between agents and this host, and what that rests on.

Gatherers say what samples took and how long bytes were waited for. About once a second that
goes to :class:`headrace.policy.cutting.MovingCut`; the first rank tells agents what it decides.
Frames name their cut, so agents and ranks need not agree for batches to be right.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headrace.client.cpus import OtherWork
from headrace.client.member import Member
from headrace.policy.cutting import CutCost, MovingCut, Seen
from headrace.transform.program import Program
from headrace.transform.split import SplitPlan
from headrace.wire.stream import Wait

logger = logging.getLogger("headrace.client")

ROUND_S = 1.0
"""Time between two looks at what was measured [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredSplit:
    """What was measured of one kind while the job runs."""

    cut: int
    """Where it is cut now."""

    costs: tuple[CutCost, ...]
    """Each cut that was possible."""

    bandwidth: float | None
    """Of the link from agents, where it was waited for [B/s]."""

    storage_price: float
    trainer_price: float
    """Worth of a CPU second on either side, in those of a busy trainer."""


class StepTally:
    """What one step tells. For the thread that gathers it."""

    def __init__(self) -> None:
        self.seen = Seen()
        self.waits: list[Wait] = []
        self.cpu_s = 0.0
        """CPU of this process that the step took [s]."""

    def waited(self, wait: Wait | None) -> None:
        """Note a time in which bytes were waited for."""
        if wait is not None:
            self.waits.append(wait)


class Splitting:
    """The split of one loader. Thread-safe."""

    def __init__(
        self,
        program: Program,
        plan: SplitPlan,
        targets: Mapping[str, int],
        *,
        fixed: frozenset[str],
        decides: bool,
    ) -> None:
        """Begin with what was planned.

        Args:
            program: The job's pipeline.
            plan: What was planned from headers.
            targets: Kind → cut at which batches take its samples.
            fixed: Kinds whose cut stays.
            decides: Whether this rank decides for the job.
        """
        moving = {kind: steps for kind, steps in plan.steps.items() if kind not in fixed}
        self._policy = MovingCut(program, SplitPlan(cuts=plan.cuts, steps=moving), targets)
        self._moving = frozenset(moving)
        self._decides = decides
        self._lock = threading.Lock()
        self._seen = Seen()
        self._waited_until = 0.0
        self._cpu_s = 0.0
        self._cpus = OtherWork()
        self._round_at = 0.0
        self._most: dict[str, int] = {}
        self._tell: Callable[[dict[str, int]], None] | None = None
        self._members: Callable[[], Sequence[Member]] = tuple

    @property
    def cuts(self) -> dict[str, int]:
        """Kind → leading ops that agents are asked to run now."""
        return self._policy.cuts

    def connect(
        self, members: Callable[[], Sequence[Member]], tell: Callable[[dict[str, int]], None]
    ) -> None:
        """Say who the agents are, and how they are told of other cuts."""
        self._members, self._tell = members, tell

    def adopt(self, cuts: Mapping[str, int]) -> None:
        """Take over what the first rank decided."""
        with self._lock:
            self._policy.cuts = dict(cuts)

    def add(self, tally: StepTally, now: float) -> None:
        """Take in what a step told; the first rank may move cuts by it.

        Args:
            tally: Of the step.
            now: Monotonic time [s].
        """
        with self._lock:
            self._seen.add(tally.seen)
            self._cpu_s += tally.cpu_s
            for wait in sorted(tally.waits):
                self._add_wait(wait)
            if now < self._round_at:
                return
            self._round_at = now + ROUND_S
            self._look(now)

    def measured(self, kind: str) -> MeasuredSplit | None:
        """Return what was measured of a kind; None: nothing yet, or its cut is fixed."""
        with self._lock:
            if kind not in self._moving:
                return None
            costs, premise = self._policy.costs(kind), self._policy.premise
            if not any(cost.measured for cost in costs):
                return None
            return MeasuredSplit(
                cut=self._policy.cuts[kind],
                costs=costs,
                bandwidth=self._policy.bandwidth,
                storage_price=premise.storage_price,
                trainer_price=premise.trainer_price,
            )

    def _add_wait(self, wait: Wait) -> None:
        """Add a wait; of times in which several connections waited each counts once."""
        self._seen.link_bytes += wait.nbytes
        self._seen.link_s += max(wait.end - max(wait.begin, self._waited_until), 0.0)
        self._waited_until = max(self._waited_until, wait.end)

    def _look(self, now: float) -> None:
        seen, self._seen = self._seen, Seen()
        seen.trainer_busy = self._cpus.share(self._cpu_s)
        if seen.trainer_busy is not None:
            self._cpu_s = 0.0
        seen.storage_spare = self._spare()
        before = self._policy.cuts
        moved = self._policy.observe(seen, now)
        if not self._decides:
            self._policy.cuts = before
        elif moved and self._tell is not None:
            logger.info("agents are asked to run other ops: %s", _changes(before, self.cuts))
            self._tell(self.cuts)

    def _spare(self) -> float:
        """Return how much agents can do now, of the most that they ever could."""
        now = {member.name: member.weight for member in self._members()}
        for name, weight in now.items():
            self._most[name] = max(self._most.get(name, 1), weight)
        most = sum(self._most[name] for name in now)
        return sum(now.values()) / most if most else 1.0


def _changes(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    moved = (kind for kind in after if after[kind] != before.get(kind))
    return ", ".join(f"{kind} up to {after[kind]} instead of {before[kind]}" for kind in moved)
