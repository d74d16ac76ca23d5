"""One replication: its checkpoints, which of them are wanted, and until when.

**What is wanted.** Of a replication that goes on, in each folder, for each is of another run: the
newest complete checkpoint, the one that is being written, and what was begun. One that is complete
and was not begun is skipped as soon as a newer one is complete, or lies at the destination. One
that was begun is finished, unless less than a quarter of it was moved; then it is left for the
newer one, but only once between two publications, lest saves that come faster than copies let none
ever arrive. An urgent one is always wanted.

**Which is urgent.** A signal at step ``s`` concerns the newest checkpoint up to ``s``, which has
what training was before it went wrong; where the destination has that one already, the first
one after ``s``. Unless one is of just this step, the source is looked at once more first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.policy.replication.copy import Copy
from headrace.policy.replication.events import (
    CopyKey,
    HeldCheckpoint,
    Listed,
    SeenCheckpoint,
    Signalled,
)
from headrace.policy.replication.rhythm import Rhythm
from headrace.policy.replication.terms import ReplicationLimits, Terms

SIGNAL_S = 3600.0
"""A signal waits this long for a checkpoint that it can concern [s]."""

SEARCH_S = 3.0
"""Nothing else moves for this long while it is looked for: a busy link delays listings too [s]."""

_NO_RHYTHM_S = 3600.0
"""When a checkpoint is wanted if nothing is known of saves and evaluations [s]."""

_ANOTHER = (
    "the destination has another checkpoint of this name, or one that something else copied; "
    "remove or rename that one, or have it replaced (--replace)"
)


@dataclass(slots=True)
class Pair:
    """Two roots, and what is on its way from one to the other."""

    name: str
    terms: Terms
    copies: dict[str, Copy] = field(default_factory=dict)
    held: dict[str, HeldCheckpoint] = field(default_factory=dict)
    saves: Rhythm = field(default_factory=Rhythm)
    evaluations: Rhythm = field(default_factory=Rhythm)
    signals: list[tuple[Signalled, float]] = field(default_factory=list)
    """That concern no checkpoint yet, with the time at which each came [s]."""

    down: str = ""
    """Why a store does not answer; empty: both do."""

    looked_at: float | None = None
    """When the last look at both roots began [s]; None: nothing is known."""

    left_one: bool = False
    """One that was begun was left for a newer one since the last publication."""

    prune_at: float | None = None

    @property
    def listed(self) -> bool:
        """Whether both roots were looked at."""
        return self.looked_at is not None

    def agree(self, terms: Terms) -> None:
        """Go on on these terms; what was learnt stays unless it is told now."""
        if terms.save_every_s != self.terms.save_every_s or not self.listed:
            self.saves = Rhythm(terms.save_every_s)
        if terms.evaluate_every_s != self.terms.evaluate_every_s or not self.listed:
            self.evaluations = Rhythm(terms.evaluate_every_s)
        self.terms = terms

    def list(self, event: Listed, now: float) -> Iterator[tuple[Copy, str]]:
        """Take note of what lies where; yield copies that are to be given up, and why."""
        self.held = {one.path: one for one in event.held}
        there = {one.path for one in event.seen}
        for path in self.copies.keys() - there:
            copy = self.copies.pop(path)
            if not copy.is_over:
                yield copy, "it was deleted at the source before it was copied"
        for seen in event.seen:
            yield from self._see(seen, event.staged.get(seen.path, 0), now)
        if (event.pointed or not self.listed) and self.terms.keep is not None:
            self.prune_at = now
        self.looked_at = event.looked_at

    def _see(self, seen: SeenCheckpoint, staged: int, now: float) -> Iterator[tuple[Copy, str]]:
        copy = self.copies.get(seen.path)
        if copy is None:
            if self.terms.once and self.listed:
                return
            copy = Copy(CopyKey(self.name, seen.path), seen.step, now)
            self.copies[seen.path] = copy
            if staged:
                copy.go_on(staged, now)
        changed = copy.see(seen.files, now)
        copy.confirmed = not (changed or seen.missing or copy.missing)
        copy.missing, copy.marker, copy.asked_again = seen.missing, seen.marker, False
        if changed and copy.is_over and not self.terms.once:
            copy.state, copy.reason = "waiting", ""
            copy.complete_at = copy.began_at = None
            copy.recut_all(now)
        if not seen.missing and not seen.unreadable and copy.complete_at is None:
            copy.complete_at = now
            if self.listed:
                self.saves.happened(now)
        if copy.reason == _ANOTHER and (self.terms.replace or seen.path not in self.held):
            copy.state, copy.reason = "waiting", ""
        if seen.unreadable and not copy.is_over:
            yield copy, seen.unreadable
        elif not copy.is_over and copy.state != "publishing":
            yield from self._compare(copy)

    def _compare(self, copy: Copy) -> Iterator[tuple[Copy, str]]:
        """Look whether the destination has it already."""
        held = self.held.get(copy.key.checkpoint)
        if held is None or copy.missing:
            return
        if held.is_copy:
            copy.state, copy.reason = "published", "the destination had it"
        elif not self.terms.replace:
            yield copy, _ANOTHER

    def judge(self, limits: ReplicationLimits, now: float) -> Iterator[tuple[Copy, str]]:
        """Decide which checkpoints are wanted, urgent, and when; yield those to be left."""
        self._heed_signals(now)
        newest = self._newest_complete()
        for copy in self.copies.values():
            if copy.is_over:
                continue
            copy.deadline = self._deadline(copy)
            if copy.state == "publishing" or (copy.urgent and not copy.missing):
                continue
            why = self._unwanted(copy, newest.get(copy.run))
            if copy.began_at is None:
                copy.state, copy.reason = ("skipped", why) if why else ("waiting", "")
            elif why and self.terms.once:
                yield copy, why
            elif why and copy.missing:
                yield copy, f"{why}, and was never complete: {copy.missing}"
            elif why and copy.share < limits.begun_share and not self.left_one:
                self.left_one = True
                yield copy, why

    def _unwanted(self, copy: Copy, newest: Copy | None) -> str:
        """Return why a checkpoint is not to be copied; empty: it is."""
        every = self.terms.evaluate_every_steps
        if every is not None and copy.step is not None and copy.step % every:
            return f"evaluations are every {every} steps"
        if self.terms.once:
            return self._unwanted_once(copy)
        if newest is not None and self._order(newest) > self._order(copy):
            return f"superseded by {newest.key.checkpoint}"
        return ""

    def _unwanted_once(self, copy: Copy) -> str:
        if copy.missing:
            return f"it is not complete: {copy.missing}"
        if self.terms.keep is not None:
            same_run = (one for one in self.copies.values() if one.run == copy.run)
            complete = [one for one in same_run if not one.missing]
            newer = sum(self._order(one) > self._order(copy) for one in complete)
            if newer >= self.terms.keep:
                return f"the newest {self.terms.keep} are kept"
        return ""

    def _newest_complete(self) -> dict[str, Copy]:
        """Return of each run the newest checkpoint that is complete and can be copied."""
        every = self.terms.evaluate_every_steps
        complete = (
            copy
            for copy in self.copies.values()
            if copy.complete_at is not None
            and copy.state != "given-up"
            and not (every and copy.step is not None and copy.step % every)
        )
        return {copy.run: copy for copy in sorted(complete, key=self._order)}

    @staticmethod
    def _order(copy: Copy) -> tuple[int, float, str]:
        """Return what the later of two checkpoints has more of."""
        step = -1 if copy.step is None else copy.step
        return step, copy.first_seen, copy.key.checkpoint

    def newest_first(self, copy: Copy) -> tuple[int, float]:
        """Return what sorts the newest of one deadline first."""
        return -(-1 if copy.step is None else copy.step), -copy.first_seen

    def _deadline(self, copy: Copy) -> float:
        """Return when it will be read: at the next evaluation, or before the next save."""
        since = copy.first_seen if copy.complete_at is None else copy.complete_at
        expected = self.evaluations.next_after(since) or self.saves.next_after(since)
        return since + _NO_RHYTHM_S if expected is None else expected

    def searches(self, now: float) -> bool:
        """Tell whether a checkpoint is looked for that a signal of this moment concerns."""
        return not self.down and any(now - came < SEARCH_S for _, came in self.signals)

    def _heed_signals(self, now: float) -> None:
        self.signals = [
            (signal, came)
            for signal, came in self.signals
            if now - came < SIGNAL_S and not self._heed(signal, came)
        ]

    def _heed(self, signal: Signalled, came: float) -> bool:
        """Make the checkpoint that a signal concerns urgent; return whether there is one."""
        if self.looked_at is not None and came <= self.looked_at:
            copy = self._concerned(signal.step)
        else:
            copy = self._open_at(signal.step)
        if copy is None:
            return False
        at = "" if signal.step is None else f" at step {signal.step}"
        copy.urgent = f"{signal.kind}{at}"
        copy.state, copy.reason = ("waiting", "") if copy.state == "skipped" else (copy.state, "")
        return True

    def _open_at(self, step: int | None) -> Copy | None:
        at = (one for one in self.copies.values() if one.step == step and not one.is_over)
        return None if step is None else next(at, None)

    def _concerned(self, step: int | None) -> Copy | None:
        ordered = sorted(self.copies.values(), key=self._order)
        open_ones = [copy for copy in ordered if not copy.is_over]
        if step is None:
            return open_ones[-1] if open_ones else None
        before = [copy for copy in ordered if copy.step is not None and copy.step <= step]
        if before and before[-1] in open_ones:
            return before[-1]
        return next((one for one in open_ones if one.step is not None and one.step > step), None)
