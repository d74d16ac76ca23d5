"""Where a measurement comes from: machine, date, commit, command. An absolute number needs them."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from headrace.report.units import bytes_


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The host a measurement ran on."""

    cpu: str
    cpus_usable: int
    memory_bytes: int
    system: str
    python: str


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """What has to stand beside a number."""

    date: str
    """UTC, ISO 8601."""

    machine: Machine
    commit: str
    """Abbreviated commit of the source tree, ``+`` when files differ; ``unknown`` outside one."""

    command: str

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return it for people: pairs of name and value."""
        one = self.machine
        machine = (
            f"{one.cpu}, {one.cpus_usable} CPUs, {bytes_(one.memory_bytes)}, {one.system}, "
            f"Python {one.python}"
        )
        return (
            ("command", self.command),
            ("date", self.date),
            ("machine", machine),
            ("commit", self.commit),
        )


def provenance() -> Provenance:
    """Describe this moment, this machine and this command line."""
    return Provenance(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=_machine(),
        commit=_commit(),
        command=shlex.join([*program(), *sys.argv[1:]]),
    )


def program() -> list[str]:
    """Return how this process's program is called: ``headrace``, or ``python -m MODULE``."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None:
        return [Path(sys.argv[0]).name]
    return ["python", "-m", spec.name.removesuffix(".__main__")]


def _machine() -> Machine:
    return Machine(
        cpu=_cpu_name(),
        cpus_usable=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
    )


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _commit() -> str:
    tree = Path(__file__).parents[1]
    head = _git(tree, "rev-parse", "--short", "HEAD")
    if head is None:
        return "unknown"
    return f"{head}+" if _git(tree, "status", "--porcelain", "--", ".") else head


def _git(tree: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(tree), *arguments],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
