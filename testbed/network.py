"""Hosts as network namespaces, each on its site's switch through a link with a rate.

A site is a namespace with a bridge; a host is a namespace with one veth into it. Token buckets
on both ends of the veth limit what the host sends and what it receives. The owner has a link of
its own into each site, without a rate. What is to be done is computed first, as lines for
``ip -batch`` and ``tc -batch``, and then done.

Measured on two virtual cores (Linux 6.18, MTU 1500, segmentation offload left on): a link of
400 Mbit/s carries 48 MB/s, one of 1 Gbit/s 119 MB/s, one of 4 Gbit/s 470 MB/s, and 10 Gbit/s are
more than the machine has (760 MB/s; without a rate 990 MB/s). It costs 1.0 to 1.4 CPU seconds
per GB for both ends and all between, sender and receiver in Python included.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from testbed.cgroups import Group
from testbed.commands import call
from testbed.names import OWNER, ROUTER, BedNames
from testbed.scenario import HostSpec, Scenario

BIGGEST_SEGMENT = 72_000
"""A token bucket must hold one segment as the kernel hands it over, or it is cut up [bytes]."""

BURST_S = 0.001
"""How late the kernel may look at a token bucket without rate being lost [s]."""

QUEUE_S = 0.02
"""How long a packet may wait for a link; what comes then is dropped, as in a switch [s]."""

SHORTEST_QUEUE = 8 * BIGGEST_SEGMENT
"""Room for several hosts that send at once, also on a slow link [bytes]."""

_QUIET = (
    "net/ipv6/conf/default/disable_ipv6=1",
    "net/ipv4/tcp_no_metrics_save=1",  # no run learns from the one before
)
_ROUTING = ("net/ipv4/ip_forward=1",)


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Lines for one tool in one namespace."""

    tool: Literal["ip", "tc", "sysctl"]
    namespace: str | None
    """None: the owner's."""

    lines: tuple[str, ...]


def plan(names: BedNames, scenario: Scenario) -> Iterator[Batch]:
    """Yield what makes the bed's network, in order."""
    yield from _namespaces(names, scenario)
    for index, site in enumerate(scenario.sites):
        hosts = [host for host in scenario.specs() if host.group.site == site]
        yield from _switch(names, scenario, index, hosts)
        for host in hosts:
            yield from _host(names, scenario, index, host)


def carry_out(batches: Iterable[Batch], *, inside: Group) -> None:
    """Do what was planned, in a control group of the bed.

    Raises:
        TestbedError: The kernel refused a line.
    """
    for batch in batches:
        if batch.tool == "sysctl":
            _set_kernel(batch, inside)
        else:
            where = ("-n", batch.namespace) if batch.namespace else ()
            lines = "\n".join(batch.lines) + "\n"
            call(batch.tool, *where, "-batch", "-", stdin=lines, inside=inside)


def token_bucket(rate_mbit_per_s: float) -> str:
    """Return the parameters of a ``tbf`` that suits a rate."""
    bytes_per_s = rate_mbit_per_s * 1e6 / 8
    burst = max(BIGGEST_SEGMENT, round(bytes_per_s * BURST_S))
    queue = burst + max(SHORTEST_QUEUE, round(bytes_per_s * QUEUE_S))
    return f"tbf rate {rate_mbit_per_s * 1e6:.0f}bit burst {burst} limit {queue}"


def networks_in_use() -> list[ipaddress.IPv4Network]:
    """Return the networks that this machine has routes or addresses for, but the default one."""
    routes = json.loads(call("ip", "-j", "-4", "route", "show", "table", "all") or "[]")
    found = [route["dst"] for route in routes if route.get("dst", "default") != "default"]
    return [ipaddress.IPv4Network(text, strict=False) for text in found]


def _namespaces(names: BedNames, scenario: Scenario) -> Iterator[Batch]:
    """Yield the namespaces, and what is set before they get links."""
    hosts = [names.namespace(host.name) for host in scenario.specs()]
    switches = [names.switch(site) for site in scenario.sites]
    yield Batch(
        tool="ip",
        namespace=None,
        lines=tuple(f"netns add {namespace}" for namespace in (*switches, *hosts)),
    )
    for namespace in hosts:
        yield Batch(tool="sysctl", namespace=namespace, lines=_QUIET)
    for namespace in switches:
        yield Batch(tool="sysctl", namespace=namespace, lines=_QUIET + _ROUTING)


def _switch(
    names: BedNames, scenario: Scenario, index: int, hosts: list[HostSpec]
) -> Iterator[Batch]:
    """Yield a site's switch: its ports, the owner's link and the rates towards the hosts."""
    switch = names.switch(scenario.sites[index])
    ports = [(host.name, "eth0", names.namespace(host.name)) for host in hosts]
    lines = ["link add name lan type bridge", "link set lan up"]
    for port, peer, namespace in ports:
        lines += [f"link add name {port} type veth peer name {peer} netns {namespace}"]
        lines += [f"link set {port} master lan up"]
    lines += [f"addr add {names.address(index, ROUTER)}/24 dev lan"]
    yield Batch(tool="ip", namespace=switch, lines=tuple(lines))
    link = names.owner_link(index)
    owner = (
        f"link add name {link} type veth peer name owner netns {switch}",
        f"addr add {names.address(index, OWNER)}/24 dev {link}",
        f"link set {link} up",
    )
    yield Batch(tool="ip", namespace=None, lines=owner)
    yield Batch(tool="ip", namespace=switch, lines=("link set owner master lan up",))
    rates = [(host.name, host.group.rate_mbit_per_s) for host in hosts]
    shaped = tuple(
        f"qdisc add dev {port} root {token_bucket(rate)}" for port, rate in rates if rate
    )
    if shaped:
        yield Batch(tool="tc", namespace=switch, lines=shaped)


def _host(names: BedNames, scenario: Scenario, index: int, host: HostSpec) -> Iterator[Batch]:
    """Yield a host's own end: its address, the way to the other site, and its sending rate."""
    namespace = names.namespace(host.name)
    lines = [
        "link set lo up",
        f"addr add {names.address(index, host.number)}/24 dev eth0",
        "link set eth0 up",
    ]
    if scenario.wan:
        far = names.network(1 - index)
        lines += [f"route add {far} via {names.address(index, ROUTER)}"]
    yield Batch(tool="ip", namespace=namespace, lines=tuple(lines))
    if host.group.rate_mbit_per_s:
        shaping = f"qdisc add dev eth0 root {token_bucket(host.group.rate_mbit_per_s)}"
        yield Batch(tool="tc", namespace=namespace, lines=(shaping,))


def _set_kernel(batch: Batch, inside: Group) -> None:
    """Write kernel settings of a namespace; procfs shows those of who looks."""
    pairs = [line.split("=") for line in batch.lines]
    script = "; ".join(f"echo {value} > /proc/sys/{path}" for path, value in pairs)
    call("nsenter", f"--net={NAMESPACES}/{batch.namespace}", "sh", "-ec", script, inside=inside)


NAMESPACES = "/run/netns"
"""Where ``ip netns`` keeps namespaces by name."""
