"""The samples of one job between the training loop and the end of what is planned ahead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from headrace.core.parts import SamplePart
from headrace.policy.estimate import Estimates
from headrace.policy.item import Content, Item, State, Waiter
from headrace.policy.itemheap import ItemHeap
from headrace.policy.lookahead_events import Asked, JobChanged, Plan, Planned, Visit
from headrace.policy.pace import Pace


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowLimits:
    """How far ahead of the training loop samples are prepared."""

    lead_s: float = 10.0
    """A sample is not started earlier than this before its latest start [s]."""

    max_steps: int = 64
    """Most steps planned ahead."""

    max_items: int = 16384
    """Most samples planned ahead, unless two steps hold more."""

    max_skew: int = 8
    """Steps that the slowest rank may hold back the release of memory."""

    assumed_step_s: float = 0.25
    """Step time until the first one is measured [s]."""


Piece: TypeAlias = tuple[int, int, SamplePart]
"""(sample, epoch, part)."""

_REBUILD = 0.2
_FEWEST_STEPS = 2
_CRASHES_KEPT = 4096
_SILENT_S, _SILENT_STEPS = 60.0, 4


class HeldTime:
    """How long a job's quota has held back the sample that was next in turn, in all."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._past_s = 0.0

    @property
    def is_on(self) -> bool:
        """Whether it held the next sample back when that was looked at last."""
        return self._since is not None

    def begin(self, now: float) -> None:
        """Note that the next sample is held back."""
        self._since = now if self._since is None else self._since

    def end(self, now: float) -> None:
        """Note that it is not, or not any more."""
        self._past_s, self._since = self.total_s(now), None

    def total_s(self, now: float) -> float:
        """Return the sum until now [s]."""
        return self._past_s + (0.0 if self._since is None else now - self._since)


