"""What NameNodes and DataNodes say about themselves, read from their JMX servlets."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from typing import Any

import msgspec

_STATE = "Hadoop:service=NameNode,name=FSNamesystemState"
_STATUS = "Hadoop:service=NameNode,name=NameNodeStatus"
_DATANODE = "Hadoop:service=DataNode,name=DataNodeInfo"


@dataclass(frozen=True, kw_only=True, slots=True)
class NameNodeState:
    """One look at a NameNode."""

    role: str
    """``active`` or ``standby``."""

    live_datanodes: int
    dead_datanodes: int
    stale_datanodes: int
    in_safe_mode: bool
    under_replicated_blocks: int
    capacity_bytes: int
    used_bytes: int


def look(http_address: str, *, timeout_s: float = 2.0) -> NameNodeState | None:
    """Return the state of the NameNode at ``IP:port``; None when it does not answer (yet)."""
    state = _bean(http_address, _STATE, timeout_s)
    status = _bean(http_address, _STATUS, timeout_s) if state else None
    if state is None or status is None:
        return None
    return NameNodeState(
        role=status["State"],
        live_datanodes=state["NumLiveDataNodes"],
        dead_datanodes=state["NumDeadDataNodes"],
        stale_datanodes=state["NumStaleDataNodes"],
        in_safe_mode=state["FSState"] != "Operational",
        under_replicated_blocks=state["UnderReplicatedBlocks"],
        capacity_bytes=state["CapacityTotal"],
        used_bytes=state["CapacityUsed"],
    )


def registrations(http_address: str, *, timeout_s: float = 2.0) -> int:
    """Return with how many NameNodes the DataNode at ``IP:port`` has registered.

    Before it has with any, it lets readers wait: it does not know yet which blocks are its own.
    """
    info = _bean(http_address, _DATANODE, timeout_s)
    actors = info["BPServiceActorInfo"] if info else "[]"
    told: list[dict[str, str]] = msgspec.json.decode(actors) if isinstance(actors, str) else actors
    return sum(one["ActorState"] == "RUNNING" for one in told)


def _bean(http_address: str, name: str, timeout_s: float) -> dict[str, Any] | None:
    connection = http.client.HTTPConnection(http_address, timeout=timeout_s)
    try:
        connection.request("GET", f"/jmx?qry={name}")
        beans = msgspec.json.decode(connection.getresponse().read())["beans"]
    except (OSError, http.client.HTTPException, msgspec.DecodeError, KeyError):
        return None
    finally:
        connection.close()
    found: dict[str, Any] | None = beans[0] if beans else None
    return found if found and _SAYS[name] in found else None


_SAYS = {_STATE: "FSState", _STATUS: "State", _DATANODE: "BPServiceActorInfo"}
"""What a bean holds once its daemon has come so far."""
