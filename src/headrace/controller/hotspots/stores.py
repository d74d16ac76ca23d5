"""Opens a store for having copies of its files made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from headrace.controller.hotspots.carrier import Carrier, ReplicaCarrier, ReplicatingStore
from headrace.controller.hotspots.preloads import PreloadCarrier
from headrace.storage.opening import open_storage
from headrace.storage.port import Locates, Observes, Replicates


def open_carrier(
    store: str, agents: Callable[[], Mapping[str, str]] = dict, token: str = ""
) -> Carrier:
    """Return who makes copies of the files of a store.

    Args:
        store: URL of its root.
        agents: Returns name → address of those that could, if the store does not.
        token: What agents ask for.

    Raises:
        HeadraceError: the store cannot be opened.
    """
    storage = open_storage(store)
    if all(isinstance(storage, ability) for ability in (Replicates, Locates, Observes)):
        return ReplicaCarrier(cast("ReplicatingStore", storage))
    storage.close()
    return PreloadCarrier(agents, token)
