"""Asks a cluster how busy it is and how fast it makes copies: its daemons' JMX, and ``/conf``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from headrace.core.errors import StorageError
from headrace.storage.calls import calls_for
from headrace.storage.hdfs.address import HdfsAddress
from headrace.storage.hdfs.webports import WEB_ERRORS, WebPorts
from headrace.storage.port import NodeState, StoreState

NODES_PATIENCE_S = 2.0
"""Longest wait for all DataNodes; one that does not tell counts as busy as the mean [s]."""

WORK_PER_NODE = "dfs.namenode.replication.work.multiplier.per.iteration"
INTERVAL = "dfs.namenode.redundancy.interval.seconds"
STREAMS = "dfs.namenode.replication.max-streams"

HADOOP_DEFAULTS = {WORK_PER_NODE: "2", INTERVAL: "3", STREAMS: "2"}

_BEANS = "/jmx?qry=Hadoop:service=NameNode,name=*Name*"
_DATANODE = "/jmx?qry=Hadoop:service=DataNode,name=DataNodeInfo"

_DURATION = re.compile(r"(\d+)\s*(ms|s|m|h|d)?")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_NOT_HADOOP = (KeyError, TypeError, ValueError, IndexError, AttributeError, ElementTree.ParseError)


class Observing:
    """Observes one cluster. Thread-safe."""

    def __init__(self, address: HdfsAddress, ports: WebPorts) -> None:
        self._addresses = address.web
        self._scheme = address.web[0].partition(":")[0]
        self._port_key = "infoSecureAddr" if self._scheme == "https" else "infoAddr"
        self._ports = ports
        self._settings: Mapping[str, str] | None = None

    def state(self) -> StoreState:
        """Return how busy the cluster is.

        Raises:
            StorageError: no NameNode that is active tells.
        """
        complaints = []
        for address in self._addresses:
            try:
                beans = self._beans(address, _BEANS)
                if beans["NameNodeStatus"]["State"] == "active":
                    return self._state(address, beans)
                complaints.append(f"{address} is on standby")
            except WEB_ERRORS as error:
                complaints.append(f"{address} {error or type(error).__name__}")
            except _NOT_HADOOP as error:
                complaints.append(f"{address} does not answer as a NameNode of Hadoop 3 ({error})")
        raise StorageError(
            f"cannot observe the cluster: {'; '.join(complaints)}; is its address in "
            "hdfs-site.xml (dfs.namenode.http-address) right, and may this host ask it?"
        )

    def _state(self, address: str, beans: Mapping[str, Any]) -> StoreState:
        system = beans["FSNamesystemState"]
        nodes = list(_in_service(json.loads(beans["NameNodeInfo"]["LiveNodes"]), self._port_key))
        mean = round(int(system["TotalLoad"]) / max(1, int(system["NumLiveDataNodes"])))
        settings = self._settings or self._ask_settings(address)
        interval_s = max(1e-3, _seconds(settings[INTERVAL]))
        return StoreState(
            nodes=self._with_transfers(nodes, mean),
            missing_copies=system["UnderReplicatedBlocks"] + system["PendingReplicationBlocks"],
            blocks_per_s=int(settings[WORK_PER_NODE]) * len(nodes) / interval_s,
            streams_per_node=int(settings[STREAMS]),
        )

    def _with_transfers(
        self, nodes: Sequence[tuple[NodeState, str]], mean: int
    ) -> tuple[NodeState, ...]:
        """Ask each DataNode itself: the NameNode tells no more than their sum."""
        calls = calls_for("observing")
        asked = [calls.start(partial(self._transfers, web)) for _, web in nodes]
        late = wait(asked, NODES_PATIENCE_S).not_done
        for future in late:
            calls.abandon(future)
        told = (None if future in late else future.result() for future in asked)
        return tuple(
            replace(node, transfers=mean if transfers is None else transfers)
            for (node, _), transfers in zip(nodes, told, strict=True)
        )

    def _transfers(self, web: str) -> int | None:
        try:
            beans = self._beans(f"{self._scheme}://{web}", _DATANODE)
            return int(beans["DataNodeInfo"]["XceiverCount"])
        except (*WEB_ERRORS, *_NOT_HADOOP):
            return None

    def _beans(self, address: str, query: str) -> dict[str, Any]:
        answer = self._ports.get(address, query)
        beans = json.loads(answer.body)["beans"]
        return {bean["name"].rpartition("name=")[2]: bean for bean in beans}

    def _ask_settings(self, address: str) -> Mapping[str, str]:
        """Return the cluster's settings, which a NameNode keeps until it is started again."""
        told = {name: self._setting(address, name) for name in HADOOP_DEFAULTS}
        self._settings = {name: told[name] or HADOOP_DEFAULTS[name] for name in HADOOP_DEFAULTS}
        return self._settings

    def _setting(self, address: str, name: str) -> str | None:
        answer = self._ports.get(address, f"/conf?name={quote(name)}")
        if answer.status != HTTPStatus.OK:  # closed to this user, or not set
            return None
        return ElementTree.fromstring(answer.body).findtext("property/value")


def _in_service(
    live: Mapping[str, Mapping[str, Any]], port_key: str
) -> Iterator[tuple[NodeState, str]]:
    """Yield the nodes that are neither out of service nor about to be, and their HTTP ports."""
    for key, node in sorted(live.items()):
        if node["adminState"] == "In Service":
            state = NodeState(
                name=key.rpartition(":")[0] or key,
                address=node["xferaddr"],
                transfers=0,
                capacity_bytes=node["capacity"],
                free_bytes=node["remaining"],
            )
            yield state, node[port_key]


def _seconds(text: str) -> float:
    """Return a duration as Hadoop writes it: seconds, or with a unit."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no duration")
    return int(found[1]) * _SECONDS[found[2] or "s"]
