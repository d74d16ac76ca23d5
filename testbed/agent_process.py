"""One agent on an emulated host: a process that can be killed, frozen and started again."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from headrace.devhdfs.daemon import Daemon, DaemonSpec
from testbed.host import Host
from testbed.patience import until

PORT = 7411
READY_S = 60.0
"""Within this time an agent must answer, on a busy machine [s]."""


class AgentProcess(Daemon):
    """An agent beside a host's DataNode.

    Args:
        host: Where it runs.
        storage: URLs of what it serves.
        options: Further options of ``headrace agent``.
        environment: What it needs besides this process's environment.
    """

    def __init__(
        self,
        host: Host,
        *,
        storage: Sequence[str],
        options: Sequence[str],
        environment: Mapping[str, str],
    ) -> None:
        self.address = f"http://{host.ip}:{PORT}"
        """Where it answers."""
        self._ready = host.directory / "agent.ready"
        served = [word for url in storage for word in ("--storage", url)]
        known_as = ["--name", host.name, "--host", host.name, "--host", host.ip]
        argv = [sys.executable, "-m", "headrace", "agent", *served, *known_as]
        argv += ["--listen", f"{host.ip}:{PORT}", "--ready-file", str(self._ready), *options]
        super().__init__(
            DaemonSpec(
                name=f"agent of {host.name}",
                argv=argv,
                log=host.directory / "agent.log",
                environment={**os.environ, **environment},
                launch=host.launch,
            )
        )

    def start(self) -> None:
        """Start it; ``wait_ready`` waits until it answers."""
        self._ready.unlink(missing_ok=True)
        super().start()

    def wait_ready(self) -> None:
        """Wait until it answers.

        Raises:
            RemoteError: it ended by itself.
            DeadlineError: it takes too long.
        """
        until(
            self._answers,
            longest_s=READY_S,
            what=f"{self.name} does not answer; see {self.log}",
        )

    def _answers(self) -> bool:
        self.require_running()
        return self._ready.exists()
