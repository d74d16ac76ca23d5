"""What runs on the hosts of a scenario: its ``[services]`` table, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.keys import build


@dataclass(frozen=True, kw_only=True, slots=True)
class HdfsSpec:
    """``[services.hdfs]``: a NameNode on each NameNode host, a DataNode on each storage host."""

    block_mib: float = 8.0
    """Size of blocks [MiB]."""

    replication: int = 2
    """Copies of each block."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentSpec:
    """``[services.agents]``: an agent beside each DataNode."""

    workers: int | None = None
    """Worker processes; None: what the agent finds best."""

    memory_mib: int = 256
    """For prepared samples [MiB]."""

    options: tuple[str, ...] = ()
    """Further options of ``headrace agent``, as on its command line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceSpecs:
    """The whole table."""

    hdfs: HdfsSpec = field(default_factory=HdfsSpec)
    agents: AgentSpec | None = None
    """None: no agents."""

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> ServiceSpecs:
        """Read a scenario's ``[services]``.

        Raises:
            ConfigError: a key is unknown, or a value has the wrong type.
        """
        kinds = {"hdfs": HdfsSpec, "agents": AgentSpec}
        values = {
            key: build(kinds[key], value, where=f"services.{key}") if key in kinds else value
            for key, value in table.items()
        }
        return build(cls, values, where="services")
