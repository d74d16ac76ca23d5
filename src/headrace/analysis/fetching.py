"""What ranks asked of agents, apart from what was asked of storage.

Bytes that an agent reads of storage and sends to a rank are told twice where the traces of both are
analysed: by the agent's ``read`` and by the rank's ``fetch``. Storage's bytes are then those of the
agent, the network's those of the rank. Where the agents' traces lack, fetches are all that is known
of the reads behind them, and stand for these.
"""

from __future__ import annotations

import pyarrow.compute as pc

from headrace.analysis.columns import NULL, Columns, Mask
from headrace.trace.events import Kind

_FETCH, _SERVE = "fetch", "serve"


def without_fetches(requests: Columns) -> Columns:
    """Return the requests that were not asked of agents."""
    return requests.where(~_named(requests, _FETCH))


def only_fetches(requests: Columns) -> Columns:
    """Return the requests that were asked of agents."""
    return requests.where(_named(requests, _FETCH))


def are_told_by_agents(events: Columns) -> bool:
    """Tell whether an agent recorded some of these events: its answers."""
    return bool(_named(events.of(Kind.CALL), _SERVE).any())


def _named(events: Columns, name: str) -> Mask:
    codes, names = events.texts("name")
    code = pc.index(names, name).as_py()
    named: Mask = codes == (code if code >= 0 else NULL - 1)
    return named
