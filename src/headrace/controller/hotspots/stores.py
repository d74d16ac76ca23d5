"""Opens a store for having copies of its files made."""

from __future__ import annotations

from typing import cast

from headrace.controller.hotspots.carrier import Carrier, ReplicaCarrier, ReplicatingStore
from headrace.core.errors import StorageError
from headrace.storage.opening import open_storage
from headrace.storage.port import Locates, Observes, Replicates


def open_carrier(store: str) -> Carrier:
    """Return who makes copies of the files of a store.

    Args:
        store: URL of its root.

    Raises:
        HeadraceError: it cannot be opened, or there is nobody who could.
    """
    storage = open_storage(store)
    if all(isinstance(storage, ability) for ability in (Replicates, Locates, Observes)):
        return ReplicaCarrier(cast("ReplicatingStore", storage))
    storage.close()
    raise StorageError(f"{store} keeps no replicas, and no agents are there to keep copies")
