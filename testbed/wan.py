"""Joins two sites by a line with a rate and a delay, through a relay process."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed import relay
from testbed.cgroups import Group
from testbed.errors import TestbedError
from testbed.names import BedNames
from testbed.network import NAMESPACES, Batch, carry_out
from testbed.scenario import Scenario, Wan

SHARES = 16
"""The relay goes before the hosts' processes: where it waits for a CPU, the line is slower."""

READY_S = 10.0
"""Within this time the relay has its devices [s]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LineBytes:
    """What came out of the line since it was made, headers included [bytes]."""

    onwards: int
    """At the second site, from the first."""

    back: int
    """At the first site, from the second, but for what is on its way."""


def line_bytes(relay_pid: int) -> LineBytes:
    """Return what has crossed, as the relay's own network, which is the second site's, counts."""
    lines = Path(f"/proc/{relay_pid}/net/dev").read_text().splitlines()
    (counts,) = (line.split() for line in lines if line.split()[0] == f"{relay.DEVICE}:")
    return LineBytes(onwards=int(counts[1]), back=int(counts[9]))


def join(names: BedNames, scenario: Scenario, group: Group, log: Path) -> subprocess.Popen[bytes]:
    """Start the relay between a bed's two sites, and send the sites' packets through it.

    Args:
        names: The bed.
        scenario: It has a ``wan``.
        group: The control group that ends with the bed; the relay enters it.
        log: Where the relay's complaints go.

    Raises:
        TestbedError: The relay did not start.
    """
    assert scenario.wan is not None
    switches = [f"{NAMESPACES}/{names.switch(site)}" for site in scenario.sites]
    process = _start(_arguments(scenario.wan, switches), group, log)
    carry_out(_routes(names, scenario), inside=group)
    return process


def _start(argument: str, group: Group, log: Path) -> subprocess.Popen[bytes]:
    python = [sys.executable, "-I", "-S", str(relay.__file__), argument]
    with log.open("ab") as sink:
        process = subprocess.Popen(
            group.command(python),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=sink,
            start_new_session=True,
        )
    assert process.stdout is not None
    with process.stdout as told:
        answered, _, _ = select.select([told], [], [], READY_S)
        if answered and told.readline() == b"ready\n":
            return process
    process.kill()
    process.wait()
    raise TestbedError(
        f"the line between the sites did not start: {log.read_text().strip() or 'no answer'}"
    )


def _arguments(wan: Wan, switches: list[str]) -> str:
    return json.dumps(
        {
            "namespaces": switches,
            "bytes_per_s": wan.rate_mbit_per_s * 1e6 / 8,
            "delay_s": wan.delay_ms / 1000,
            "queue_s": wan.queue_ms / 1000,
        }
    )


def _routes(names: BedNames, scenario: Scenario) -> Iterator[Batch]:
    for index, site in enumerate(scenario.sites):
        far = names.network(1 - index)
        lines = (f"link set {relay.DEVICE} mtu 1500 up", f"route add {far} dev {relay.DEVICE}")
        yield Batch(tool="ip", namespace=names.switch(site), lines=lines)
