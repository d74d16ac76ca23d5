"""Where a cluster's daemons run, what they listen on, and how each is started."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.devhdfs import config as site
from headrace.devhdfs.config import ClusterConfig, NameNodeAddress, Properties
from headrace.devhdfs.daemon import DaemonSpec, Launch, launch_here
from headrace.devhdfs.ports import PortReservation
from headrace.devhdfs.processes import mark

LOOPBACK = "127.0.0.1"
CLIENT = "client"
"""The directory with what clients need to know."""

_NAMENODE_PORTS = (8020, 9870)
_DATANODE_PORTS = (9866, 9864, 9867)
"""Hadoop's own numbers, for hosts that are the cluster's alone."""

_PACKAGE = "org.apache.hadoop.hdfs.server"
NAMENODE_CLASS = f"{_PACKAGE}.namenode.NameNode"
DATANODE_CLASS = f"{_PACKAGE}.datanode.DataNode"
_OPENED = ("java.lang", "java.nio", "sun.nio.ch", "java.util")


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """Where one daemon runs: this host, or one that is emulated."""

    ip: str = LOOPBACK
    """Address to listen on; the daemon has the loopback address to share with others, and any
    other to itself."""

    launch: Launch = launch_here
    """Starts a process there."""

    directory: Path | None = None
    """Where the daemon keeps its data; None: below the cluster's directory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hosts:
    """The hosts of a cluster, in the order of its daemons."""

    namenodes: Sequence[Host]
    datanodes: Sequence[Host]

    @staticmethod
    def here(config: ClusterConfig) -> Hosts:
        """Return hosts that are all this one."""
        return Hosts(namenodes=(Host(),) * config.namenodes, datanodes=(Host(),) * config.datanodes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """What all daemons are run with."""

    java: Path
    classpath: str
    heap_bytes: int

    def argv(self, directory: Path, name: str, main: Sequence[str]) -> list[str]:
        """Return the command line of a JVM that belongs to the cluster in ``directory``.

        Args:
            directory: The cluster's.
            name: Of the daemon; its configuration is in the directory of this name.
            main: The class to run, and its arguments.
        """
        own = directory / name
        return [
            str(self.java),
            mark(directory, name),
            f"-Xmx{self.heap_bytes >> 20}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:+ExitOnOutOfMemoryError",
            f"-XX:ErrorFile={own}/crash.log",
            *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
            "-cp",
            f"{own}/conf:{self.classpath}",
            *main,
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class NameNodePlan:
    """One NameNode before it runs."""

    spec: DaemonSpec
    address: NameNodeAddress
    format_argv: Sequence[str]
    name_directory: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class DataNodePlan:
    """One DataNode before it runs."""

    spec: DaemonSpec
    address: str
    """``IP:port`` that serves blocks."""

    http_address: str
    data_directory: Path


class Layout:
    """Turns a configuration into files and commands below one directory."""

    def __init__(self, directory: Path, config: ClusterConfig, hosts: Hosts) -> None:
        self.directory = directory
        self.config_dir = directory / CLIENT / "conf"
        self.ports = PortReservation()
        self._config = config
        self._hosts = hosts
        self.addresses = [
            self._namenode_address(number, host) for number, host in _numbered(hosts.namenodes)
        ]

    def write_client_files(self) -> None:
        """Write what ``HADOOP_CONF_DIR`` of clients has to hold."""
        _write(self.config_dir, self._core(), site.client_site(self._config, self.addresses))

    def namenodes(self, runtime: Runtime) -> list[NameNodePlan]:
        """Write the NameNodes' files and return how to start them."""
        pairs = zip(self.addresses, self._hosts.namenodes, strict=True)
        return [self._namenode(runtime, address, host) for address, host in pairs]

    def datanodes(self, runtime: Runtime) -> list[DataNodePlan]:
        """Write the DataNodes' files and return how to start them."""
        return [
            self._datanode(runtime, number, host)
            for number, host in _numbered(self._hosts.datanodes)
        ]

    def _namenode_address(self, number: int, host: Host) -> NameNodeAddress:
        rpc, web = self._ports(host, _NAMENODE_PORTS)
        return NameNodeAddress(name=f"namenode-{number}", ip=host.ip, rpc_port=rpc, http_port=web)

    def _namenode(self, runtime: Runtime, address: NameNodeAddress, host: Host) -> NameNodePlan:
        own = self._own_directory(address.name)
        data = (host.directory or own) / "names"
        properties = site.namenode_site(
            self._config,
            self.addresses,
            address,
            name_directory=str(data),
            shared_edits=str(self.directory / "shared-edits"),
        )
        _write(own / "conf", self._core(), properties)
        argv = runtime.argv(self.directory, address.name, [NAMENODE_CLASS])
        return NameNodePlan(
            spec=DaemonSpec(name=address.name, argv=argv, log=own / "log", launch=host.launch),
            address=address,
            format_argv=[*argv, "-format", "-nonInteractive"],
            name_directory=data,
        )

    def _datanode(self, runtime: Runtime, number: int, host: Host) -> DataNodePlan:
        name = f"datanode-{number}"
        own = self._own_directory(name)
        data = (host.directory or own) / "blocks"
        data_port, web_port, rpc_port = self._ports(host, _DATANODE_PORTS)
        properties = site.datanode_site(
            self._config,
            self.addresses,
            ip=host.ip,
            ports=(data_port, web_port, rpc_port),
            data_directory=str(data),
        )
        _write(own / "conf", self._core(), properties)
        argv = runtime.argv(self.directory, name, [DATANODE_CLASS])
        return DataNodePlan(
            spec=DaemonSpec(name=name, argv=argv, log=own / "log", launch=host.launch),
            address=f"{host.ip}:{data_port}",
            http_address=f"{host.ip}:{web_port}",
            data_directory=data,
        )

    def _core(self) -> Properties:
        return site.core_site(self.addresses)

    def _own_directory(self, name: str) -> Path:
        own = self.directory / name
        own.mkdir(parents=True, exist_ok=True)
        return own

    def _ports(self, host: Host, usual: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self.ports.take() for _ in usual) if host.ip == LOOPBACK else usual


def _numbered(hosts: Sequence[Host]) -> Iterable[tuple[int, Host]]:
    return enumerate(hosts, start=1)


def _write(folder: Path, core: Properties, hdfs: Properties) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "core-site.xml").write_text(site.to_xml(core))
    (folder / "hdfs-site.xml").write_text(site.to_xml(hdfs))
    (folder / "log4j.properties").write_text(site.LOG4J)
