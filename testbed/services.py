"""HDFS and agents on the hosts of a bed: what an estate with headrace consists of."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import msgspec

from headrace.core.errors import ConfigError
from headrace.devhdfs import layout
from headrace.devhdfs.cluster import Cluster
from headrace.wire.auth import TOKEN_VARIABLE, new_token
from testbed.agent_process import AgentProcess
from testbed.bed import Testbed
from testbed.host import Host
from testbed.service_specs import AgentSpec, ServiceSpecs

_RECORD = "services.json"
_TOKEN = "token"


class ServicesRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What clients of the services need to know."""

    url: str
    """Root of HDFS."""

    config_dir: str
    token_file: str
    agents: dict[str, str]
    """Host → where its agent answers."""

    def environment(self) -> dict[str, str]:
        """Return the variables that clients on the bed are given."""
        return {
            "HADOOP_CONF_DIR": self.config_dir,
            TOKEN_VARIABLE: Path(self.token_file).read_text().strip(),
        }

    @staticmethod
    def of_bed(bed: Testbed) -> ServicesRecord | None:
        """Return what was started on a bed; None if nothing was."""
        try:
            return msgspec.json.decode((bed.directory / _RECORD).read_bytes(), type=ServicesRecord)
        except FileNotFoundError:
            return None


class Services:
    """HDFS over a bed, and the agents its scenario asks for, as a context manager.

    A NameNode runs on each host of that role, a DataNode on each storage host, with its blocks
    on the host's disk. Everything ends with the bed at the latest. Not thread-safe.

    Args:
        bed: One that is up.
        serve: Folders of HDFS that the agents serve; the root, so all of it, by default.
        site: Whose hosts it runs on, as each site can have a cluster of its own; None: all hosts.
    """

    def __init__(
        self, bed: Testbed, *, serve: Sequence[str] = ("/",), site: str | None = None
    ) -> None:
        self.bed = bed
        self.site = site
        self.specs = ServiceSpecs.of(bed.scenario.services)
        self.token = new_token()
        """Of the agents."""
        self.hdfs = _cluster(bed, self.specs, site)
        self.agents = {
            host.name: self._agent(host, self.specs.agents, serve)
            for host in bed.by_role("storage", site)
            if self.specs.agents is not None
        }
        """The agents by host, such as ``storage-1``."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What clients need in their environment."""
        return {"HADOOP_CONF_DIR": str(self.hdfs.config_dir), TOKEN_VARIABLE: self.token}

    @property
    def addresses(self) -> list[str]:
        """Where the agents answer."""
        return [agent.address for agent in self.agents.values()]

    def start(self) -> None:
        """Start HDFS, then the agents, and wait until all answer; CPU quotas rest meanwhile.

        Raises:
            RemoteError: a process ended by itself, or takes too long.
        """
        with _unhurried(list(self.bed.hosts.values())):
            self.hdfs.start()
            self.hdfs.wait_ready()
            for agent in self.agents.values():
                agent.start()
            for agent in self.agents.values():
                agent.wait_ready()
        if self.site is None:  # what is found again later is all that runs on a bed
            self._record()

    def leave(self) -> None:
        """Let everything run on when this process ends, as long as the bed does."""
        self.hdfs.leave()

    def close(self) -> None:
        """Kill everything; what was stored goes with the bed."""
        for agent in self.agents.values():
            if agent.is_running:
                agent.kill()
        self.hdfs.kill()

    def __enter__(self) -> Services:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _agent(self, host: Host, spec: AgentSpec, serve: Sequence[str]) -> AgentProcess:
        options = ["--memory", f"{spec.memory_mib}MiB", *spec.options]
        if spec.workers is not None:
            options += ["--workers", str(spec.workers)]
        return AgentProcess(
            host,
            storage=[f"{self.hdfs.url}{folder}".rstrip("/") for folder in serve],
            options=options,
            environment=self.environment,
        )

    def _record(self) -> None:
        token_file = self.bed.directory / _TOKEN
        token_file.touch(mode=0o600)
        token_file.write_text(self.token)
        record = ServicesRecord(
            url=self.hdfs.url,
            config_dir=str(self.hdfs.config_dir),
            token_file=str(token_file),
            agents={name: agent.address for name, agent in self.agents.items()},
        )
        (self.bed.directory / _RECORD).write_bytes(msgspec.json.encode(record))


def _cluster(bed: Testbed, specs: ServiceSpecs, site: str | None) -> Cluster:
    namenodes, storage = bed.by_role("namenode", site), bed.by_role("storage", site)
    if not namenodes or not storage:
        raise ConfigError(
            f"HDFS needs hosts of the roles namenode and storage; {bed.scenario.name} has "
            f"{len(namenodes)} and {len(storage)}"
        )
    return Cluster(
        datanodes=len(storage),
        namenodes=len(namenodes),
        block_size=round(specs.hdfs.block_mib * (1 << 20)),
        replication=specs.hdfs.replication,
        directory=bed.directory / "-".join(filter(None, ("hdfs", site))),
        hosts=layout.Hosts(
            namenodes=[_place(host) for host in namenodes],
            datanodes=[_place(host) for host in storage],
        ),
    )


def _place(host: Host) -> layout.Host:
    return layout.Host(ip=host.ip, launch=host.launch, directory=host.directory)


@contextmanager
def _unhurried(hosts: Sequence[Host]) -> Iterator[None]:
    """Lift the hosts' CPU quotas: starting costs seconds of CPU that no measurement is about."""
    limited = [(host, host.spec.group.cpus) for host in hosts if host.spec.group.cpus is not None]
    try:
        for host, _ in limited:
            host.group.limit_cpu(float(os.cpu_count() or 1))
        yield
    finally:
        for host, cpus in limited:
            host.group.limit_cpu(cpus)
