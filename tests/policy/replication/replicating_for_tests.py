"""A replicator and a manual clock, told by events in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.policy.replication.events import (
    Action,
    Began,
    Chunk,
    ChunkDone,
    CopyKey,
    Event,
    Failed,
    Failure,
    GiveUp,
    GiveWay,
    HeldCheckpoint,
    Listed,
    Look,
    Prepare,
    Prepared,
    Prune,
    Publish,
    Published,
    SeenCheckpoint,
    SeenFile,
    Signalled,
    StartChunk,
    Tick,
)
from headrace.policy.replication.replicator import Replicator
from headrace.policy.replication.terms import ReplicationLimits, Terms

NBYTES = 100
"""Of each file."""


def saved(
    step: int, *, missing: str = "", files: int = 4, version: str = "v", size: int = NBYTES
) -> SeenCheckpoint:
    """Return a checkpoint of a few files and a marker."""
    names = [f"shard-{number}" for number in range(files)]
    if not missing:
        names.append("marker")
    return SeenCheckpoint(
        path=f"step-{step}",
        step=step,
        files={name: SeenFile(size, version) for name in names},
        missing=missing,
        marker="marker",
    )


def held(checkpoint: SeenCheckpoint, *, is_copy: bool = True) -> HeldCheckpoint:
    """Return what the destination has under a checkpoint's name."""
    return HeldCheckpoint(path=checkpoint.path, step=checkpoint.step, is_copy=is_copy)


class Rig:
    """A replicator; each file is one chunk, and preparations are answered at once."""

    def __init__(self, terms: Terms | None = None, limits: ReplicationLimits | None = None) -> None:
        self.replicator = Replicator(limits or ReplicationLimits(chunks=4))
        self.now = 0.0
        self.actions: list[Action] = []
        """All of them so far."""

        self.running: list[StartChunk] = []
        self.publishing: list[CopyKey] = []
        self.listings: dict[str, Listed] = {}
        self.begin("r", terms)

    def begin(self, name: str, terms: Terms | None = None) -> None:
        """Begin one more replication."""
        self.tell(Began(replication=name, terms=terms or Terms()))

    def tell(self, event: Event) -> list[Action]:
        """Tell an event; return what is to be done."""
        found: list[Action] = []
        events = [event]
        while events:
            for action in self.replicator.handle(events.pop(0), self.now):
                found.append(action)
                if isinstance(action, Prepare):
                    events.append(self.prepared(action))
                if isinstance(action, StartChunk):
                    self.running.append(action)
                if isinstance(action, Look):
                    events.append(replace(self.listings[action.replication], looked_at=self.now))
                if isinstance(action, Publish):
                    self.publishing.append(action.key)
                if isinstance(action, GiveUp):
                    self.running = [one for one in self.running if one.key != action.key]
        self.actions += found
        return found

    def prepared(self, action: Prepare) -> Prepared:
        """Answer a preparation: each file is a chunk."""
        chunks = (Chunk(key=file, nbytes=NBYTES, files=(file,)) for file in action.files)
        return Prepared(key=action.key, chunks=tuple(chunks))

    def list(
        self,
        *seen: SeenCheckpoint,
        held: tuple[HeldCheckpoint, ...] = (),
        staged: Mapping[str, int] | None = None,
        of: str = "r",
    ) -> list[Action]:
        """Tell what both roots have."""
        self.listings[of] = Listed(
            replication=of, looked_at=self.now, seen=seen, held=held, staged=staged or {}
        )
        return self.tell(self.listings[of])

    def pass_time(self, seconds: float) -> list[Action]:
        """Let time pass."""
        self.now += seconds
        return self.tell(Tick())

    def signal(self, step: int | None = None) -> list[Action]:
        """Tell that training needs a checkpoint to be looked at; both roots are looked at again."""
        found = self.tell(Signalled(kind="loss_spike", step=step))
        listed = self.listings.get("r", Listed(replication="r", looked_at=0.0, seen=(), held=()))
        return found + self.tell(replace(listed, looked_at=self.now))

    def finish_one(self, of: StartChunk | None = None) -> list[Action]:
        """Let a chunk arrive, the one that was started first unless told."""
        chunk = of or self.running[0]
        self.running.remove(chunk)
        return self.tell(ChunkDone(key=chunk.key, chunk=chunk.chunk.key))

    def fail_one(self, kind: Failure = "away", reason: str = "cable cut") -> list[Action]:
        """Let the chunk that was started first fail."""
        chunk = self.running.pop(0)
        return self.tell(Failed(key=chunk.key, kind=kind, reason=reason, chunk=chunk.chunk.key))

    def finish(self) -> list[Action]:
        """Let all chunks arrive, and what is to be published be published."""
        found: list[Action] = []
        while self.running or self.publishing:
            found += self.finish_publication() if self.publishing else self.finish_one()
        return found

    def finish_publication(self) -> list[Action]:
        """Let a checkpoint that is to be published be so."""
        return self.tell(Published(key=self.publishing.pop(0)))

    def state(self, step: int, replication: str = "r") -> tuple[str, str]:
        """Return a checkpoint's state, and why."""
        copy = self.replicator.pairs[replication].copies[f"step-{step}"]
        return copy.state, copy.reason


def key(step: int, replication: str = "r") -> CopyKey:
    """Return what names a checkpoint's copy."""
    return CopyKey(replication, f"step-{step}")


def started(actions: list[Action]) -> list[tuple[str, str]]:
    """Return checkpoint and chunk of all chunks that are to be sent."""
    return [(one.key.checkpoint, one.chunk.key) for one in actions if isinstance(one, StartChunk)]


def published(actions: list[Action]) -> list[str]:
    """Return checkpoints that are to be published."""
    return [one.key.checkpoint for one in actions if isinstance(one, Publish)]


def given_up(actions: list[Action]) -> list[tuple[str, str]]:
    """Return checkpoints that are given up, and why."""
    return [(one.key.checkpoint, one.reason) for one in actions if isinstance(one, GiveUp)]


def ways(actions: list[Action]) -> list[set[str] | None]:
    """Return to which checkpoints others give way; None: all move."""
    found = (one.to for one in actions if isinstance(one, GiveWay))
    return [None if to is None else {key.checkpoint for key in to} for to in found]


def prunes(actions: list[Action]) -> list[int]:
    """Return how many checkpoints are to be kept."""
    return [one.keep for one in actions if isinstance(one, Prune)]
