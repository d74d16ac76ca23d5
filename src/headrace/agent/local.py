"""An agent as a child process of this one: for the demo, for tests, for embedding programs."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec

from headrace.agent.agent import ReadyMessage
from headrace.core.errors import AgentUnavailableError
from headrace.wire.auth import TOKEN_VARIABLE, new_token

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 5.0


class LocalAgent:
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
        self.token = token or new_token()
        self.name = name or f"local-{new_token()[:8]}"
        self._roots = [str(root) for root in roots]
        self._listen = listen
        self._options = list(options)
        self._cpus = cpus
        self._stderr = stderr
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: ReadyMessage | None = None

    @property
    def address(self) -> str:
        """Where it answers; known once it started, and kept when it is started again."""
        return self._started().address

    @property
    def unix_socket(self) -> str | None:
        """Path of its Unix socket, if it has one."""
        return self._started().unix_socket

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None, "the agent was not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> LocalAgent:
        """Start it and wait until it answers.

        Raises:
            AgentUnavailableError: it ended, or was not ready in time; its own words are on
                standard error.
        """
        reading, writing = os.pipe()
        with open(reading, "rb") as ready:  # noqa: PTH123 - a pipe
            try:
                self._process = self._spawn(writing)
            finally:
                os.close(writing)
            self._ready = self._wait_ready(ready)
        self._listen = self._ready.address.removeprefix("http://").removeprefix("https://")
        return self

    def stop(self) -> int:
        """Let it end in order; returns its exit code. It is killed when that takes too long."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def kill(self) -> None:
        """End it at once, as a crash of its host would (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> LocalAgent:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _started(self) -> ReadyMessage:
        if self._ready is None:
            raise AgentUnavailableError("the local agent was not started; call start()")
        return self._ready

    def _spawn(self, ready_fd: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "headrace", "agent", "--exit-with-parent"]
        for root in self._roots:
            command += ["--storage" if "://" in root else "--root", root]
        command += ["--listen", self._listen, "--name", self.name, "--ready-fd", str(ready_fd)]
        with _affinity(self._cpus):
            return subprocess.Popen(
                [*command, *self._options],
                stdin=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=(ready_fd,),
                env={**os.environ, TOKEN_VARIABLE: self.token},
            )

    def _wait_ready(self, pipe: IO[bytes]) -> ReadyMessage:
        deadline, text = time.monotonic() + START_TIMEOUT_S, b""
        while not text.endswith(b"\n"):
            readable, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(pipe.fileno(), 65536) if readable else b""
            if not part:
                self.kill()
                raise AgentUnavailableError(
                    f"the local agent over {', '.join(self._roots)} did not start; "
                    "it says why on standard error"
                )
            text += part
        return msgspec.json.decode(text, type=ReadyMessage)


@contextmanager
def _affinity(cpus: Sequence[int] | None) -> Iterator[None]:
    """Pin this thread for the moment, so that a process it starts is pinned from its first step."""
    before = os.sched_getaffinity(0)
    try:
        if cpus is not None:
            os.sched_setaffinity(0, cpus)
        yield
    finally:
        os.sched_setaffinity(0, before)
