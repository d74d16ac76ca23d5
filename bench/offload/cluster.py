"""Brings the emulated cluster up: a bed, HDFS on its hosts, the dataset in it, agents beside."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from testbed.host import Host
from testbed.scenario import Scenario

from bench.offload.data import Stored, store
from bench.offload.rig import Rig, Services
from headrace.core.errors import AgentUnavailableError
from headrace.demo.dataset import DemoDataset
from headrace.demo.view import View
from headrace.devhdfs.cluster import Cluster
from headrace.devhdfs.layout import Host as DaemonHost
from headrace.devhdfs.layout import Hosts
from headrace.wire.auth import TOKEN_VARIABLE, new_token
from testbed import Testbed

SCENARIO = Path(__file__).parents[1] / "offload.toml"
BLOCK_BYTES = 8 << 20
COPIES = 2
"""Of every block: fewer than storage hosts, so that it matters where a sample lies."""

FOLDER = "multimodal"
AGENT_PORT = 7411
READY_TIMEOUT_S = 60.0
_POLL_S = 0.05


@contextmanager
def cluster(dataset: DemoDataset, view: View) -> Iterator[tuple[Rig, Stored]]:
    """Make the cluster with the dataset in its HDFS; nothing of it is left afterwards.

    Raises:
        ConfigError: this machine lacks root, Java, or something in the kernel; says what.
    """
    scenario = Scenario.load(SCENARIO)
    view.note(f"cluster: {', '.join(spec.name for spec in scenario.specs())}")
    with (
        Testbed(scenario) as bed,
        _hdfs(bed, view) as hdfs,
        _environment(HADOOP_CONF_DIR=str(hdfs.config_dir)),
    ):
        with _without_quotas(bed):
            stored = store(dataset, hdfs.url, FOLDER, view)
        yield Rig(bed, _services(bed, hdfs, stored.url)), stored


def _hdfs(bed: Testbed, view: View) -> Cluster:
    namenodes, datanodes = bed.by_role("namenode"), bed.by_role("storage")
    return Cluster(
        datanodes=len(datanodes),
        block_size=BLOCK_BYTES,
        replication=COPIES,
        hosts=Hosts(
            namenodes=[_daemon_host(host) for host in namenodes],
            datanodes=[_daemon_host(host) for host in datanodes],
        ),
        say=view.note,
    )


def _daemon_host(host: Host) -> DaemonHost:
    return DaemonHost(ip=host.ip, launch=host.launch, directory=host.directory / "hdfs")


@contextmanager
def _without_quotas(bed: Testbed) -> Iterator[None]:
    """Let the storage hosts use all CPUs while the dataset is stored, which is not measured."""
    hosts = bed.by_role("storage")
    for host in hosts:
        host.group.limit_cpu(float(os.cpu_count() or 1))
    try:
        yield
    finally:
        for host in hosts:
            host.group.limit_cpu(host.spec.group.cpus or float(os.cpu_count() or 1))


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set variables for this process and those it starts while the block runs."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def _services(bed: Testbed, hdfs: Cluster, url: str) -> Services:
    hosts, token = bed.by_role("storage"), new_token()
    agents = [_start_agent(host, url, token) for host in hosts]
    _wait_ready(hosts, agents)
    return Services(
        url=url,
        agents=tuple(f"http://{host.ip}:{AGENT_PORT}" for host in hosts),
        token=token,
        processes={
            "agents": [agent.pid for agent in agents],
            "datanodes": [node.pid for node in hdfs.datanodes],
        },
    )


def _start_agent(host: Host, url: str, token: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "headrace", "agent", "--storage", url]
    command += ["--listen", f"{host.ip}:{AGENT_PORT}", "--name", host.name, "--host", host.ip]
    command += ["--cpu-scope", "group", "--ready-file", str(_ready_file(host))]
    environment = {**os.environ, TOKEN_VARIABLE: token}
    return host.launch(command, environment, _log(host))


def _ready_file(host: Host) -> Path:
    return host.directory / "agent.ready"


def _log(host: Host) -> Path:
    return host.directory / "agent.log"


def _wait_ready(hosts: Sequence[Host], agents: Sequence[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    for host, agent in zip(hosts, agents, strict=True):
        while not _ready_file(host).exists():
            if time.monotonic() > deadline or agent.poll() is not None:
                raise AgentUnavailableError(
                    f"the agent on {host.name} did not start; it said: {_log(host).read_text()}"
                )
            time.sleep(_POLL_S)
