"""How a recorded cluster is: which of its processes are there, and what its NameNodes say."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.devhdfs import jmx, processes
from headrace.devhdfs.state import Record


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonHealth:
    """One daemon now."""

    name: str
    address: str
    pid: int | None
    """None: it does not run."""

    says: str
    """``active``, ``standby``, ``running``, ``frozen``, ``no answer`` or ``gone``."""

    log: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """A whole cluster now."""

    daemons: tuple[DaemonHealth, ...]
    state: jmx.NameNodeState | None
    """As the active NameNode has it; None when there is none."""

    @property
    def is_well(self) -> bool:
        """Whether everything that was started is there and can be written to."""
        return (
            self.state is not None
            and not self.state.in_safe_mode
            and self.state.live_datanodes >= sum("datanode" in one.name for one in self.daemons)
            and all(one.says in ("active", "standby", "running") for one in self.daemons)
        )

    @property
    def has_namenode(self) -> bool:
        """Whether a NameNode's process is there, be it frozen or still starting."""
        return any(one.pid is not None for one in self.daemons if "namenode" in one.name)


def look(record: Record) -> Health:
    """Look at a cluster's processes, and ask those NameNodes that can answer."""
    found = {one.name: one for one in processes.marked(record.path)}
    states = {
        one.name: jmx.look(one.http)
        for one in record.namenodes
        if one.name in found and not found[one.name].is_frozen
    }
    active = (state for state in states.values() if state and state.role == "active")
    daemons = (
        DaemonHealth(
            name=one.name,
            address=one.address,
            pid=found[one.name].pid if one.name in found else None,
            says=_says(found.get(one.name), states.get(one.name), asked=one.name in states),
            log=f"{record.directory}/{one.name}/log",
        )
        for one in (*record.namenodes, *record.datanodes)
    )
    return Health(daemons=tuple(daemons), state=next(active, None))


def _says(process: processes.Found | None, state: jmx.NameNodeState | None, *, asked: bool) -> str:
    if process is None:
        return "gone"
    if process.is_frozen:
        return "frozen"
    if not asked:
        return "running"
    return state.role if state else "no answer"
