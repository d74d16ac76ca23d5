"""Where a running job is split between agents and this host, and what that rests on.

Gatherers say what samples took and how long bytes were waited for. About once a second that
goes to :class:`headrace.policy.cutting.MovingCut`; the first rank tells agents what it decides.
Frames name their cut, so agents and ranks need not agree for batches to be right.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from headrace.client.assembly import Visit
from headrace.client.cpus import OtherWork
from headrace.client.cutlog import CutLog
from headrace.client.member import Member
from headrace.policy.cutting import Cell, CuttingLimits, MovingCut, Seen
from headrace.transform.explain import Running
from headrace.transform.program import Program
from headrace.transform.split import SplitPlan
from headrace.wire.frames import FrameHeader
from headrace.wire.stream import Wait

logger = logging.getLogger("headrace.client")

ROUND_S = 1.0
"""Time between two looks at what was measured [s]."""

LEAST_ANSWER_BYTES = 1 << 16
"""Shorter answers tell the time of a round trip rather than what a link can do [bytes]."""


class StepTally:
    """What one step tells. For the thread that gathers it."""

    def __init__(self) -> None:
        self.seen = Seen()
        self.cpu_s = 0.0
        """CPU of this process that the step took [s]."""

        self._begun: dict[Visit, Cell] = {}

    def came(self, visit: Visit, kind: str, header: FrameHeader, nbytes: int) -> None:
        """Note a sample that came at the cut that its job wants."""
        if header.kind == "tensor" or header.code == "asked":
            cell = self._begun[visit] = (kind, header.cut)
            self.seen.shipped(cell, nbytes, header.cpu_s)

    def finished(self, visit: Visit, cpu_s: float) -> None:
        """Note a sample that was finished here, if it came so."""
        cell = self._begun.pop(visit, None)
        if cell is not None:
            self.seen.finished(cell, cpu_s)

    def carried(self, nbytes: int, seconds: float) -> None:
        """Note how long the samples of one answer were on their way, at most."""
        if nbytes >= LEAST_ANSWER_BYTES and seconds > 0:
            self.seen.carried = max(self.seen.carried, nbytes / seconds)


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
        members: Callable[[], Sequence[Member]],
        tell: Callable[[dict[str, int]], None],
        log: CutLog,
        limits: CuttingLimits | None = None,
    ) -> None:
        """Begin with what was planned.

        Args:
            program: The job's pipeline.
            plan: What was planned from headers.
            targets: Kind → cut at which batches take its samples.
            fixed: Kinds whose cut stays.
            decides: Whether this rank decides for the job.
            members: The agents that may be asked now.
            tell: Has agents told of other cuts.
            log: Records them.
            limits: How easily cuts move.
        """
        moving = {kind: steps for kind, steps in plan.steps.items() if kind not in fixed}
        self._policy = MovingCut(
            program, SplitPlan(cuts=plan.cuts, steps=moving), targets, limits=limits
        )
        self._moving = frozenset(moving)
        self._decides = decides
        self._lock = threading.Lock()
        self._seen = Seen()
        self._waits: list[Wait] = []
        self._waited_until = 0.0
        self._cpu_s = 0.0
        self._cpus = OtherWork()
        self._round_at = 0.0
        self._most: dict[str, int] = {}
        self._members, self._tell, self._log = members, tell, log

    def waited(self, wait: Wait | None) -> None:
        """Take in a time in which a connection waited for bytes, as soon as it is over."""
        if wait is not None:
            with self._lock:
                self._waits.append(wait)

    def add(self, tally: StepTally, now: float) -> None:
        """Take in what a step told; the first rank may move cuts by it.

        Args:
            tally: Of the step.
            now: Monotonic time [s].
        """
        with self._lock:
            self._seen.add(tally.seen)
            self._cpu_s += tally.cpu_s
            if now < self._round_at:
                return
            self._round_at = now + ROUND_S
            self._look(now)

    def running(self, kind: str, cut: int) -> Running | None:
        """Return what was measured of a kind; None: nothing yet, or its cut is fixed.

        Args:
            kind: The kind.
            cut: Where agents cut it now.
        """
        with self._lock:
            return None if kind not in self._moving else self._policy.running(kind, cut)

    def _add_waits(self, seen: Seen) -> None:
        """Add the waits of a round; a time in which several connections waited counts once."""
        for wait in sorted(self._waits):
            seen.link_bytes += wait.nbytes
            seen.link_s += max(wait.end - max(wait.begin, self._waited_until), 0.0)
            self._waited_until = max(self._waited_until, wait.end)
        self._waits.clear()

    def _look(self, now: float) -> None:
        seen, self._seen = self._seen, Seen()
        self._add_waits(seen)
        seen.trainer_busy = self._cpus.share(self._cpu_s)
        if seen.trainer_busy is not None:
            self._cpu_s = 0.0
        seen.storage_spare = self._spare()
        before = self._policy.cuts
        moved = self._policy.observe(seen, now)
        if not self._decides:
            self._policy.cuts = before
        elif moved:
            now_at = self._policy.cuts
            logger.info("agents are asked to run other ops: %s", _changes(before, now_at))
            self._record(before)
            self._tell(now_at)

    def _record(self, before: Mapping[str, int]) -> None:
        for kind, cut in self._policy.cuts.items():
            running = self._policy.running(kind, cut) if cut != before[kind] else None
            if running is not None:
                self._log.moved(kind, before[kind], running)

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
