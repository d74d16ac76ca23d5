"""Begins heavy samples of further steps on the decoding threads, and keeps them for their step.

Only a loader that no agent answers does so: agents look far enough ahead by themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.client.costs import Costs
from headrace.client.crew import Crew
from headrace.client.inbox import Delivery, MakingTask, TakesDeliveries
from headrace.client.maker import Made, Maker
from headrace.client.pace import Pace
from headrace.client.shares import Piece, pieces_of_keys
from headrace.core.draws import SampleKey
from headrace.core.parts import SamplePart
from headrace.core.record import record_bytes
from headrace.policy.estimate import Estimates
from headrace.policy.headstart import EarlyPiece, HeadStartLimits, HeadStarts, Takes
from headrace.prepare.job import OpenJob
from headrace.transform.split import SplitPlan, bytes_at

LEAST_S = 0.1
"""What takes less is not begun early [s]."""

OUTSTANDING = 4.0
"""Nor is what takes less than so many times the mean of the job's samples: where most are heavy,
what counts is how many are made in a second, not when each is begun."""

STEPS = 256
"""Steps that are looked ahead at most."""

STEPS_AT_ONCE = 8
"""Of them, those that are looked at for each step that is made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """Which heavy samples further steps of one rank have. Immutable."""

    job: OpenJob
    rank: int
    world: int
    targets: Mapping[str, int]
    """Media kind → cut at which a batch takes its samples."""

    part_cuts: Mapping[str, int]
    """Media kind → cut up to which samples are made in parts, where they are divided."""

    plan: SplitPlan
    heavy_s: float
    """What headers tell to take less is not heavy [s]."""

    def pieces(self, step: int) -> tuple[Piece, ...]:
        """Return the heavy samples of a step, those that are divided in their parts."""
        shard = self.job.schedule.shard(step, self.rank, self.world)
        heavy = self.job.costs(shard.samples) >= self.heavy_s
        if not heavy.any():
            return ()
        seed = self.job.spec.schedule.seed
        visits = zip(shard.samples[heavy].tolist(), shard.epochs[heavy].tolist(), strict=True)
        keys = [SampleKey(seed, epoch, sample) for sample, epoch in dict.fromkeys(visits)]
        return pieces_of_keys(self.job, keys, self.part_cuts)

    def nbytes(self, piece: Piece) -> int:
        """Return what a piece holds when it is made, by the plan [bytes]."""
        kind = self.job.kind(piece.key.sample)
        cut = self.targets[kind] if piece.part.is_whole else self.part_cuts[kind]
        return max(1, piece.part.of(int(bytes_at(self.plan.steps[kind], cut))))


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadStartStatistics:
    """Heavy samples, and parts of them, of steps that are not in the making."""

    making: int = 0
    ready: int = 0
    held_bytes: int = 0
    """Memory that they hold, or will when they are made [bytes]."""


def heavy_from(job: OpenJob) -> float | None:
    """Return the cost from which on a job's samples are heavy [s]; None: none of them is."""
    columns = [foreseen.costs for foreseen in job.foreseen]
    mean_s = sum(float(costs.sum()) for costs in columns) / sum(costs.size for costs in columns)
    heavy_s = max(LEAST_S, OUTSTANDING * mean_s)
    return heavy_s if max(costs.max(initial=0.0) for costs in columns) >= heavy_s else None


