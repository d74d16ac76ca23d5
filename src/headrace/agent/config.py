"""What an agent is told when it starts."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headrace.agent.cpu import CpuScope
from headrace.agent.hosts import own_hosts
from headrace.agent.tiers import Tier
from headrace.core.errors import ConfigError
from headrace.policy.guard import GuardLimits
from headrace.wire.endpoint import Endpoint
from headrace.wire.listening import Listen, TlsFiles

WORKERS_PER_CPU = 16
"""More worker processes only take memory, also where each waits for slow storage."""

_LEAST_MEMORY = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentConfig:
    """One agent."""

    token: str = field(repr=False)
    """What every request but ``/healthz`` must show."""

    roots: tuple[Path, ...] = ()
    """Directories whose files may be read; beside ``storages`` nothing else is. Nothing is written
    there but ``copies``."""

    storages: tuple[str, ...] = ()
    """URLs of remote stores' folders whose files may be read (``hdfs://…``)."""

    tiers: tuple[Tier, ...] = ()
    """Tiers of storage beside this agent, whose bandwidth jobs may be held to parts of."""

    controller: Endpoint | None = None
    """Who orders the quotas; None: nobody, and nothing is limited."""

    burst_s: float = 0.25
    """A job's quota that it did not use for this long is saved up, and no more [s]."""

    hosts: tuple[str, ...] = field(default_factory=own_hosts)
    """Names and addresses by which the storage knows the node that this agent runs beside."""

    listen: Listen = field(default_factory=Listen)
    unix_path: Path | None = None
    """A Unix socket besides ``listen``, for clients on this host."""

    tls: TlsFiles | None = None
    name: str = field(default_factory=socket.gethostname)
    """Name in rosters; unique among the agents of a job, and the same after a restart."""

    workers: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    """Worker processes."""

    memory_bytes: int = 2 << 30
    """Prepared samples over all jobs, and what of the cache lies in memory [bytes]."""

    raw_memory_bytes: int = 256 << 20
    """Encoded bytes on their way to clients, over all jobs [bytes]."""

    range_memory_bytes: int = 1 << 30
    """Ranges of files that are kept for leases, such as hot parts of checkpoints; 0: none
    [bytes]."""

    copies: int = 4
    """Groups of checkpoints' chunks that are copied at the same time when a controller asks for it,
    into ``.headrace/staging`` of a root and nowhere else; 0: none."""

    worker_memory_bytes: int = 2 << 30
    """Address space of one worker beyond libraries and shared memory [bytes]."""

    task_s: float = 60.0
    """Longest time for one sample before its worker is ended [s]."""

    cache: Path | None = None
    """Directory of a fast disk for encoded samples that are needed again; None: there is none."""

    cache_bytes: int = 0
    """Most bytes that are kept there, reserved at the start [bytes]."""

    cache_memory_bytes: int = 0
    """Part of ``memory_bytes`` for encoded samples that are needed again; 0: none [bytes]."""

    reorder: Literal["ordered", "always"] = "ordered"
    """For which jobs upcoming reads are merged into long ones that leave copies in the cache:
    those that the controller orders, or all."""

    allowed_ops: tuple[str, ...] = ()
    """Import paths of users' own ops that jobs may name (``module:function``, ``module:*``)."""

    idle_job_s: float = 3600.0
    """A job that asks for nothing this long is forgotten [s]."""

    lead_s: float = 10.0
    """How long before it is due a sample may be prepared [s]."""

    cpu_scope: CpuScope = "host"
    """Whose use of the CPU counts as others'; ``group`` where a CPU quota is guaranteed."""

    guard: GuardLimits = field(default_factory=GuardLimits)
    """When transforms yield to whoever else needs the CPU."""

    def __post_init__(self) -> None:
        for name, least in (
            ("workers", 0),
            ("memory_bytes", _LEAST_MEMORY),
            ("raw_memory_bytes", 1 << 20),
            ("range_memory_bytes", 0),
            ("copies", 0),
            ("worker_memory_bytes", 64 << 20),
            ("task_s", 0.1),
            ("idle_job_s", 1),
            ("lead_s", 0),
            ("burst_s", 0.01),
        ):
            if not getattr(self, name) >= least:  # nor is NaN
                raise ConfigError(f"agent.{name}={getattr(self, name)} must be at least {least}")
        most = WORKERS_PER_CPU * len(os.sched_getaffinity(0))
        if self.workers > most:
            raise ConfigError(
                f"agent.workers={self.workers} is more than {WORKERS_PER_CPU} for each CPU that "
                f"this process may use; give {most} at most"
            )
        if not self.name or any(c.isspace() for c in self.name):
            raise ConfigError(f"agent.name={self.name!r} must be one word; give --name")
        self._check_memory()
        self._check_cache()
        for host in self.hosts:
            if not host or any(c.isspace() for c in host):
                raise ConfigError(f"agent.hosts: {host!r} is not a host's name; give --host")

    def _check_memory(self) -> None:
        """Refuse what would be noticed only when the system ends the agent for it."""
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        for name in ("memory_bytes", "raw_memory_bytes", "range_memory_bytes"):
            if getattr(self, name) > there:
                raise ConfigError(
                    f"agent.{name}={getattr(self, name)} is more than the {there} B of memory "
                    "that this host has; give less"
                )

    def _check_cache(self) -> None:
        left = self.memory_bytes - self.cache_memory_bytes
        if self.cache_memory_bytes < 0 or left < _LEAST_MEMORY:
            raise ConfigError(
                f"agent.cache_memory_bytes={self.cache_memory_bytes} is a part of memory_bytes="
                f"{self.memory_bytes}, of which {_LEAST_MEMORY} at least must be left for "
                "prepared samples; give --cache-memory less or --memory more"
            )
        if (self.cache is None) != (self.cache_bytes == 0):
            raise ConfigError(
                "a cache needs both a directory and bytes; give --cache and --cache-bytes"
            )
        if self.cache is not None and not (self.cache.is_dir() and self.cache_bytes > 0):
            raise ConfigError(
                f"agent.cache={self.cache} with {self.cache_bytes} bytes: it must be a directory "
                "of a fast disk that is there, and the bytes above 0"
            )
