"""An agent as a child process of this one: for the demo, for tests, for embedding programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO

from headrace.agent.agent import ReadyMessage
from headrace.wire.auth import new_token
from headrace.wire.child import ChildDaemon


class LocalAgent(ChildDaemon[ReadyMessage]):
    """Starts ``headrace agent`` on this host; it ends with this process at the latest.

    Args:
        roots: Directories that it may read, and URLs of remote stores.
        listen: ``HOST:PORT`` (0: any free port) or ``unix:PATH``.
        token: Bearer token; a new one unless given. It travels in the environment.
        name: Its name in rosters; unique unless given.
        options: Further options of the command line (``"--workers", "2"``).
        cpus: CPUs to run on, its workers included; None leaves the parent's.
        stderr: Where its log goes; inherited by default.
    """

    def __init__(
        self,
        roots: Sequence[str | Path],
        *,
        listen: str = "127.0.0.1:0",
        token: str | None = None,
        name: str | None = None,
        options: Sequence[str] = (),
        cpus: Sequence[int] | None = None,
        stderr: IO[bytes] | int | None = None,
    ) -> None:
        self.name = name or f"local-{new_token()[:8]}"
        served: list[str] = []
        for root in map(str, roots):
            served += ["--storage" if "://" in root else "--root", root]
        super().__init__(
            "agent",
            ReadyMessage,
            listen=listen,
            token=token,
            options=[*served, "--name", self.name, *options],
            cpus=cpus,
            stderr=stderr,
        )

    @property
    def unix_socket(self) -> str | None:
        """Path of its Unix socket, if it has one."""
        return self.ready.unix_socket
