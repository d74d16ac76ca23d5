"""A controller as a child process of this one: for tests, measurements, embedding programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO

from headrace.controller.controller import ReadyMessage
from headrace.wire.child import ChildDaemon


class LocalController(ChildDaemon[ReadyMessage]):
    """Starts ``headrace controller`` on this host; it ends with this process at the latest.

    Args:
        journal: SQLite file that it begins with when it is started again.
        listen: ``HOST:PORT`` (0: any free port) or ``unix:PATH``.
        token: Bearer token; a new one unless given. It travels in the environment.
        options: Further options of the command line (``"--tier", "hdd=600MB"``).
        stderr: Where its log goes; inherited by default.
    """

    def __init__(
        self,
        journal: Path | None = None,
        *,
        listen: str = "127.0.0.1:0",
        token: str | None = None,
        options: Sequence[str] = (),
        stderr: IO[bytes] | int | None = None,
    ) -> None:
        kept = [] if journal is None else ["--journal", str(journal)]
        super().__init__(
            "controller",
            ReadyMessage,
            listen=listen,
            token=token,
            options=[*kept, *options],
            stderr=stderr,
        )