class HeadStart:
    """The heavy samples of what one prefetcher will make. Thread-safe."""

    def __init__(
        self,
        outlook: Outlook,
        limits: HeadStartLimits,
        *,
        lead_steps: int,
        crew: Crew,
        maker: Maker,
        costs: Costs,
        pace: Pace,
        alone: Callable[[], bool],
        closed: Callable[[], bool],
    ) -> None:
        """Begin nothing yet.

        Args:
            outlook: What lies ahead.
            limits: How much of it is begun early.
            lead_steps: A step is begun so many steps before the loop asks for it.
            crew: Threads that make it, in the order of steps.
            maker: What they make it with.
            costs: What it takes.
            pace: How fast the loop goes.
            alone: Whether no agent begins heavy samples.
            closed: Whether nobody will need it any more.
        """
        self._outlook = outlook
        self._lead_steps = lead_steps
        self._crew, self._maker, self._costs, self._pace = crew, maker, costs, pace
        self._alone, self._closed = alone, closed
        self._lock = threading.Lock()
        self._starts = HeadStarts(limits)
        self._sizes = Estimates()
        self._next = 0
        self._pieces: dict[EarlyPiece, Piece] = {}
        """Those that are foreseen or in the making."""

        self._ready: dict[EarlyPiece, Delivery] = {}
        self._waiting: dict[EarlyPiece, TakesDeliveries] = {}

    def claim(self, step: int, key: SampleKey, part: SamplePart, inbox: TakesDeliveries) -> bool:
        """Let a step have a piece of its own that was begun early, now or when it is made.

        Returns:
            False if it was not: the step has to make it.
        """
        early = EarlyPiece(step, key.sample, key.epoch, part)
        with self._lock:
            self._next = max(self._next, step + 1)
            if self._starts.is_making(early):
                self._waiting[early] = inbox
                return True
            delivery = self._forget(early)
        if delivery is not None:
            inbox.put(delivery)
        return delivery is not None

    def has_begun(self, step: int, piece: Piece) -> bool:
        """Return whether a step's piece was begun early, so that nobody else is to be asked."""
        early = EarlyPiece(step, *piece.visit, piece.part)
        with self._lock:
            return self._starts.has_begun(early)

    def look_beyond(self, step: int) -> None:
        """Begin what is heavy behind a step that has claimed all that it needs."""
        with self._lock:
            self._next = max(self._next, step + 1)
            for early in self._starts.pass_by(step):
                self._pieces.pop(early, None)
                self._ready.pop(early, None)
            if self._alone():
                self._foresee(step + 1)
        self._begin()

    def put(self, delivery: Delivery) -> None:
        """Take in what the threads made: for the step that waits for it, or to be kept.

        What failed is not kept: its step makes it again and decides what becomes of it.
        """
        key = delivery.key
        early = EarlyPiece(delivery.step, key.sample, key.epoch, delivery.part)
        with self._lock:
            piece, inbox = self._pieces.pop(early), self._waiting.pop(early, None)
            nbytes = self._measured(piece, delivery)
            if self._starts.end(early, nbytes if inbox is None else None):
                self._ready[early] = delivery
        if inbox is not None:
            inbox.put(delivery)
        self._begin()

    def statistics(self) -> HeadStartStatistics:
        """Describe what was begun."""
        with self._lock:
            starts = self._starts
            return HeadStartStatistics(
                making=starts.making, ready=starts.ready, held_bytes=starts.held_bytes
            )

    def _forget(self, early: EarlyPiece) -> Delivery | None:
        self._starts.take(early)
        self._pieces.pop(early, None)
        return self._ready.pop(early, None)

    def _foresee(self, first: int) -> None:
        end = min(self._next + STEPS_AT_ONCE, first + STEPS)
        while self._next < end and self._starts.wants_more:
            for piece in filter(self._is_makeable, self._outlook.pieces(self._next)):
                early = EarlyPiece(self._next, *piece.visit, piece.part)
                self._pieces[early] = piece
                self._starts.foresee(early, self._nbytes(piece))
            self._next += 1

    def _is_makeable(self, piece: Piece) -> bool:
        """Return whether this host reads what a piece is made from."""
        return self._maker.sees(piece.key)

    def _begin(self) -> None:
        """Begin what may be; nothing before the loop's pace is known."""
        lead_s = self._lead_steps * self._pace.read().step_time_s
        while lead_s and self._alone() and not self._closed():
            with self._lock:
                early = self._starts.begin_next(lead_s=lead_s, takes=self._takes)
                if early is None:
                    return
                task = self._task(early.step, self._pieces[early])
            self._crew.submit(early.step, task)

    def _task(self, step: int, piece: Piece) -> MakingTask:
        key, part, maker = piece.key, piece.part, self._maker
        if part.is_whole:
            return MakingTask(step, key, lambda: maker.make(key), self)
        cut = self._outlook.part_cuts[self._outlook.job.kind(key.sample)]
        return MakingTask(step, key, lambda: maker.make_part(key, part, stop=cut), self, part)

    def _takes(self, early: EarlyPiece) -> Takes:
        piece_s = self._costs.seconds(self._pieces[early])
        return Takes(piece_s, piece_s * max(1.0, early.part.count / self._crew.size))

    def _nbytes(self, piece: Piece) -> int:
        kind = self._outlook.job.kind(piece.key.sample)
        return self._sizes.nbytes(kind, self._outlook.nbytes(piece))

    def _measured(self, piece: Piece, delivery: Delivery) -> int | None:
        """Return what a result holds, and learn from it [bytes]; None: it is a failure."""
        made = delivery.outcome
        if not isinstance(made, Made):
            return None
        nbytes = record_bytes(made.record or {})
        kind = self._outlook.job.kind(piece.key.sample)
        self._sizes.learn_size(kind, foreseen_bytes=self._outlook.nbytes(piece), nbytes=nbytes)
        return nbytes
