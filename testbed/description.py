"""What a bed looks like from outside: values for tables and JSON, with units in their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from testbed.bed import Testbed
from testbed.host import Host
from testbed.services import ServicesRecord

State = Literal["up", "owned", "abandoned"]
"""Left running by `up`; in use by a process; left by a process that ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostDescription:
    """One host."""

    name: str
    role: str
    site: str
    address: str
    namespace: str
    directory: str
    cpus: float | None
    rate_mbit_per_s: float | None
    disk: str | None
    cpu_seconds: float
    received_bytes: int
    sent_bytes: int
    processes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BedDescription:
    """One bed."""

    bed: int
    scenario: str
    state: State
    directory: str = ""
    owner_pid: int | None = None
    left: str = ""
    """What an abandoned bed still consists of."""

    hosts: tuple[HostDescription, ...] = ()
    services: ServicesRecord | None = None
    """HDFS and agents; None: the scenario has none."""


def describe(bed: Testbed) -> BedDescription:
    """Return what a bed that is up looks like now."""
    return BedDescription(
        bed=bed.number,
        scenario=bed.scenario.name,
        state="up",
        directory=str(bed.directory),
        hosts=tuple(_describe(host) for host in bed.hosts.values()),
        services=ServicesRecord.of_bed(bed),
    )


def _describe(host: Host) -> HostDescription:
    group, traffic = host.spec.group, host.network_bytes()
    return HostDescription(
        name=host.name,
        role=group.role,
        site=group.site,
        address=host.ip,
        namespace=host.namespace,
        directory=str(host.directory),
        cpus=group.cpus,
        rate_mbit_per_s=group.rate_mbit_per_s,
        disk=group.disk.profile if group.disk else None,
        cpu_seconds=host.cpu_seconds(),
        received_bytes=traffic.received,
        sent_bytes=traffic.sent,
        processes=len(host.processes()),
    )
