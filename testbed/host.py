"""One emulated host: starts processes in its namespace and control group, and measures it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from headrace.core.errors import ConfigError, DeadlineError
from testbed.cgroups import Group
from testbed.commands import call
from testbed.disk_profiles import DiskLimits
from testbed.disks import Disk
from testbed.errors import TestbedError
from testbed.network import NAMESPACES, token_bucket
from testbed.patience import until
from testbed.scenario import HostSpec

RUNNING_S = 60.0
"""How long `Host.run` waits unless told otherwise [s]."""

_REAPING_S = 5.0

_ENTERING_S = 20.0

_STILL_S = 5.0
"""Within this time all processes of a host stand still [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkBytes:
    """What went over a host's link since it was made, headers included [bytes]."""

    received: int
    sent: int


class Host:
    """One host of a bed; gone when the bed ends. Its calls may come from several threads.

    Args:
        spec: Its name and limits.
        ip: Its address.
        namespace: Its network namespace, by the name ``ip netns`` knows.
        group: Its control group.
        directory: Where its processes should keep their files.
        disk: The disk that ``directory`` is on; None: the machine's.
        cable: Its port on its site's switch: namespace and name.
    """

    def __init__(
        self,
        *,
        spec: HostSpec,
        ip: str,
        namespace: str,
        group: Group,
        directory: Path,
        disk: Disk | None,
        cable: tuple[str, str],
    ) -> None:
        self.spec = spec
        self.ip = ip
        self.namespace = namespace
        self.group = group
        self.directory = directory
        self.disk = disk
        self.cable = cable
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def name(self) -> str:
        """Its name in the scenario, such as ``storage-1``."""
        return self.spec.name

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return what starts ``argv`` on this host, for a caller who wants pipes of its own.

        The process that is started becomes ``argv`` itself, so its number stays.
        """
        into = [_tool("nsenter"), f"--net={NAMESPACES}/{self.namespace}", "--"]
        return self.group.command([*into, *argv])

    def launch(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, log: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a process on this host, in a session of its own. It ends with the bed.

        Args:
            argv: The command.
            env: Its whole environment; None: the caller's.
            log: What it prints is appended here; None: to ``NAME.log`` in the host's directory.
        """
        file = log or self.directory / f"{Path(argv[0]).name}.log"
        with file.open("ab") as sink:
            process = subprocess.Popen(
                self.command(argv),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=dict(env) if env is not None else None,
                cwd=self.directory,
                start_new_session=True,
            )
        self._started.append(process)
        self._wait_until_inside(process)
        return process

    def run(self, argv: Sequence[str], *, longest_s: float = RUNNING_S) -> str:
        """Return what a command prints that runs to its end on this host.

        Raises:
            DeadlineError: It did not end in time; it was killed.
            TestbedError: It failed.
        """
        try:
            done = subprocess.run(
                self.command(argv),
                capture_output=True,
                text=True,
                timeout=longest_s,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired as error:
            raise DeadlineError(
                f"{argv[0]!r} on {self.name} did not end within {longest_s:g} s and was killed; "
                "allow it more with longest_s"
            ) from error
        if done.returncode:
            raise TestbedError(
                f"{argv[0]!r} on {self.name} ended with {done.returncode} and said: "
                f"{done.stderr.strip() or done.stdout.strip() or 'nothing'}"
            )
        return done.stdout

    def limit_disk(self, limits: DiskLimits) -> None:
        """Give its disk other limits.

        Raises:
            ConfigError: It has no disk of its own.
        """
        if self.disk is None:
            raise ConfigError(f"{self.name} has no disk of its own; give it one in the scenario")
        self.group.limit_disk(self.disk.device, limits)

    def limit_link(self, rate_mbit_per_s: float) -> None:
        """Give its link another rate, each way; it must have one in the scenario.

        Raises:
            ConfigError: It has none.
        """
        if self.spec.group.rate_mbit_per_s is None:
            raise ConfigError(f"the link of {self.name} has no rate; give it one in the scenario")
        shape = token_bucket(rate_mbit_per_s).split()
        switch, port = self.cable
        for namespace, device in ((self.namespace, "eth0"), (switch, port)):
            call("tc", "-n", namespace, "qdisc", "change", "dev", device, "root", *shape)

    def cpu_seconds(self) -> float:
        """Return the CPU time all its processes have used [s]."""
        return self.group.cpu_seconds()

    def network_bytes(self) -> NetworkBytes:
        """Return what went over its link."""
        (link,) = json.loads(call("ip", "-n", self.namespace, "-j", "-s", "link", "show", "eth0"))
        counts = link["stats64"]
        return NetworkBytes(received=counts["rx"]["bytes"], sent=counts["tx"]["bytes"])

    def processes(self) -> set[int]:
        """Return its processes."""
        return self.group.members()

    def freeze(self) -> None:
        """Stop all its processes where they are, as if the machine hung; the network stays.

        Raises:
            DeadlineError: It starts processes faster than they are stopped.
        """
        until(
            self._stands_still,
            longest_s=_STILL_S,
            what=f"{self.name} does not stand still: it starts processes, or a disk holds one",
        )

    def thaw(self) -> None:
        """Let all its processes go on."""
        send(self.processes(), signal.SIGCONT)

    def kill(self) -> None:
        """Kill all its processes, as if the power failed.

        Raises:
            DeadlineError: Some did not end.
        """
        self.group.end()
        self.reap()

    def _stands_still(self) -> bool:
        """Stop what runs; return whether nothing did."""
        running = {pid for pid in self.processes() if not _is_stopped(pid)}
        send(running, signal.SIGSTOP)
        return not running

    def _wait_until_inside(self, process: subprocess.Popen[bytes]) -> None:
        """Return when a process counts among this host's, or has ended."""
        until(
            lambda: process.pid in self.processes() or process.poll() is not None,
            longest_s=_ENTERING_S,
            what=f"{process.args!r} did not enter {self.name}; is the machine overloaded?",
        )

    def reap(self) -> None:
        """Collect what remains of launched processes that have ended, after `kill`."""
        for process in self._started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_REAPING_S)
        self._started = [process for process in self._started if process.poll() is None]


def send(pids: set[int], what: signal.Signals) -> None:
    """Send a signal to processes; those that have ended are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)


_STOPPED = (
    psutil.STATUS_STOPPED,
    psutil.STATUS_TRACING_STOP,
    psutil.STATUS_ZOMBIE,
    psutil.STATUS_DEAD,
)


def _is_stopped(pid: int) -> bool:
    """Return whether a process is stopped or has ended."""
    try:
        return psutil.Process(pid).status() in _STOPPED
    except psutil.NoSuchProcess:
        return True


def _tool(name: str) -> str:
    """Return a tool's path: the launched process's own environment may lack one."""
    found = shutil.which(name)
    if found is None:
        raise ConfigError(f"there is no {name!r} on this machine; install util-linux")
    return found
