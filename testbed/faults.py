"""What goes wrong on purpose: cut cables, slow disks, busy CPUs, hung and dead processes.

Every fault here is a call on a `Host`, and every one that lasts is a context manager as well.
Killing and freezing a whole host are `Host.kill`, `Host.freeze` and `Host.thaw`.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

from headrace.core.errors import ConfigError
from testbed import burner
from testbed.commands import call
from testbed.disk_profiles import DiskLimits
from testbed.host import Host, send
from testbed.network import token_bucket


def cut_link(host: Host) -> None:
    """Pull the host's cable at the switch: what is sent either way is lost in silence."""
    switch, port = host.cable
    call("ip", "-n", switch, "link", "set", port, "down")


def heal_link(host: Host) -> None:
    """Plug the cable in again."""
    switch, port = host.cable
    call("ip", "-n", switch, "link", "set", port, "up")


@contextlib.contextmanager
def link_cut(host: Host) -> Iterator[None]:
    """Keep the host's cable out for the length of a block."""
    cut_link(host)
    try:
        yield
    finally:
        heal_link(host)


def cut_link_for(host: Host, seconds: float) -> threading.Timer:
    """Pull the cable now and plug it in after some seconds, in the background.

    Returns:
        The timer: ``join()`` waits for the healing.
    """
    cut_link(host)
    timer = threading.Timer(seconds, heal_link, (host,))
    timer.daemon = True
    timer.start()
    return timer


@contextlib.contextmanager
def link_slowed(host: Host, rate_mbit_per_s: float) -> Iterator[None]:
    """Let the host send at another rate for the length of a block, as if others used its link.

    Raises:
        ConfigError: Its link has no rate in the scenario.
    """
    usual = host.spec.group.rate_mbit_per_s
    if usual is None:
        raise ConfigError(f"the link of {host.name} has no rate; give it one in the scenario")
    _send_at(host, rate_mbit_per_s)
    try:
        yield
    finally:
        _send_at(host, usual)


@contextlib.contextmanager
def disk_slowed(host: Host, limits: DiskLimits) -> Iterator[None]:
    """Give the host's disk other limits for the length of a block.

    Raises:
        ConfigError: The host has no disk of its own.
    """
    host.limit_disk(limits)
    try:
        yield
    finally:
        assert host.disk is not None
        host.limit_disk(host.disk.limits)


class Burner:
    """Processes that keep a host's CPU busy; they count against its quota.

    Args:
        host: Where.
        percent_of_core: How much of one core they use; 150 are two processes.
    """

    def __init__(self, host: Host, percent_of_core: float) -> None:
        if not 0 < percent_of_core <= 6400:
            raise ConfigError(f"percent_of_core={percent_of_core:g} must lie in (0, 6400]")
        whole, rest = divmod(percent_of_core, 100)
        shares = [100.0] * int(whole) + ([rest] if rest else [])
        self.processes = [_burn(host, share) for share in shares]

    def stop(self) -> None:
        """End them."""
        for process in self.processes:
            process.kill()
            process.wait()

    def __enter__(self) -> Burner:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def burn_cpu(host: Host, percent_of_core: float) -> Burner:
    """Keep a host's CPU busy until the burner is stopped or the bed ends."""
    return Burner(host, percent_of_core)


def freeze(process: subprocess.Popen[bytes]) -> None:
    """Stop one process where it is (SIGSTOP)."""
    send({process.pid}, signal.SIGSTOP)


def thaw(process: subprocess.Popen[bytes]) -> None:
    """Let it go on."""
    send({process.pid}, signal.SIGCONT)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill one process and collect what remains."""
    process.kill()
    process.wait()


def _send_at(host: Host, rate_mbit_per_s: float) -> None:
    shape = token_bucket(rate_mbit_per_s).split()
    call("tc", "-n", host.namespace, "qdisc", "change", "dev", "eth0", "root", *shape)


def _burn(host: Host, percent: float) -> subprocess.Popen[bytes]:
    return host.launch([sys.executable, "-I", "-S", str(burner.__file__), f"{percent:g}"])
