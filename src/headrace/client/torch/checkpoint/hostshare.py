"""One rank's part in what the ranks of its host read once for all of them.

Every rank first brings its even part of the bundles, together with what only it wants. Then it
takes what the others brought, and brings itself what nobody is at: a rank that died, or has not
come so far. A rank that waits for another that gets nothing done reads for itself after a while.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from headrace.client.checkpoint.bundles import Bundle, Shared, cut_bundles
from headrace.client.checkpoint.sharing import POLL_S, SharedFolder, ShareLimits
from headrace.client.torch.checkpoint.loading import Brought, Loading, Want, Wants
from headrace.storage.port import FileRange

BUNDLES_PER_RANK = 2
"""At least, so that ranks read evenly and place what came while more is coming."""

LEAST_BUNDLE_BYTES = 4 << 20
"""Smaller ones would be more requests [bytes]."""


class HostShare:
    """What this rank takes and brings in one load. For one thread."""

    def __init__(
        self,
        folder: SharedFolder,
        shared: Shared,
        ranges: Mapping[int, FileRange],
        limits: ShareLimits,
    ) -> None:
        """Prepare to share.

        Args:
            folder: The host's memory for this load.
            shared: What the host's ranks have in common.
            ranges: Where those lie, by the number of the piece.
            limits: How to share.
        """
        self._folder = folder
        self._shared = shared
        self._limits = limits
        even = sum(one.length for one in ranges.values()) // (BUNDLES_PER_RANK * shared.ranks)
        nbytes = min(limits.bundle_bytes, max(even, LEAST_BUNDLE_BYTES))
        self._bundles = tuple(cut_bundles(shared.pieces, ranges, nbytes))
        self.taken_bytes = 0
        """What others brought and this rank took [bytes]."""

    def load(self, loading: Loading, private: Sequence[Want], wants: Wants) -> None:
        """Load what only this rank wants, and what it shares.

        Args:
            loading: Reads and places.
            private: What is not shared.
            wants: What this rank wants of shared pieces.
        """
        rest = []
        brought = []
        with ExitStack() as claims:
            for number, bundle in enumerate(self._bundles):
                if wants.keys().isdisjoint(bundle.pieces):
                    continue
                is_own = number % self._shared.ranks == self._shared.position
                claim = self._folder.claim(bundle.name, bundle.nbytes) if is_own else None
                if claim is None:
                    rest.append(bundle)
                else:
                    brought.append(Brought(bundle, claims.enter_context(claim), wants))
            loading.load(private, brought)
        self._take_rest(loading, rest, wants)

    def _take_rest(self, loading: Loading, rest: Sequence[Bundle], wants: Wants) -> None:
        """Take bundles as they come, until all are there or nobody gets on."""
        came_at = time.monotonic()
        while rest and time.monotonic() < came_at + self._limits.wait_s:
            left = [bundle for bundle in rest if not self._take(loading, bundle, wants)]
            if len(left) < len(rest):
                came_at = time.monotonic()
            elif not any(self._folder.has_room(bundle.nbytes) for bundle in left):
                break
            else:
                time.sleep(POLL_S)
            rest = left
        pieces = [piece for bundle in rest for piece in bundle.pieces]
        loading.load([want for piece in pieces for want in wants.get(piece, ())])

    def _take(self, loading: Loading, bundle: Bundle, wants: Wants) -> bool:
        """Take a bundle if it is there, or bring it if nobody does; False: neither."""
        data = self._folder.find(bundle.name)
        if data is not None:
            loading.place_all(bundle, wants, data)
            self.taken_bytes += bundle.nbytes
            return True
        claim = self._folder.claim(bundle.name, bundle.nbytes)
        if claim is None:
            return False
        with claim:
            loading.load([], [Brought(bundle, claim, wants)])
        return True
