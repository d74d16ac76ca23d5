"""One file while leases want more copies of it than it had: what to ask its store for next."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.policy.hotspot.events import Block, FileSeen, KeptFile, SetCopies, State, StoredFile
from headrace.policy.hotspot.limits import HotspotLimits


@dataclass(slots=True)
class RaisedFile:
    """A file's own number of copies, what was asked for since, and who wants it."""

    file: StoredFile
    original: int
    copies: int
    """The number that the store was last asked for, or is about to be."""

    asked: set[int] = field(default_factory=set)
    """Every number that the store was asked for since."""

    wanted: dict[str, int] = field(default_factory=dict)
    """Lease → copies."""

    target: int = 0
    """The most that any lease wanted since the file was raised: it is lowered in one go."""

    blocks: tuple[Block, ...] = ()
    taken: int | None = None
    """The number that the store has, as far as it told; None: it did not tell yet."""

    under_way: bool = False
    """Whether the store is being asked."""

    trouble: str = ""
    try_at: float = 0.0
    unsure_until: float = 0.0
    """A call that was not answered may be carried out until then."""

    failures: int = 0

    @property
    def kept(self) -> KeptFile:
        """What a restart must know of it."""
        return KeptFile(
            file=self.file,
            original=self.original,
            copies=self.copies,
            asked=tuple(sorted(self.asked)),
        )

    @property
    def is_set(self) -> bool:
        """Whether the store took the number it was last asked for."""
        return self.taken == self.copies

    @property
    def has_own(self) -> bool:
        """Whether the store has its own number, as far as it told."""
        return self.taken == self.original

    def state(self, nodes: int) -> State:
        """Return how far it is, on a store with so many nodes."""
        if not self.wanted:
            return "lowering"
        if self.original in (self.copies, self.taken):
            return "intended"
        is_there = self.is_set and self.live >= min(self.target, nodes)
        return "held" if is_there else "raising"

    @property
    def live(self) -> int:
        """Copies that the block with the fewest has."""
        return min((block.copies for block in self.blocks), default=self.original)

    @property
    def behind(self) -> int:
        """Blocks that have fewer copies than the store is asked for by us."""
        return sum(block.copies < self.copies for block in self.blocks)

    def made_bytes(self, copies: int) -> int:
        """Return the bytes of all copies that live, no more than so many of each block."""
        return sum(block.length * min(block.copies, copies) for block in self.blocks)

    def ready_bytes(self, copies: int) -> int:
        """Return the bytes of which so many copies live."""
        return sum(block.length for block in self.blocks if block.copies >= copies)

    @property
    def nbytes(self) -> int:
        """Return the bytes of all blocks."""
        return sum(block.length for block in self.blocks)

    def want(self, lease: str, copies: int) -> None:
        """Let a lease want copies."""
        self.wanted[lease] = copies
        self.target = max(self.target, copies)

    def expected(self, now: float) -> tuple[int, ...]:
        """Return the numbers that the store may have been given by nobody else."""
        if self.is_set and now >= self.unsure_until:
            return (self.copies,)
        return tuple(sorted({self.original, self.copies, *self.asked}))

    def see(self, seen: FileSeen) -> None:
        """Take what the store told."""
        self.blocks = seen.blocks
        if not self.under_way:
            self.taken = seen.asked
        if self.is_set or seen.trouble:
            self.trouble = seen.trouble

    def succeed(self, copies: int) -> None:
        """Take that the store took a number."""
        self.under_way, self.failures, self.trouble = False, 0, ""
        self.copies = self.taken = copies
        if copies == self.original:
            self.target = max(self.wanted.values(), default=0)

    def fail(self, reason: str, now: float, limits: HotspotLimits) -> None:
        """Take that it did not, or did not say."""
        self.under_way, self.trouble = False, reason
        pause_s = min(limits.retry_s * 2.0**self.failures, limits.longest_retry_s)
        self.failures += 1
        self.try_at, self.unsure_until = now + pause_s, now + limits.unsure_s

    def lower(self, now: float) -> SetCopies:
        """Ask for the file's own number."""
        self.under_way = True
        return SetCopies(
            file=self.file, copies=self.original, expected=self.expected(now), is_raise=False
        )

    def stage(self, limits: HotspotLimits, *, most: int, staged: bool) -> int:
        """Return the copies to ask for now.

        Args:
            limits: How much more may be asked for at once.
            most: Nodes that live.
            staged: Whether a store is to be asked for no more than it can soon have.
        """
        target = max(min(self.target, most), self.copies)
        grown = limits.most_growth * max(self.live, 1) if staged else target
        if grown >= target:
            return target
        return max(grown, self.copies) if self.live >= self.copies else self.copies

    def raise_to(self, copies: int, now: float) -> SetCopies:
        """Ask for more copies, or for the same again."""
        expected = self.expected(now)
        self.asked.add(copies)
        self.copies, self.under_way = copies, True
        return SetCopies(file=self.file, copies=copies, expected=expected, is_raise=True)
