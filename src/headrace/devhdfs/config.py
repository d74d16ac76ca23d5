"""Hadoop's XML configuration, as devhdfs writes it. Pure: settings in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from headrace.core.errors import ConfigError

NAMESERVICE = "devhdfs"
"""What a cluster with two NameNodes is called in its clients' configuration."""

MIN_BLOCK_BYTES = 512
"""HDFS keeps a checksum per 512 bytes, so blocks are multiples of it."""

Properties = Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterConfig:
    """What a cluster looks like to those who use it."""

    datanodes: int = 3
    """DataNodes, each a process of its own."""

    namenodes: int = 1
    """1, or 2 for an active and a standby NameNode that share their edits."""

    block_size: int = 8 << 20
    """Block size of files unless the writer says otherwise [bytes]."""

    replication: int = 3
    """Copies of each block unless the writer says otherwise; at most ``datanodes`` are kept."""

    bandwidth: int | None = None
    """Bytes per second that each DataNode serves to readers at most; None: as fast as it can."""

    heap_bytes: int = 256 << 20
    """Java heap of each daemon [bytes]."""

    def __post_init__(self) -> None:
        _require(self.datanodes >= 1, f"datanodes={self.datanodes} must be at least 1")
        _require(self.namenodes in (1, 2), f"namenodes={self.namenodes} must be 1 or 2")
        _require(
            self.block_size > 0 and self.block_size % MIN_BLOCK_BYTES == 0,
            f"block_size={self.block_size} must be a multiple of {MIN_BLOCK_BYTES}, such as 8M",
        )
        _require(self.replication >= 1, f"replication={self.replication} must be at least 1")
        _require(
            self.bandwidth is None or self.bandwidth >= 1 << 20,
            f"bandwidth={self.bandwidth} B/s is too little for one packet; give at least 1M",
        )


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ConfigError(what)


@dataclass(frozen=True, kw_only=True, slots=True)
class NameNodeAddress:
    """Where one NameNode answers."""

    name: str
    """``namenode-1``; also its id in the nameservice."""

    ip: str
    rpc_port: int
    http_port: int

    @property
    def rpc(self) -> str:
        """``IP:port`` for clients and DataNodes."""
        return f"{self.ip}:{self.rpc_port}"

    @property
    def http(self) -> str:
        """``IP:port`` of WebHDFS, JMX and the web pages."""
        return f"{self.ip}:{self.http_port}"


def client_url(namenodes: Sequence[NameNodeAddress]) -> str:
    """Return the URL of the root: the NameNode's, or the nameservice's when there are two."""
    return f"hdfs://{NAMESERVICE}" if len(namenodes) > 1 else f"hdfs://{namenodes[0].rpc}"


def core_site(namenodes: Sequence[NameNodeAddress]) -> Properties:
    """Return ``core-site.xml`` of clients and daemons alike."""
    return {"fs.defaultFS": client_url(namenodes)}


def client_site(config: ClusterConfig, namenodes: Sequence[NameNodeAddress]) -> Properties:
    """Return ``hdfs-site.xml`` for clients."""
    common = {"dfs.blocksize": str(config.block_size), "dfs.replication": str(config.replication)}
    if len(namenodes) == 1:
        only = namenodes[0]
        return {
            **common,
            "dfs.namenode.rpc-address": only.rpc,
            "dfs.namenode.http-address": only.http,
        }
    return {**common, **_nameservice(namenodes)}


def _nameservice(namenodes: Sequence[NameNodeAddress]) -> Properties:
    properties = {
        "dfs.nameservices": NAMESERVICE,
        f"dfs.ha.namenodes.{NAMESERVICE}": ",".join(one.name for one in namenodes),
        f"dfs.client.failover.proxy.provider.{NAMESERVICE}": (
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        ),
        "dfs.ha.automatic-failover.enabled": "false",
        "dfs.ha.fencing.methods": "shell(/bin/true)",
    }
    for one in namenodes:
        properties[f"dfs.namenode.rpc-address.{NAMESERVICE}.{one.name}"] = one.rpc
        properties[f"dfs.namenode.http-address.{NAMESERVICE}.{one.name}"] = one.http
    return properties


_NAMENODE = {
    "dfs.permissions.enabled": "false",
    "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    "dfs.namenode.fs-limits.min-block-size": str(MIN_BLOCK_BYTES),
    "dfs.namenode.accesstime.precision": "0",
    "dfs.namenode.edits.noeditlogchannelflush": "true",  # a host that crashes takes all along
    "dfs.namenode.safemode.extension": "0",
    "dfs.namenode.heartbeat.recheck-interval": "500",  # dead after 10 heartbeats and 2 of these
    "dfs.namenode.stale.datanode.interval": "3000",
    "dfs.namenode.avoid.read.stale.datanode": "true",
    "dfs.namenode.avoid.write.stale.datanode": "true",
    "dfs.namenode.redundancy.interval.seconds": "1s",
    "dfs.namenode.redundancy.considerLoad": "false",
}
"""A small cluster that notices within 11 s that a DataNode has died (HDFS: 10.5 min)."""


def namenode_site(
    config: ClusterConfig,
    namenodes: Sequence[NameNodeAddress],
    own: NameNodeAddress,
    *,
    name_directory: str,
    shared_edits: str,
) -> Properties:
    """Return ``hdfs-site.xml`` of one NameNode."""
    properties = {
        **client_site(config, namenodes),
        **_NAMENODE,
        "dfs.heartbeat.interval": "1",
        "dfs.namenode.name.dir": f"file://{name_directory}",
    }
    if len(namenodes) > 1:
        properties |= {
            "dfs.ha.namenode.id": own.name,
            "dfs.namenode.shared.edits.dir": f"file://{shared_edits}",
            "dfs.ha.tail-edits.period": "1s",
        }
    return properties


def datanode_site(
    config: ClusterConfig,
    namenodes: Sequence[NameNodeAddress],
    *,
    ip: str,
    ports: tuple[int, int, int],
    data_directory: str,
) -> Properties:
    """Return ``hdfs-site.xml`` of one DataNode; ``ports`` are for data, HTTP and RPC."""
    properties = {
        **client_site(config, namenodes),
        "dfs.heartbeat.interval": "1",
        "dfs.datanode.hostname": ip,  # so that redirects and block locations name what is reached
        "dfs.datanode.data.dir": f"file://{data_directory}",
        "dfs.datanode.address": f"{ip}:{ports[0]}",
        "dfs.datanode.http.address": f"{ip}:{ports[1]}",
        "dfs.datanode.ipc.address": f"{ip}:{ports[2]}",
        "ipc.client.connect.retry.interval": "200",  # it is up before its NameNode [ms]
        "ipc.client.connect.max.retries": "300",
        "dfs.datanode.scan.period.hours": "-1",
        "dfs.datanode.round-robin-volume-choosing-policy.additional-available-space": "0",
    }
    if config.bandwidth is not None:
        properties["dfs.datanode.data.read.bandwidthPerSec"] = str(config.bandwidth)
    return properties


def to_xml(properties: Properties) -> str:
    """Return a Hadoop configuration file."""
    lines = [
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in properties.items()
    ]
    return "\n".join(['<?xml version="1.0"?>', "<configuration>", *lines, "</configuration>", ""])


LOG4J = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""
