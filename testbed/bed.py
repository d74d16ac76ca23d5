"""A bed: one emulated cluster from its start to its removal."""

from __future__ import annotations

import functools
import ipaddress
import logging
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from headrace.core.errors import CallerError, NotFoundError, RemoteError
from testbed import disks, network, probe, removal, wan
from testbed.cgroups import Group, Trees, find_trees, limit_writeback
from testbed.guardian import Guardian
from testbed.host import Host
from testbed.names import BedNames
from testbed.scenario import HostSpec, Scenario
from testbed.state import Owner, Record, Registry, this_boot

_LOG = logging.getLogger(__name__)

_REAPING_S = 5.0
"""A killed process is collected within milliseconds [s]."""


class Testbed:
    """One emulated cluster, as a context manager.

    Entering makes it; leaving removes every trace of it. If the owner is killed, a guardian
    process removes it at once; if that is killed too, the next start of any bed does.

    Args:
        scenario: What it consists of.
        registry: Where beds are kept.
    """

    __test__ = False
    """The name begins like a test's."""

    def __init__(self, scenario: Scenario, *, registry: Registry | None = None) -> None:
        self.scenario = scenario
        self._registry = registry or Registry()
        self._number: int | None = None
        self._guardian: Guardian | None = None
        self._relay: subprocess.Popen[bytes] | None = None
        self._hosts: dict[str, Host] = {}

    @property
    def number(self) -> int:
        """Which bed of this machine it is."""
        if self._number is None:
            raise CallerError("the bed is not up; use it as a context manager: `with Testbed(…)`")
        return self._number

    @functools.cached_property
    def _trees(self) -> Trees:
        return find_trees()

    @property
    def names(self) -> BedNames:
        """What its parts are called."""
        return BedNames(number=self.number)

    @property
    def directory(self) -> Path:
        """Where its disks, files and logs are."""
        return self._registry.directory(self.number)

    @property
    def hosts(self) -> Mapping[str, Host]:
        """Its hosts by name, such as ``storage-1``."""
        return self._hosts

    def by_role(self, role: str, site: str | None = None) -> list[Host]:
        """Return its hosts of a role, in order; of one site if it is given."""
        groups = ((host, host.spec.group) for host in self._hosts.values())
        return [host for host, group in groups if group.role == role and site in (None, group.site)]

    def line_bytes(self) -> wan.LineBytes:
        """Return what has crossed the line between its sites; cheap enough for many a second.

        Raises:
            CallerError: It has no line, or was found with `attach`.
        """
        if self._relay is None:
            raise CallerError(f"this process has made no line between sites of bed {self.number}")
        return wan.line_bytes(self._relay.pid)

    def __enter__(self) -> Testbed:
        self.make()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def make(self) -> None:
        """Make it; it belongs to this process, and ends with it.

        Raises:
            ConfigError: The kernel lacks what the scenario needs.
            TestbedError: A part could not be made; what was made was removed.
        """
        probe.require(self.scenario)
        self._clean()
        owner = Owner.of_this_process()
        record = Record(name=self.scenario.name, owner=owner, boot=this_boot())
        has_room = functools.partial(_has_room, self.scenario, network.networks_in_use())
        self._number = self._registry.claim(record, has_room=has_room)
        try:
            self._guardian = Guardian(self._registry, self._number, owner)
            self._build()
        except BaseException:
            self.remove()
            raise

    def keep(self, text: str) -> None:
        """Let it outlive this process, until it is taken down; `attach` finds it again.

        Args:
            text: The scenario's TOML.
        """
        record = Record(name=self.scenario.name, owner=None, boot=this_boot(), scenario=text)
        self._registry.rewrite(self.number, record)
        if self._guardian is not None:
            self._guardian.dismiss()
            self._guardian = None

    def remove(self) -> None:
        """Remove it; harmless if it is gone.

        Raises:
            TestbedError: Something of it is still there.
        """
        if self._number is None:
            return
        removal.remove(self._registry, self._number)
        for host in self._hosts.values():
            host.reap()
        if self._relay is not None:
            self._relay.wait(_REAPING_S)
        if self._guardian is not None:
            self._guardian.dismiss()
        self._number, self._guardian, self._relay, self._hosts = None, None, None, {}

    @classmethod
    def attach(cls, number: int, *, registry: Registry | None = None) -> Testbed:
        """Return a bed that another process made and left running.

        Raises:
            NotFoundError: There is no such bed.
        """
        registry = registry or Registry()
        record = registry.record(number)
        if record is None or record.owner is not None or registry.is_abandoned(number):
            raise NotFoundError(
                f"no bed {number} was left running by `up`; `python -m testbed status` lists all"
            )
        bed = cls(Scenario.parse(record.scenario), registry=registry)
        bed._number = number
        for spec in bed.scenario.specs():
            disk = spec.group.disk
            found = disks.find(bed._home(spec), disk) if disk else None
            bed._hosts[spec.name] = bed._host(spec, found)
        return bed

    def _clean(self) -> None:
        """Remove what crashes left; a leftover that resists does not keep a new bed from being."""
        try:
            removal.remove_abandoned(self._registry)
        except RemoteError as error:
            _LOG.warning("a bed that was left by a crash stays: %s", error)

    def _build(self) -> None:
        whole = Group(self._trees, self.names.group)
        whole.make()
        whole.weigh(len(list(self.scenario.specs())))
        tools = self._group("tools")
        network.carry_out(network.plan(self.names, self.scenario), inside=tools)
        for spec in self.scenario.specs():
            self._hosts[spec.name] = self._make_host(spec, tools)
        if self.scenario.wan is not None:
            line = self._group("wan")
            line.weigh(wan.SHARES)
            log = self.directory / "wan.log"
            self._relay = wan.join(self.names, self.scenario, line, log)

    def _make_host(self, spec: HostSpec, tools: Group) -> Host:
        group = self._group(spec.name)
        if spec.group.cpus is not None:
            group.limit_cpu(spec.group.cpus)
        home = self._home(spec)
        if spec.group.disk is None:
            home.mkdir(parents=True)
            return self._host(spec, None)
        file = self.directory / f"{spec.name}.disk"
        disk = disks.make(file, home, spec.group.disk, inside=tools)
        group.limit_disk(disk.device, disk.limits)
        limit_writeback(self._trees, disk.device, disk.limits)
        return self._host(spec, disk)

    def _host(self, spec: HostSpec, disk: disks.Disk | None) -> Host:
        site = spec.group.site
        return Host(
            spec=spec,
            ip=self.names.address(self.scenario.sites.index(site), spec.number),
            namespace=self.names.namespace(spec.name),
            group=Group(self._trees, f"{self.names.group}/{spec.name}"),
            directory=self._home(spec),
            disk=disk,
            cable=(self.names.switch(site), spec.name),
        )

    def _group(self, name: str) -> Group:
        group = Group(self._trees, f"{self.names.group}/{name}")
        group.make()
        return group

    def _home(self, spec: HostSpec) -> Path:
        return self.directory / "hosts" / spec.name


def _has_room(scenario: Scenario, used: list[ipaddress.IPv4Network], number: int) -> bool:
    """Return whether no route of this machine leads into the bed's networks."""
    names = BedNames(number=number)
    mine = [ipaddress.IPv4Network(names.network(index)) for index in range(len(scenario.sites))]
    return not any(one.overlaps(other) for one in mine for other in used)
