"""The cluster as the measurements see it: quotas, counters, a background load, where to start."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.offload.counters import AGENTS, BACKGROUND, DATANODES, GROUPS, STORAGE, TRAINER, Counters
from bench.offload.ownership import Ownership
from bench.offload.premise import Quotas
from headrace.agent.processes import ProcessTimes
from testbed import Testbed
from testbed.faults import burn_cpu
from testbed.host import Host
from testbed.services import Services

STARTING_CPUS = 2.0
"""What the trainer host may use while a trainer imports its libraries [cores]."""

REPOSITORY = Path(__file__).parents[2]


class Rig:
    """One trainer host and some storage hosts of a bed that is up."""

    def __init__(self, bed: Testbed, services: Services, *, url: str) -> None:
        self.url = url
        """The dataset."""
        self.agents = tuple(services.addresses)
        """Where the agents listen."""
        self.token = services.token
        """Of the agents."""
        (self._trainer,) = bed.by_role("trainer")
        (self._namenode,) = bed.by_role("namenode")
        self._storage = bed.by_role("storage")
        self.quotas = _quotas(self._trainer, self._storage)
        """What the hosts may use."""
        agents = dict.fromkeys((agent.pid for agent in services.agents.values()), AGENTS)
        datanodes = dict.fromkeys((node.pid for node in services.hdfs.datanodes), DATANODES)
        self._cpu = _GroupTimes(agents | datanodes)
        self._bytes_before = self._trainer.network_bytes().received

    @property
    def rate_mbit_per_s(self) -> float:
        """Of a storage host's link, each way [Mbit/s]."""
        rate = self._storage[0].spec.group.rate_mbit_per_s
        return rate or float("inf")

    def set_quotas(self, quotas: Quotas) -> None:
        """Change what the hosts may use."""
        self.quotas = quotas
        self._trainer.group.limit_cpu(quotas.trainer)
        for host in self._storage:
            host.group.limit_cpu(quotas.storage)

    def start_trainer(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a command on the trainer host, without its quota while it imports."""
        self._trainer.group.limit_cpu(STARTING_CPUS)
        return self._start(self._trainer, command)

    def trainer_imported(self) -> None:
        """Put the trainer host's quota back into force."""
        self._trainer.group.limit_cpu(self.quotas.trainer)

    def start_reader(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a command on the NameNode's host, which has no quota."""
        return self._start(self._namenode, command)

    @contextmanager
    def without_quotas(self) -> Iterator[None]:
        """Let the storage hosts use all CPUs while the block runs, which is not measured."""
        for host in self._storage:
            host.group.limit_cpu(float(os.cpu_count() or 1))
        try:
            yield
        finally:
            self.set_quotas(self.quotas)

    @contextmanager
    def background(self, share: float) -> Iterator[None]:
        """Burn a share of each storage host's CPU while the block runs."""
        with ExitStack() as stack:
            for host in self._storage:
                burner = stack.enter_context(burn_cpu(host, 100 * share * self.quotas.storage))
                self._cpu.add(BACKGROUND, (process.pid for process in burner.processes))
            yield

    def counters(self) -> Counters:
        """Read all counters."""
        members = [pid for host in self._storage for pid in host.processes()]
        return Counters(
            at_s=time.monotonic(),
            cpu_s={
                **self._cpu.look(members),
                TRAINER: self._trainer.cpu_seconds(),
                STORAGE: sum(host.cpu_seconds() for host in self._storage),
            },
            trainer_bytes=self._trainer.network_bytes().received - self._bytes_before,
        )

    def drop_caches(self) -> None:
        """Forget what the page cache holds, so that every segment reads from the disks."""
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("1\n")

    def _start(self, host: Host, command: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            host.command(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": _python_path()},
            process_group=0,
        )


class _GroupTimes:
    """Adds up the CPU time of groups of processes on the storage hosts."""

    def __init__(self, roots: Mapping[int, str]) -> None:
        self._roots = dict(roots)
        self._ownership = Ownership(self._roots)
        self._times = {name: ProcessTimes(Path("/proc")) for name in GROUPS}
        self._total_s = dict.fromkeys((AGENTS, DATANODES, BACKGROUND), 0.0)

    def add(self, group: str, pids: Iterator[int]) -> None:
        self._roots |= dict.fromkeys(pids, group)
        self._ownership = Ownership(self._roots)

    def look(self, pids: Sequence[int]) -> dict[str, float]:
        sorted_pids = self._ownership.sort(pids)
        for group in self._total_s:
            self._total_s[group] += self._times[group].spent_s(sorted_pids.get(group, ()))
        return dict(self._total_s)


def _quotas(trainer: Host, storage: Sequence[Host]) -> Quotas:
    return Quotas(
        trainer=trainer.spec.group.cpus or float(os.cpu_count() or 1),
        storage=storage[0].spec.group.cpus or float(os.cpu_count() or 1),
        storage_hosts=len(storage),
    )


def _python_path() -> str:
    """Return where this process's modules are, ``bench`` included."""
    return os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
