"""Copies of hot bytes in agents' memories, for stores whose files have no number of copies.

Which agents hold a file is decided by its name alone (``policy.spread``); readers ask agents what
they keep. An agent lets go of what is not renewed: nothing outlives a controller that is killed
by more than ``LEASE_S``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from headrace.core.errors import HeadraceError
from headrace.policy.hotspot.events import (
    Block,
    CopiesSet,
    Figures,
    FileSeen,
    HotFile,
    SetCopies,
    StoredFile,
)
from headrace.policy.spread import holders
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.ranges import (
    Preload,
    PreloadState,
    WantedRange,
    drop_preload,
    preload_state,
    put_preload,
)

LEASE_S = 60.0
"""An agent keeps hot bytes for this long after it was told so last [s]."""

_RENEW_S = 15.0
_CONNECT_S, _ANSWER_S = 1.0, 5.0

_PLENTY = 1e15
"""Memory of agents is not known here; one that has too little says so, and why [bytes]."""


@dataclass(slots=True)
class _Held:
    """Which agents are to hold a file."""

    copies: int = 0
    told_at: dict[str, float] = field(default_factory=dict)
    """Agent → when it was told last [s, monotonic]."""


class PreloadCarrier:
    """Has agents read hot bytes ahead and keep them. For one thread.

    Args:
        agents: Returns name → address of those that can be counted on now.
        token: What they ask for.
    """

    def __init__(self, agents: Callable[[], Mapping[str, str]], token: str) -> None:
        self._agents = agents
        self._token = token
        self._held: dict[StoredFile, _Held] = {}
        self._connections: dict[str, Connection] = {}

    def figures(self) -> Figures:
        """Return how many agents there are."""
        return Figures(
            replicates=False,
            nodes=len(self._agents()),
            transfers_per_node=0.0,
            free_bytes=_PLENTY,
        )

    def look(self, file: HotFile) -> FileSeen:
        """Return how many agents hold all of a file's hot bytes; renew their leases."""
        held = self._held.get(file.file, _Held())
        states = [self._state(file, held, name) for name in self._chosen(file.file, held.copies)]
        live = sum(one is not None and 0 < one.nbytes <= one.ready_bytes for one in states)
        trouble = next((one.reason for one in states if one is not None and one.reason), "")
        blocks = (Block(file.hot_bytes, live),)
        return FileSeen(file=file.file, asked=held.copies, blocks=blocks, trouble=trouble)

    def set_copies(self, order: SetCopies, file: HotFile) -> CopiesSet:
        """Have as many agents hold a file's hot bytes, and no others."""
        held = self._held.setdefault(order.file, _Held())
        chosen = self._chosen(order.file, order.copies)
        for name in held.told_at.keys() - set(chosen):
            self._drop(order.file, name)
        held.told_at = {name: at for name, at in held.told_at.items() if name in chosen}
        held.copies = order.copies
        for name in chosen:
            self._state(file, held, name)
        if not order.copies:
            del self._held[order.file]
        return CopiesSet(file=order.file, copies=order.copies)

    def close(self) -> None:
        """Close the connections to agents."""
        for connection in self._connections.values():
            connection.close()

    def _chosen(self, file: StoredFile, copies: int) -> list[str]:
        names = sorted(self._agents())
        if not copies or not names:
            return []
        return [names[one] for one in holders(file.store + file.path, names, copies)]

    def _state(self, file: HotFile, held: _Held, name: str) -> PreloadState | None:
        """Return how far an agent is, told anew now and then; None: it does not answer."""
        is_due = time.monotonic() - held.told_at.get(name, -LEASE_S) >= _RENEW_S
        try:
            if not is_due:
                return preload_state(self._connection(name), preload_name(file.file))
            state = put_preload(self._connection(name), preload_name(file.file), _preload(file))
        except HeadraceError:
            held.told_at.pop(name, None)
            return None
        held.told_at[name] = time.monotonic()
        return state

    def _drop(self, file: StoredFile, name: str) -> None:
        try:
            drop_preload(self._connection(name), preload_name(file))
        except HeadraceError:
            return  # it lets go by itself

    def _connection(self, name: str) -> Connection:
        address = self._agents().get(name, "")
        known = self._connections.get(name)
        if known is None or known.endpoint.address != address:
            endpoint = Endpoint(
                address=address,
                token=self._token,
                connect_timeout_s=_CONNECT_S,
                read_timeout_s=_ANSWER_S,
            )
            known = self._connections[name] = Connection(endpoint)
        return known


def preload_name(file: StoredFile) -> str:
    """Return what the preload of a file is called at agents."""
    return f"hot-{blake2b(f'{file.store}{file.path}'.encode(), digest_size=12).hexdigest()}"


def _preload(file: HotFile) -> Preload:
    folder, _, name = file.file.path.rpartition("/")
    ranges = file.ranges or ((0, file.size),)
    return Preload(
        url=file.file.store + folder,
        ranges=tuple(WantedRange(path=name, offset=one, length=length) for one, length in ranges),
        lease_s=LEASE_S,
    )
