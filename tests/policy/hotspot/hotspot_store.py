"""A store with copies of files, as far as the planner of hotspots can tell."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.policy.hotspot.events import (
    Action,
    Announced,
    Block,
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
    KeptFile,
    Planned,
    SetCopies,
    SetElsewhere,
    StoredFile,
    Tick,
)
from headrace.policy.hotspot.planner import Planner

STORE = "hdfs://nn:8020"
MB = 1_000_000


def stored(path: str) -> StoredFile:
    """Return a file's name."""
    return StoredFile(STORE, path)


def hot(
    path: str = "a", *, size: int = 100 * MB, part: float = 1.0, readers: int = 1000
) -> HotFile:
    """Return a file that many read."""
    return HotFile(file=stored(path), size=size, hot_bytes=round(size * part), readers=readers)


def figures(**changed: object) -> Figures:
    """Return what an idle store of a hundred nodes says."""
    told: dict[str, object] = {
        "replicates": True,
        "nodes": 100,
        "transfers_per_node": 1.0,
        "free_bytes": 1e15,
        "blocks_per_s": 66.0,
    }
    return Figures(**(told | changed))  # type: ignore[arg-type]


@dataclass
class Store:
    """Carries out what a planner wants, second by second; copies come one in a second."""

    planner: Planner = field(default_factory=Planner)
    figures: Figures = field(default_factory=figures)
    asked: dict[StoredFile, int] = field(default_factory=dict)
    live: dict[StoredFile, int] = field(default_factory=dict)
    kept: dict[StoredFile, KeptFile] = field(default_factory=dict)
    now: float = 0.0
    away: bool = False
    """Sets fail."""

    hung: bool = False
    """Sets that fail are carried out once the store is back, a moment after what comes then."""

    late: list[tuple[StoredFile, int]] = field(default_factory=list)

    copies_per_s: int = 100
    endangered: int = 0
    done: list[Action] = field(default_factory=list)
    sets: list[int] = field(default_factory=list)
    """Numbers that the store was asked for."""

    def add(self, path: str, copies: int = 3) -> None:
        """Make a file."""
        self.asked[stored(path)] = self.live[stored(path)] = copies

    def announce(
        self, lease: str, *files: HotFile, eta_s: float = 60.0, lease_s: float = 900.0
    ) -> None:
        """Announce, and look once."""
        self.tell(Announced(lease=lease, files=files, eta_s=eta_s, lease_s=lease_s))
        self.look()

    def tell(self, event: Event) -> None:
        """Tell the planner, and do what it says."""
        todo = self.planner.handle(event, self.now)
        while todo:
            action = todo.pop(0)
            self.done.append(action)
            todo += self._do(action)

    def _do(self, action: Action) -> list[Action]:
        match action:
            case KeepFile():
                self.kept[action.kept.file] = action.kept
            case ForgetFile():
                self.kept.pop(action.file, None)
            case SetCopies():
                return self.planner.handle(self._set(action), self.now)
            case Planned() | Ended():
                pass
        return []

    def _set(self, action: SetCopies) -> Event:
        assert not action.is_raise or self.kept[action.file].copies == action.copies
        if self.away:
            if self.hung:
                self.late.append((action.file, action.copies))
            return CopiesNotSet(file=action.file, reason="the NameNode is away")
        found = self.asked[action.file]
        if found not in action.expected:
            return SetElsewhere(file=action.file, found=found)
        self.asked[action.file] = action.copies
        self.sets.append(action.copies)
        return CopiesSet(file=action.file, copies=action.copies)

    def look(self) -> None:
        """Tell how everything is, as the controller does now and then."""
        for hot_file in self.planner.to_look_at(STORE):
            file = hot_file.file
            if file not in self.asked:
                self.tell(FileGone(file=file))
                continue
            block = Block(100 * MB, self.live[file])
            self.tell(FileSeen(file=file, asked=self.asked[file], blocks=(block,)))
        self.tell(FiguresSeen(store=STORE, figures=self._figures()))

    def _figures(self) -> Figures:
        behind = sum(self.live[file] < asked for file, asked in self.asked.items())
        told = {name: getattr(self.figures, name) for name in Figures.__slots__}
        return Figures(**(told | {"missing_copies": behind + self.endangered}))

    def run(self, seconds: int) -> None:
        """Let time pass."""
        for _ in range(seconds):
            self.now += 1.0
            for file, asked in self.asked.items():
                live = self.live[file]
                most = min(asked, self.figures.nodes)
                self.live[file] = min(most, live + self.copies_per_s) if live < asked else asked
            if not self.away:
                self.look()
            self.tell(Tick())
            if not self.away:
                self.asked.update(self.late)
                self.late.clear()
