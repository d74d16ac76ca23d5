"""Who has copies made: the store itself where it keeps replicas, agents where it does not."""

from __future__ import annotations

from typing import Protocol

from headrace.core.errors import NotFoundError
from headrace.policy.hotspot.events import (
    Block,
    CopiesSet,
    Figures,
    FileGone,
    FileSeen,
    HotFile,
    SetCopies,
    SetElsewhere,
)
from headrace.storage.port import Locates, Observes, Replicates, Storage, StoreState


class Carrier(Protocol):
    """Changes and tells the numbers of copies of one store's files. For one thread."""

    def figures(self) -> Figures:
        """Return how busy the store is.

        Raises:
            HeadraceError: it cannot be told now.
        """
        ...

    def look(self, file: HotFile) -> FileSeen | FileGone:
        """Return how many copies a file is to have, and has.

        Raises:
            HeadraceError: it cannot be told now.
        """
        ...

    def set_copies(self, order: SetCopies, file: HotFile) -> CopiesSet | SetElsewhere | FileGone:
        """Ask for a number of copies of a file, if nobody else did meanwhile.

        Raises:
            HeadraceError: it was refused, or not answered: it may be carried out later.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class ReplicatingStore(Storage, Replicates, Locates, Observes, Protocol):
    """A store that keeps replicas, and tells of them."""


class ReplicaCarrier:
    """Asks a store for replicas.

    Args:
        storage: The store's root.
    """

    def __init__(self, storage: ReplicatingStore) -> None:
        self._storage = storage

    def figures(self) -> Figures:
        """Return what the store says of itself."""
        return figures_of(self._storage.state())

    def look(self, file: HotFile) -> FileSeen | FileGone:
        """Return the replicas of each block."""
        path = file.file.path
        try:
            asked = self._storage.replication(path)
            places = self._storage.locations(path)
        except NotFoundError:
            return FileGone(file=file.file)
        blocks = tuple(Block(place.length, len(place.replicas)) for place in places)
        return FileSeen(file=file.file, asked=asked, blocks=blocks)

    def set_copies(
        self,
        order: SetCopies,
        file: HotFile,  # noqa: ARG002 - whole files are copied
    ) -> CopiesSet | SetElsewhere | FileGone:
        """Set the replication, if it is what is expected or set already."""
        path = order.file.path
        try:
            found = self._storage.replication(path)
            if found not in (*order.expected, order.copies):
                return SetElsewhere(file=order.file, found=found)
            if found != order.copies:
                self._storage.set_replication(path, order.copies)
        except NotFoundError:
            return FileGone(file=order.file)
        return CopiesSet(file=order.file, copies=order.copies)

    def close(self) -> None:
        """Close the store."""
        self._storage.close()


def figures_of(state: StoreState) -> Figures:
    """Return what the planner goes by, from what a store says of itself."""
    nodes = state.nodes
    return Figures(
        replicates=True,
        nodes=len(nodes),
        transfers_per_node=sum(node.transfers for node in nodes) / max(len(nodes), 1),
        free_bytes=float(sum(node.free_bytes for node in nodes)),
        missing_copies=state.missing_copies,
        blocks_per_s=state.blocks_per_s,
    )
