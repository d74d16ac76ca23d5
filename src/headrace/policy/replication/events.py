"""What the policy of replication is told, and what it answers: plain values, no behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from headrace.policy.replication.terms import Terms


class CopyKey(NamedTuple):
    """One checkpoint on its way from one root to another."""

    replication: str
    """Name of the two roots' pair."""

    checkpoint: str
    """Path of its folder below the source's root."""


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file as the source lists it."""

    size: int
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """What is sent at once: a range of a file, or several small files."""

    key: str
    """Unique within its checkpoint."""

    nbytes: int
    files: tuple[str, ...]
    """That it is of, relative to the checkpoint's folder."""


Failure = Literal["gone", "changed", "wrong", "away", "refused"]
"""``gone``: the source's file is not there any more; ``changed``: it is another one by now;
``wrong``: what arrived is not what was sent; ``away``: a store does not answer, or is full;
``refused``: it will not be otherwise however often it is tried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Began:
    """A replication is to be done from now on, on other terms if it was there already."""

    replication: str
    terms: Terms


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """It is to be done no more."""

    replication: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenCheckpoint:
    """A checkpoint that lies at the source, complete or being written."""

    path: str
    """Of its folder, below the source's root."""

    step: int | None = None
    files: Mapping[str, SeenFile] = field(default_factory=dict)
    """By path below its folder."""

    missing: str = ""
    """Why it is not complete; empty: it is."""

    marker: str | None = None
    """File that says that it is complete."""

    unreadable: str = ""
    """Why it cannot be copied: it is damaged or hostile; empty: it can."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldCheckpoint:
    """A complete checkpoint at the destination."""

    path: str
    step: int | None = None
    is_copy: bool = False
    """It is the source's of this name, as that is now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """Both roots were listed; what is not named is not there."""

    replication: str
    looked_at: float
    """When the looking began: what came later may be missing [s, monotonic]."""

    seen: tuple[SeenCheckpoint, ...]
    held: tuple[HeldCheckpoint, ...]
    staged: Mapping[str, int] = field(default_factory=dict)
    """What earlier processes sent of checkpoints and did not publish, by path [bytes]; told with
    the first look."""

    pointed: bool = False
    """A pointer at the destination moved with this look: what it named need not stay."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """Files were cut into chunks."""

    key: CopyKey
    chunks: tuple[Chunk, ...]
    """That are to be sent."""

    here_bytes: int = 0
    """Of the files, what the destination has already, from an earlier try or another checkpoint
    [bytes]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkDone:
    """A chunk lies at the destination, verified."""

    key: CopyKey
    chunk: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkReturned:
    """A chunk had to give way for so long that it was put back."""

    key: CopyKey
    chunk: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed:
    """A chunk, a preparation or a publication failed."""

    key: CopyKey
    kind: Failure
    reason: str
    chunk: str | None = None
    """None: a preparation or a publication."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """A checkpoint is complete at the destination."""

    key: CopyKey


@dataclass(frozen=True, kw_only=True, slots=True)
class Pruned:
    """The destination was rid of what is not to be kept."""

    replication: str
    waits: bool
    """Something stays only because somebody reads it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Signalled:
    """Training, or somebody, needs a checkpoint to be looked at soon."""

    kind: str
    """``loss_spike`` and the like; for people."""

    step: int | None
    """At which it happened; None: the newest checkpoint is meant."""

    replication: str | None = None
    """None: all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationStarted:
    """Somebody began to read at the destination."""

    replication: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkChanged:
    """The source or the destination as a whole does not answer, or does again."""

    replication: str
    up: bool
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """Time passed."""


Event: TypeAlias = (
    Began
    | Ended
    | Listed
    | Prepared
    | ChunkDone
    | ChunkReturned
    | Failed
    | Published
    | Pruned
    | Signalled
    | EvaluationStarted
    | LinkChanged
    | Tick
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepare:
    """Cut these files into chunks; ``Prepared`` or ``Failed`` must follow."""

    key: CopyKey
    files: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class StartChunk:
    """Send a chunk; ``ChunkDone``, ``ChunkReturned`` or ``Failed`` must follow."""

    key: CopyKey
    chunk: Chunk
    deadline: float
    """Earlier ones are served first where bytes are scarce [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GiveWay:
    """From now on only chunks of these copies move anything."""

    to: frozenset[CopyKey] | None
    """Urgent ones; empty: none moves while an urgent one is looked for; None: all move."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """Look at both roots at once; ``Listed`` follows."""

    replication: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Publish:
    """Make a checkpoint appear at the destination; ``Published`` or ``Failed`` must follow."""

    key: CopyKey
    replace: bool = False
    """In place of another one of its name, if there is one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GiveUp:
    """Leave a checkpoint: its chunks stop, and what was staged is removed."""

    key: CopyKey
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Prune:
    """Rid the destination of what is not to be kept; ``Pruned`` follows if it could be done."""

    replication: str
    keep: int


Action: TypeAlias = Prepare | StartChunk | GiveWay | Look | Publish | GiveUp | Prune
