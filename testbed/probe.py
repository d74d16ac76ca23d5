"""Tells what this machine lacks for a scenario, by name, before anything is made."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import ConfigError, HeadraceError
from testbed.cgroups import find_trees
from testbed.commands import call
from testbed.scenario import Scenario

TOOLS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
DISK_TOOLS = {"mkfs.ext4": "e2fsprogs", "mount": "mount", "umount": "mount"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Lack:
    """One thing that is missing."""

    what: str
    advice: str


def require(scenario: Scenario) -> None:
    """Return if this machine can run a scenario.

    Raises:
        ConfigError: It lacks something; all of it is named, with what to do.
    """
    found = lacks(scenario)
    if found:
        told = "; ".join(f"{lack.what}: {lack.advice}" for lack in found)
        raise ConfigError(f"scenario {scenario.name!r} cannot run here. {told}")


def require_root() -> None:
    """Return if this process may look into beds and change them.

    Raises:
        ConfigError: It is not root's.
    """
    if os.geteuid() != 0:
        raise ConfigError("beds belong to root: run this with sudo")


def lacks(scenario: Scenario) -> list[Lack]:
    """Return what this machine lacks for a scenario; what the scenario does not use may lack."""
    if not sys.platform.startswith("linux"):
        return [Lack(what="this is not Linux", advice="run the testbed in a virtual machine")]
    if os.geteuid() != 0:
        return [Lack(what="you are not root", advice="namespaces and mounts need it; use sudo")]
    return list(_lacks(scenario))


def _lacks(scenario: Scenario) -> Iterator[Lack]:
    groups = scenario.hosts
    needs_disks = any(group.disk for group in groups)
    tools = TOOLS | (DISK_TOOLS if needs_disks else {})
    missing = [tool for tool in tools if shutil.which(tool) is None]
    for tool in missing:
        yield Lack(what=f"no {tool!r}", advice=f"install {tools[tool]}")
    yield from _refused("control groups with a CPU controller", find_trees)
    if not missing:
        rated = any(group.rate_mbit_per_s for group in groups)
        yield from _refused("network namespaces, bridges or veth links", _try_links)
        if rated:
            yield from _refused("token bucket queues (sch_tbf)", _try_rates)
    if needs_disks:
        yield from _disk_lacks()
    if scenario.wan and not _opens("/dev/net/tun"):
        yield Lack(
            what="no TUN devices (/dev/net/tun)",
            advice="load the module `tun`, or run a scenario of one site",
        )


def _disk_lacks() -> Iterator[Lack]:
    if not _opens("/dev/loop-control"):
        yield Lack(
            what="no loop devices (/dev/loop-control)",
            advice="load the module `loop`, or leave `disk` out of the scenario",
        )
    try:
        trees = find_trees()
    except ConfigError:  # said already
        return
    if trees.io is None:
        yield Lack(
            what="no throttling of disks (CONFIG_BLK_DEV_THROTTLING, controller blkio or io)",
            advice="leave `disk` out of the scenario, or enable the controller",
        )


def _opens(device: str) -> bool:
    """Return whether a device is there and the kernel answers behind it."""
    try:
        Path(device).open("r+b", buffering=0).close()
    except OSError:
        return False
    return True


def _refused(what: str, attempt: Callable[[], object]) -> Iterator[Lack]:
    """Try something small; if the kernel refuses, say so with its own words."""
    try:
        attempt()
    except HeadraceError as error:
        yield Lack(what=f"no {what}", advice=str(error))


def _try_links() -> None:
    """Make a bridge and a veth in a namespace without a name, which ends with the command."""
    _in_fresh_namespace("ip link add br0 type bridge; ip link add name v0 type veth peer name v1")


def _try_rates() -> None:
    _in_fresh_namespace("tc qdisc add dev lo root tbf rate 1mbit burst 66000 limit 132000")


@functools.cache  # the kernel stays the same while this process lives
def _in_fresh_namespace(script: str) -> None:
    call("unshare", "--net", "sh", "-ec", script)