class JobWindow:
    """Bookkeeping of one job: what is planned, running, ready, waited for.

    Samples nobody asked for yet are kept in order of their latest start. The order does
    not change while the loop proceeds or stands still, only when its step time does.
    """

    def __init__(self, change: JobChanged, limits: WindowLimits, now: float) -> None:
        self.name = change.job
        self.items: dict[Visit, Item] = {}
        self.estimates = Estimates()
        self.raw_only = ""
        self.crashed: dict[int, None] = {}
        self.held = HeldTime()
        self._limits = limits
        self._steps: dict[int, list[Visit]] = {}
        self._by_piece: dict[Piece, Item] = {}
        self._waited = ItemHeap(self._is_wanted)
        self._due = ItemHeap(self._is_foreseen)
        self._overdue = ItemHeap(self._is_foreseen)
        self._latest_ready = ItemHeap(self._is_droppable)
        self._next = change.start_step
        self.change(change, now)

    def change(self, change: JobChanged, now: float) -> None:
        """Plan again from ``start_step``; what ran or lies ready is kept."""
        limits = self._limits
        self._heard_at = now
        self.plan: Plan = change.plan
        self.raw_only = change.raw_only
        self.pace = Pace(
            start_step=change.start_step,
            step_time_s=change.step_time_s or limits.assumed_step_s,
            max_skew=limits.max_skew,
        )
        self._keyed_with = self.pace.step_time_s
        self._plan_anew()

    def follow(self, plan: Plan) -> None:
        """Plan again by another plan from where the job is; what ran or lies ready is kept."""
        self.plan = plan
        self._plan_anew()

    def report(self, asked: Asked, now: float) -> None:
        """Take in the progress that came with a fetch."""
        over = self.pace.over
        self._heard_at = now
        self.pace.report(
            rank=asked.rank,
            world=asked.world,
            consumed_step=asked.consumed_step,
            step_time_s=asked.step_time_s,
            now=now,
        )
        if self.pace.over < over:
            self._next = min(self._next, self.pace.over + 1)
        self._next = max(self._next, self.pace.over + 1)
        if abs(self.pace.step_time_s - self._keyed_with) > _REBUILD * self._keyed_with:
            self._rebuild()

    def extend(self) -> list[Item]:
        """Plan further steps while there are few; return their new items."""
        added: list[Item] = []
        while not self.raw_only and self._wants_more():
            for planned in self.plan.due(self._next):
                added += self._add_planned(self._next, planned)
            self._next += 1
        return added

    def add(self, step: int, planned: Planned) -> Item:
        """Return the item of a visit, made if it is new."""
        visit = Visit(
            job=self.name,
            step=step,
            sample=planned.sample,
            epoch=planned.epoch,
            part=planned.part,
        )
        item = self.items.get(visit)
        if item is None:
            cost_s = self.estimates.cost_s(planned.kind, planned.cost_s)
            item = Item(visit=visit, planned=planned, cost_s=cost_s)
            self.items[visit] = item
            self._steps.setdefault(step, []).append(visit)
            self._by_piece.setdefault((visit.sample, visit.epoch, visit.part), item)
        return item

    def forget(self, item: Item) -> None:
        """Take an item out; heap entries of it are skipped later."""
        self.items.pop(item.visit, None)
        piece = item.visit.sample, item.visit.epoch, item.visit.part
        if self._by_piece.get(piece) is item:
            del self._by_piece[piece]
        visits = self._steps.get(item.visit.step, [])
        if item.visit in visits:
            visits.remove(item.visit)
        if not visits:
            self._steps.pop(item.visit.step, None)

    def content(self, item: Item) -> Content | None:
        """Return what decides the bytes of a sample; None: no other job may have them."""
        visit = item.visit
        if self.raw_only or not item.planned.prepare or visit.sample in self.crashed:
            return None
        recipe = self.plan.recipe(visit.sample)
        return (recipe, visit.sample, visit.epoch, visit.part) if recipe else None

    def unstarted(self, sample: int, epoch: int, part: SamplePart) -> Item | None:
        """Return the first visit of a sample's part, unless it is started or not foreseen."""
        item = self._by_piece.get((sample, epoch, part))
        return item if item is not None and item.is_unstarted else None

    def wait(self, item: Item, waiter: Waiter) -> None:
        """Let a request wait for an item."""
        item.waiters.append(waiter)
        if item.state == "planned":
            self._waited.push(item.urgency, item)

    def requeue(self, item: Item) -> None:
        """Put an item back among those to be started: its task failed, or its request left."""
        item.state = "planned"
        if item.waiters:
            self._waited.push(item.urgency, item)
        else:
            self._due.push(self._key(item), item)

    def learn(self, planned: Planned, *, seconds: float, nbytes: int) -> None:
        """Take in what a sample took [s] and needs [bytes]; others may be due sooner by that."""
        kind = planned.kind
        self.estimates.learn_size(kind, foreseen_bytes=planned.nbytes, nbytes=nbytes)
        if self.estimates.learn(kind, foreseen_s=planned.cost_s, seconds=seconds):
            self._rebuild()

    def upcoming(self) -> list[Visit]:
        """Return the visits that are foreseen and not started, those due first in front.

        Parts are left out: what is needed of their sample's bytes is not known before.
        """
        foreseen = [
            visit
            for visit, item in self.items.items()
            if item.state == "planned" and not item.waiters and visit.part.is_whole
        ]
        return sorted(foreseen, key=lambda visit: visit.step)

    def set_aside(self, visits: Iterable[Visit]) -> None:
        """Start these no more until they are taken up; some may be started or gone already."""
        for visit in visits:
            item = self.items.get(visit)
            if item is not None and item.state == "planned" and not item.waiters:
                item.state = "fetching"

    def take_up(self, visits: Iterable[Visit]) -> None:
        """Let these be started again that were set aside and are still foreseen."""
        for visit in visits:
            item = self.items.get(visit)
            if item is not None and item.state == "fetching":
                self.requeue(item)

    def candidate(self, now: float) -> tuple[bool, float, Item] | None:
        """Return the item to start next as (nobody waits for it, slack, item)."""
        waited = self._waited.top()
        if waited is not None:
            return False, waited[1].urgency - now, waited[1]
        due = self._next_due(now)
        if due is not None:
            return True, self._slack(due, now), due
        overdue = self._overdue.top()
        return None if overdue is None else (True, self._slack(overdue[1], now), overdue[1])

    def keep_ready(self, item: Item) -> None:
        """Note that an item lies ready."""
        self._latest_ready.push(-item.visit.step, item)

    def latest_ready(self) -> Item | None:
        """Return the ready item that is due last: the one to drop when memory is short.

        One that is being sent to another job is none: its memory would not be free.
        """
        latest = self._latest_ready.top()
        return None if latest is None else latest[1]

    def is_silent(self, now: float) -> bool:
        """Return whether nobody asked for so long that the loop may have ended."""
        return now - self._heard_at > max(_SILENT_S, _SILENT_STEPS * self.pace.step_time_s)

    def rest(self, now: float) -> None:
        """Foresee nothing for a job that fell silent, until it asks again; what lies ready stays.

        A thousand samples take a megabyte, and of a killed job nobody says that it is over.
        """
        if self.is_silent(now):
            self._plan_anew()

    def over(self) -> list[Item]:
        """Return the items of steps that will not be asked for again."""
        steps = [step for step in self._steps if step <= self.pace.over]
        visits = [visit for step in steps for visit in self._steps[step]]
        return [item for visit in visits if not (item := self.items[visit]).waiters]

    def crash(self, sample: int) -> None:
        """Remember that a sample takes workers down."""
        self.crashed[sample] = None
        if len(self.crashed) > _CRASHES_KEPT:
            self.crashed.pop(next(iter(self.crashed)))

    def waited_cost_s(self) -> float:
        """Return the CPU that waited-for items still need [s]."""
        return sum(item.cost_s for item in self._waited)

    def waiting_count(self) -> int:
        """Return how many waited-for items are not started."""
        return sum(1 for _ in self._waited)

    def waited(self) -> list[Item]:
        """Return the items that a request waits for."""
        return [item for item in self.items.values() if item.waiters]

    def _plan_anew(self) -> None:
        self._next = self.pace.over + 1
        for item in list(self.items.values()):
            if item.state == "planned" and not item.waiters:
                self.forget(item)
        self._due.clear()
        self._overdue.clear()

    def _wants_more(self) -> bool:
        ahead = self._next - self.pace.over - 1
        if ahead < _FEWEST_STEPS:
            return True
        return ahead < self._limits.max_steps and len(self.items) < self._limits.max_items

    def _add_planned(self, step: int, planned: Planned) -> list[Item]:
        if planned.sample in self.crashed or not planned.prepare:
            return []
        known = len(self.items)
        item = self.add(step, planned)
        if len(self.items) == known:
            return []
        self._due.push(self._key(item), item)
        return [item]

    def _key(self, item: Item) -> float:
        return item.visit.step * self._keyed_with - item.lead_s

    def _slack(self, item: Item, now: float) -> float:
        return self.pace.deadline(item.visit.step, now) - item.lead_s - now

    def _next_due(self, now: float) -> Item | None:
        while (first := self._due.top()) is not None:
            item = first[1]
            slack = self._slack(item, now)
            if slack >= 0 or not self.pace.is_moving:
                lead_s = max(self._limits.lead_s, (_FEWEST_STEPS + 1) * self.pace.step_time_s)
                return item if slack <= lead_s else None
            self._due.pop()
            self._overdue.push(-self._key(item), item)
        return None

    def _is_wanted(self, item: Item) -> bool:
        return self._is_live(item, "planned") and bool(item.waiters)

    def _is_foreseen(self, item: Item) -> bool:
        return self._is_live(item, "planned") and not item.waiters

    def _is_live(self, item: Item, state: State) -> bool:
        return item.state == state and self.items.get(item.visit) is item

    def _is_droppable(self, item: Item) -> bool:
        return self._is_live(item, "ready") and item.result is not None and not item.result.sending

    def _rebuild(self) -> None:
        self._keyed_with = self.pace.step_time_s
        self._due.clear()
        self._overdue.clear()
        for item in self.items.values():
            if item.state == "planned" and not item.waiters:
                item.cost_s = self.estimates.cost_s(item.planned.kind, item.planned.cost_s)
                self._due.push(self._key(item), item)
