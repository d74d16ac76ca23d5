"""What the planner of hotspots is told, and what it answers: plain values, no behaviour.

A *copy* is a replica where a store keeps replicas, and an agent that holds the hot bytes in
memory where it does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, order=True, slots=True)
class StoredFile:
    """One file of one store; the same file has one such name, whoever speaks of it."""

    store: str
    """URL of the store's root."""

    path: str
    """Relative to it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HotFile:
    """A file that many are about to read."""

    file: StoredFile
    size: int
    """[bytes]."""

    hot_bytes: int
    """Of those that many read [bytes]."""

    readers: int
    """Processes that read the hot bytes, each on its own."""

    ranges: tuple[tuple[int, int], ...] = ()
    """Offset and length of the hot bytes, for those who keep no more than these; empty: all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """How busy a store is, and how fast it makes copies."""

    replicates: bool
    """Copies are replicas of whole files, made by the store in its own time; else they are the
    hot bytes, kept by agents."""

    nodes: int
    """That live, and could hold a copy each."""

    transfers_per_node: float
    """Reads and writes that a node serves now, the mean over nodes."""

    free_bytes: float
    """Over all nodes [bytes]."""

    missing_copies: int = 0
    """Blocks that have fewer copies than asked for, whoever asked."""

    blocks_per_s: float = float("inf")
    """Copies of blocks that the store begins in a second, over all nodes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Announced:
    """Files are about to turn hot."""

    lease: str
    files: tuple[HotFile, ...]
    eta_s: float
    """Time until they do [s]."""

    lease_s: float
    """Their copies are given back after this time unless the lease is renewed [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Renewed:
    """A lease goes on, from now."""

    lease: str
    lease_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Released:
    """Whoever announced needs the copies no longer."""

    lease: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FiguresSeen:
    """A store was looked at."""

    store: str
    figures: Figures


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a file as it is placed now."""

    length: int
    copies: int
    """That live."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSeen:
    """A file was looked at."""

    file: StoredFile
    asked: int
    """Copies that the store is asked for now, whoever asked."""

    blocks: tuple[Block, ...]
    trouble: str = ""
    """Why copies do not come, as far as their holders say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileGone:
    """A file does not exist any more."""

    file: StoredFile


@dataclass(frozen=True, kw_only=True, slots=True)
class CopiesSet:
    """The store took the number."""

    file: StoredFile
    copies: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CopiesNotSet:
    """It did not, or did not answer: it may still take the number later."""

    file: StoredFile
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SetElsewhere:
    """Instead of a number that was expected, the store had one that somebody else set."""

    file: StoredFile
    found: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What is planned for one file of a lease."""

    file: StoredFile
    copies: int
    """Equal to ``original`` where it is not worth more, or not possible."""

    original: int
    """Before anybody raised it."""

    ready_in_s: float
    """Estimate, from the store's own throttle [s]."""

    saved_s: float
    """Estimate of what loading takes less [s]."""

    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptFile:
    """What a restart must know of a file whose number of copies was, or may have been, changed."""

    file: StoredFile
    original: int
    copies: int
    """The number that the store was last asked for, or is about to be."""

    asked: tuple[int, ...]
    """Every number that the store was asked for since it was raised first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptLease:
    """What a restart must know of a lease whose copies were planned."""

    lease: str
    files: tuple[HotFile, ...]
    wanted: tuple[Wanted, ...]
    eta_s: float
    """[s] from now; negative: since then."""

    lease_s: float
    """What is left of it [s]; not positive: it ended meanwhile."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """What was kept by the planner before this one."""

    leases: tuple[KeptLease, ...]
    files: tuple[KeptFile, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """Only time has passed."""


Event: TypeAlias = (
    Announced
    | Renewed
    | Released
    | FiguresSeen
    | FileSeen
    | FileGone
    | CopiesSet
    | CopiesNotSet
    | SetElsewhere
    | Restored
    | Tick
)


@dataclass(frozen=True, kw_only=True, slots=True)
class KeepFile:
    """Write this down before what follows in the list is done."""

    kept: KeptFile


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgetFile:
    """The file has its own number of copies again, or is not ours any more."""

    file: StoredFile
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SetCopies:
    """Ask the store for a number of copies, if what it is asked for now is as expected.

    Answered with ``CopiesSet``, ``CopiesNotSet`` or ``SetElsewhere``.
    """

    file: StoredFile
    copies: int
    expected: tuple[int, ...]
    is_raise: bool
    """Only then is a written record a condition: copies must be given back in any case."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """A lease's files were all seen, and this is what they get."""

    lease: str
    wanted: tuple[Wanted, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A lease is over; its copies are given back, but for those that other leases hold."""

    lease: str
    reason: str


Action: TypeAlias = KeepFile | ForgetFile | SetCopies | Planned | Ended

State = Literal["planning", "intended", "raising", "held", "lowering", "gone", "skipped"]
"""``skipped``: nothing of it is worth more copies, or can have them."""
