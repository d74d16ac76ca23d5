"""What an emulated cluster consists of: read from TOML, checked, frozen."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from headrace.core.errors import ConfigError, NotFoundError
from testbed.disk_profiles import DiskSpec
from testbed.keys import build, tables

Role = Literal["namenode", "storage", "trainer"]
"""What a host is for."""

HOSTS_PER_SITE = 200
"""A site is a /24 network, whose last addresses are kept for the router and the owner."""

_NAME = re.compile(r"[a-z][a-z0-9-]{0,11}")


@dataclass(frozen=True, kw_only=True, slots=True)
class HostGroup:
    """Equal hosts: ``[[hosts]]`` in a scenario."""

    role: Role
    count: int = 1
    name: str = ""
    """The hosts are NAME-1, NAME-2 …; the role if not given."""

    site: str = "main"
    """Hosts of one site share a switch; two sites are joined by the WAN link."""

    cpus: float | None = None
    """CPU time that the host may use per second [cores]; None: no quota."""

    rate_mbit_per_s: float | None = None
    """Rate of its network link, each way [Mbit/s]; None: as fast as the machine."""

    disk: DiskSpec | None = None
    """A disk of its own; None: a directory on the machine's disk, not limited."""

    def __post_init__(self) -> None:
        _require(self.role in get_args(Role), "role", self.role, f"one of {get_args(Role)}")
        _require(1 <= self.count <= HOSTS_PER_SITE, "count", self.count, f"1 to {HOSTS_PER_SITE}")
        for key, name in (("name", self.prefix), ("site", self.site)):
            _require(
                _NAME.fullmatch(name) is not None,
                key,
                name,
                "at most 12 of a-z, 0-9 and '-', a letter first",
            )
        _require(self.cpus is None or 0.01 <= self.cpus <= 1024, "cpus", self.cpus, "0.01 to 1024")
        rate = self.rate_mbit_per_s
        _require(rate is None or 1 <= rate <= 1e5, "rate_mbit_per_s", rate, "1 to 100,000")

    @property
    def prefix(self) -> str:
        """What the hosts' names begin with."""
        return self.name or self.role


@dataclass(frozen=True, kw_only=True, slots=True)
class HostSpec:
    """One host."""

    name: str
    number: int
    """1, 2 … within its site; decides its address."""

    group: HostGroup


@dataclass(frozen=True, kw_only=True, slots=True)
class Wan:
    """The line between two sites."""

    delay_ms: float = 15.0
    """One way; a round trip takes twice as long [ms]."""

    rate_mbit_per_s: float = 600.0
    """Each way [Mbit/s]."""

    queue_ms: float = 50.0
    """How long a packet may wait for the line before packets are dropped [ms]."""

    def __post_init__(self) -> None:
        _require(0 <= self.delay_ms <= 2000, "wan.delay_ms", self.delay_ms, "0 to 2000")
        _require(
            1 <= self.rate_mbit_per_s <= 4000,
            "wan.rate_mbit_per_s",
            self.rate_mbit_per_s,
            "1 to 4000, as one Python process passes the packets on",
        )
        _require(1 <= self.queue_ms <= 1000, "wan.queue_ms", self.queue_ms, "1 to 1000")


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """One emulated cluster."""

    name: str
    hosts: tuple[HostGroup, ...]
    wan: Wan | None = None
    services: Mapping[str, Any] = field(default_factory=dict)
    """What runs on the hosts; read by ``testbed.services``."""

    def __post_init__(self) -> None:
        _require(bool(self.hosts), "hosts", (), "at least one [[hosts]] table")
        sites = self.sites
        _require(len(sites) <= 2, "site", ", ".join(sites), "at most two different names")
        _require((len(sites) == 2) == (self.wan is not None), "wan", self.wan, _WAN_RULE)
        twice = [name for name, n in Counter(host.name for host in self.specs()).items() if n > 1]
        _require(not twice, "name", ", ".join(twice), "different for each group of hosts")
        crowds = Counter(host.group.site for host in self.specs())
        _require(
            max(crowds.values()) <= HOSTS_PER_SITE,
            "count",
            max(crowds.values()),
            f"at most {HOSTS_PER_SITE} hosts in one site",
        )

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites' names in the order of their first host."""
        return tuple(dict.fromkeys(group.site for group in self.hosts))

    def specs(self) -> Iterator[HostSpec]:
        """Yield each host."""
        numbers: Counter[str] = Counter()
        for group in self.hosts:
            for index in range(1, group.count + 1):
                numbers[group.site] += 1
                name = f"{group.prefix}-{index}"
                yield HostSpec(name=name, number=numbers[group.site], group=group)

    @classmethod
    def parse(cls, text: str, *, source: str = "scenario") -> Scenario:
        """Read a scenario from TOML.

        Raises:
            ConfigError: It is not TOML, a key is unknown, or a value is out of its range.
        """
        try:
            values = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigError(f"{source} is not TOML: {error}") from error
        try:
            return _from_mapping(values)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from error

    @classmethod
    def load(cls, path: Path) -> Scenario:
        """Read a scenario from a file.

        Raises:
            NotFoundError: There is no such file.
            ConfigError: It is no scenario.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise NotFoundError(
                f"there is no scenario {str(path)!r}; testbed/scenarios/ has examples"
            ) from error
        except (UnicodeDecodeError, IsADirectoryError) as error:
            raise ConfigError(f"{str(path)!r} is no scenario: {error}") from error
        return cls.parse(text, source=str(path))


_WAN_RULE = "a [wan] table exactly if hosts name two sites"


def _from_mapping(values: Mapping[str, Any]) -> Scenario:
    values = dict(values)
    groups = tuple(_group(table) for table in tables(values.pop("hosts", []), where="hosts"))
    wan = values.pop("wan", None)
    if wan is not None:
        values["wan"] = build(Wan, wan, where="wan")
    return build(Scenario, values | {"hosts": groups}, where="the scenario")


def _group(table: Mapping[str, Any]) -> HostGroup:
    values = dict(table)
    if "disk" in values:
        values["disk"] = build(DiskSpec, values["disk"], where="hosts.disk")
    return build(HostGroup, values, where="hosts")


def _require(holds: bool, key: str, value: object, rule: str) -> None:
    if not holds:
        raise ConfigError(f"{key}={value!r} must be {rule}")
