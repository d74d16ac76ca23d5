"""Raises the copies of files that turn hot, and gives them back: events in, actions out.

Who holds what is kept in leases. A file's own number of copies is the one it had before the
first lease raised it; the most that any lease wants is asked for, in stages, until the last
lease ends, and then its own number again, in one go. A number that somebody else set is left
alone. Nothing is raised while other files of the store lack copies they should have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.policy.hotspot.events import (
    Action,
    Announced,
    CopiesNotSet,
    CopiesSet,
    Ended,
    Event,
    Figures,
    FiguresSeen,
    FileGone,
    FileSeen,
    ForgetFile,
    HotFile,
    KeepFile,
    Planned,
    Released,
    Renewed,
    Restored,
    SetElsewhere,
    StoredFile,
    Tick,
    Wanted,
)
from headrace.policy.hotspot.limits import HotspotLimits
from headrace.policy.hotspot.raised import RaisedFile
from headrace.policy.hotspot.worth import Now, plan

_COUNTED = 2
"""HDFS counts a block twice while one of its copies is made and another waits for that."""


@dataclass(slots=True)
class Lease:
    """One announcement that holds, or wants to hold, copies."""

    files: tuple[HotFile, ...]
    ends_at: float
    hot_at: float
    """When its files turn hot."""

    wanted: tuple[Wanted, ...] | None = None
    """None: not all of its files were looked at yet."""

    began_at: float = 0.0
    """When its copies were planned."""

    first_bytes: float = 0.0
    """Copies that were there then, of those that are wanted [bytes]."""

    notes: dict[StoredFile, str] = field(default_factory=dict)
    """What came between."""


class Planner:
    """Decides; no I/O, no clock. Times are monotonic seconds."""

    def __init__(self, limits: HotspotLimits | None = None) -> None:
        self.limits = limits or HotspotLimits()
        self.leases: dict[str, Lease] = {}
        self.files: dict[StoredFile, RaisedFile] = {}
        """Those that are raised, were, or are about to be."""

        self.figures: dict[str, Figures] = {}
        self._seen: dict[StoredFile, FileSeen] = {}

    def handle(self, event: Event, now: float) -> list[Action]:  # noqa: PLR0911 - one per event
        """Return what is to be done, in this order, after something happened."""
        match event:
            case Announced():
                return self._announced(event, now)
            case Renewed():
                return self._renewed(event, now)
            case Released():
                return self._end(event.lease, "released", now)
            case FiguresSeen():
                return self._figures_seen(event, now)
            case FileSeen():
                return self._looked_at(event, now)
            case FileGone():
                return self._lost(event.file, "it does not exist any more")
            case CopiesSet():
                return self._was_set(event, now)
            case CopiesNotSet():
                if (raised := self.files.get(event.file)) is not None:
                    raised.fail(event.reason, now, self.limits)
                return []
            case SetElsewhere():
                said = f"somebody else set it to {event.found} copies: it is left at that"
                return self._lost(event.file, said)
            case Restored():
                return self._restored(event, now)
            case Tick():
                return [*self._expire(now), *self._advance(self.files, now)]

    def to_look_at(self, store: str) -> list[HotFile]:
        """Return the files of a store that are to be looked at, in order."""
        found = {file: _unknown(file) for file in self.files if file.store == store}
        for lease in self.leases.values():
            for one in lease.files:
                is_due = lease.wanted is None or one.file in found
                if is_due and one.file.store == store:
                    found[one.file] = max(found.get(one.file, one), one, key=_hot_bytes)
        return [found[file] for file in sorted(found)]

    def stores(self) -> set[str]:
        """Return the stores whose files are to be looked at."""
        planning = (lease for lease in self.leases.values() if lease.wanted is None)
        of_leases = {one.file.store for lease in planning for one in lease.files}
        return of_leases | {file.store for file in self.files}

    def is_settled(self, store: str) -> bool:
        """Return whether all copies that are wanted of a store's files are there."""
        nodes = self.figures[store].nodes if store in self.figures else 0
        files = [one for file, one in self.files.items() if file.store == store]
        return len(files) == len(self.to_look_at(store)) and all(
            one.state(nodes) == "held" for one in files
        )

    # Leases

    def _announced(self, event: Announced, now: float) -> list[Action]:
        self.leases[event.lease] = Lease(
            files=event.files, ends_at=now + event.lease_s, hot_at=now + event.eta_s
        )
        for one in event.files:
            if one.file not in self.files:  # what was seen of it may be long ago
                self._seen.pop(one.file, None)
        return self._plan_all(now)

    def _renewed(self, event: Renewed, now: float) -> list[Action]:
        if event.lease in self.leases:
            self.leases[event.lease].ends_at = now + event.lease_s
        return []

    def _expire(self, now: float) -> list[Action]:
        over = [name for name, lease in self.leases.items() if lease.ends_at <= now]
        return [action for name in over for action in self._end(name, "its time is over", now)]

    def _end(self, name: str, reason: str, now: float) -> list[Action]:
        lease = self.leases.pop(name, None)
        if lease is None:
            return []
        held = [file for file, raised in self.files.items() if raised.wanted.pop(name, None)]
        self._forget_unneeded()
        return [Ended(lease=name, reason=reason), *self._advance(held, now)]

    def _forget_unneeded(self) -> None:
        needed = {one.file for lease in self.leases.values() for one in lease.files}
        self._seen = {file: seen for file, seen in self._seen.items() if file in needed}

    def _plan_all(self, now: float) -> list[Action]:
        ready = [name for name, lease in self.leases.items() if self._can_be_planned(lease)]
        return [action for name in ready for action in self._plan(name, now)]

    def _can_be_planned(self, lease: Lease) -> bool:
        return lease.wanted is None and all(
            one.file.store in self.figures and (one.file in self._seen or one.file in lease.notes)
            for one in lease.files
        )

    def _plan(self, name: str, now: float) -> list[Action]:
        lease = self.leases[name]
        lease.wanted = tuple(self._planned(lease, now))
        lease.began_at = now
        for one in lease.wanted:
            if one.copies > one.original:
                raised = self._raised(one)
                raised.want(name, one.copies)
                lease.first_bytes += raised.made_bytes(one.copies)
        told = Planned(lease=name, wanted=lease.wanted)
        return [told, *self._advance([one.file for one in lease.wanted], now)]

    def _planned(self, lease: Lease, now: float) -> Iterable[Wanted]:
        there = [one for one in lease.files if one.file in self._seen]
        for store in sorted({one.file.store for one in there}):
            files = [one for one in there if one.file.store == store]
            yield from plan(
                files,
                {one.file: self._now(one.file) for one in files},
                self.figures[store],
                eta_s=lease.hot_at - now,
                limits=self.limits,
            )

    def _now(self, file: StoredFile) -> Now:
        seen, raised = self._seen[file], self.files.get(file)
        return Now(original=raised.original if raised else seen.asked, blocks=len(seen.blocks))

    def _raised(self, wanted: Wanted) -> RaisedFile:
        own = wanted.original
        return self.files.setdefault(
            wanted.file,
            RaisedFile(
                file=wanted.file,
                original=own,
                copies=own,
                taken=own,
                blocks=self._seen[wanted.file].blocks,
            ),
        )

    def _restored(self, event: Restored, now: float) -> list[Action]:
        for kept in event.files:
            self.files[kept.file] = RaisedFile(
                file=kept.file,
                original=kept.original,
                copies=kept.copies,
                asked=set(kept.asked),
            )
        for one in event.leases:
            self.leases[one.lease] = Lease(
                files=one.files,
                ends_at=now + one.lease_s,
                hot_at=now + one.eta_s,
                wanted=one.wanted,
                began_at=now,
            )
            self._take_over(one.lease, one.wanted)
        return [*self._expire(now), *self._advance(self.files, now)]

    def _take_over(self, lease: str, wanted: Iterable[Wanted]) -> None:
        for one in wanted:
            if one.copies <= one.original:
                continue
            known = RaisedFile(file=one.file, original=one.original, copies=one.original)
            self.files.setdefault(one.file, known).want(lease, one.copies)

    # Files

    def _looked_at(self, event: FileSeen, now: float) -> list[Action]:
        """Take what a file is like; what follows is decided once all were looked at."""
        self._seen[event.file] = event
        raised = self.files.get(event.file)
        if raised is not None and event.asked not in raised.expected(now):
            return self.handle(SetElsewhere(file=event.file, found=event.asked), now)
        if raised is not None:
            raised.see(event)
        return []

    def _figures_seen(self, event: FiguresSeen, now: float) -> list[Action]:
        self.figures[event.store] = event.figures
        files = [file for file in self.files if file.store == event.store]
        return [*self._plan_all(now), *self._advance(files, now)]

    def _was_set(self, event: CopiesSet, now: float) -> list[Action]:
        if (raised := self.files.get(event.file)) is None:
            return []
        raised.succeed(event.copies)
        return self._advance([event.file], now)

    def _lost(self, file: StoredFile, reason: str) -> list[Action]:
        """Let go of a file that is gone, or somebody else's business now."""
        for lease in self.leases.values():
            if any(one.file == file for one in lease.files):
                lease.notes[file] = reason
        self._seen.pop(file, None)
        return [ForgetFile(file=file, reason=reason)] if self.files.pop(file, None) else []

    def _advance(self, files: Iterable[StoredFile], now: float) -> list[Action]:
        found = (self.files[file] for file in list(files) if file in self.files)
        due = [one for one in found if not one.under_way and one.try_at <= now]
        raises = [one for one in due if one.wanted]
        endangered = {
            store: self._endangered(store) for store in {one.file.store for one in raises}
        }
        lowered = [action for one in due if not one.wanted for action in self._lower(one, now)]
        return lowered + [
            action for one in raises for action in self._raise(one, endangered[one.file.store], now)
        ]

    def _lower(self, raised: RaisedFile, now: float) -> list[Action]:
        if not raised.has_own:
            return [raised.lower(now)]
        if now < raised.unsure_until:
            return []
        del self.files[raised.file]
        self._seen.pop(raised.file, None)  # it may tell of copies that were given back
        return [ForgetFile(file=raised.file, reason="it has its own number of copies again")]

    def _raise(self, raised: RaisedFile, endangered: int, now: float) -> list[Action]:
        figures = self.figures.get(raised.file.store)
        if figures is None:
            return []
        copies = raised.copies
        if raised.is_set:
            copies = raised.stage(self.limits, most=figures.nodes, staged=figures.replicates)
        if raised.is_set and copies == raised.copies:
            return []
        if endangered:
            raised.trouble = f"{endangered} blocks of the store lack copies: they come first"
            return []
        ask = raised.raise_to(copies, now)
        return [KeepFile(kept=raised.kept), ask]

    def _endangered(self, store: str) -> int:
        """Return how many blocks lack copies that nobody raised here."""
        missing = self.figures[store].missing_copies if store in self.figures else 0
        ours = sum(one.behind for file, one in self.files.items() if file.store == store)
        return max(missing - _COUNTED * ours - self.limits.usual_missing, 0)


def _unknown(file: StoredFile) -> HotFile:
    return HotFile(file=file, size=0, hot_bytes=0, readers=0)


def _hot_bytes(file: HotFile) -> int:
    return file.hot_bytes
