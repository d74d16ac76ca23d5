"""Which pieces of a checkpoint the ranks of a host read once for all of them, and by whom.

Pure arithmetic. Every rank says which pieces it wants; the coordinator, who sees all of it, tells
each host what its ranks have in common; each rank then cuts that into the same bundles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.core.digest import name_digest
from headrace.storage.port import FileRange

Numbers: TypeAlias = "npt.NDArray[np.int64]"

SAVED_AT_LEAST = 1.5
"""A piece is shared where ranks would read this many times its length without sharing."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What one rank wants."""

    host: str
    """Equal for ranks that can share."""

    pieces: Numbers
    """Numbers of pieces, each once."""

    wanted_bytes: Numbers
    """Of each of them [bytes]."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What the ranks of a host have in common, as one of them is told."""

    pieces: Numbers
    """Numbers of pieces, ascending."""

    position: int
    """Of the rank among those of the host."""

    ranks: int
    """Of the host."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """Pieces that one rank reads at a time for all of its host."""

    pieces: tuple[int, ...]
    ranges: tuple[FileRange, ...]
    """Where these lie."""

    starts: tuple[int, ...]
    """Where each begins in the bundle [bytes]."""

    nbytes: int

    @property
    def name(self) -> str:
        """What tells it from other bundles of the checkpoint."""
        return name_digest(np.array(self.pieces, np.int64).tobytes())


def find_shared(claims: Sequence[Claims | None], lengths: Numbers) -> list[Shared | None]:
    """Return for each rank what it shares with others of its host; None: nothing.

    Args:
        claims: By rank; None: it does not share.
        lengths: Of all pieces, by number [bytes].
    """
    hosts: dict[str, list[int]] = defaultdict(list)
    for rank, claim in enumerate(claims):
        if claim is not None:
            hosts[claim.host].append(rank)
    shared: list[Shared | None] = [None] * len(claims)
    for ranks in hosts.values():
        pieces = _common([claims[rank] for rank in ranks], lengths)
        for position, rank in enumerate(ranks):
            if len(pieces):
                shared[rank] = Shared(pieces, position, len(ranks))
    return shared


def _common(claims: Sequence[Claims | None], lengths: Numbers) -> Numbers:
    known = [claim for claim in claims if claim is not None]
    every = np.concatenate([claim.pieces for claim in known])
    wanted = np.concatenate([claim.wanted_bytes for claim in known])
    pieces, places, counts = np.unique(every, return_inverse=True, return_counts=True)
    totals = np.bincount(places, weights=wanted, minlength=len(pieces))
    common: Numbers = pieces[(counts > 1) & (totals >= SAVED_AT_LEAST * lengths[pieces])]
    return common


def cut_bundles(
    pieces: Numbers, ranges: Mapping[int, FileRange], bundle_bytes: int
) -> Iterator[Bundle]:
    """Yield pieces in bundles, by file and offset.

    Args:
        pieces: Numbers of pieces.
        ranges: Where they lie, by number.
        bundle_bytes: About the length of a bundle; a longer piece is one by itself.
    """
    bundle: list[int] = []
    nbytes = 0
    for piece in sorted(pieces.tolist(), key=lambda n: (ranges[n].path, ranges[n].offset)):
        if bundle and nbytes + ranges[piece].length > bundle_bytes:
            yield _bundle(bundle, ranges)
            bundle, nbytes = [], 0
        bundle.append(piece)
        nbytes += ranges[piece].length
    if bundle:
        yield _bundle(bundle, ranges)


def _bundle(pieces: Sequence[int], ranges: Mapping[int, FileRange]) -> Bundle:
    own = tuple(ranges[piece] for piece in pieces)
    ends = np.cumsum([0, *(one.length for one in own)]).tolist()
    return Bundle(tuple(pieces), own, tuple(ends[:-1]), ends[-1])
