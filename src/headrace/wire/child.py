"""A daemon of headrace's as a child process: for the demo, for tests, for embedding programs."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Generic, Protocol, Self, TypeVar

import msgspec

from headrace.core.errors import AgentUnavailableError
from headrace.core.load import busy_machine
from headrace.wire.auth import TOKEN_VARIABLE, new_token

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 5.0


class Ready(Protocol):
    """What a daemon tells whoever started it, once it answers."""

    @property
    def address(self) -> str:
        """Where it answers."""
        ...


R = TypeVar("R", bound=Ready)


class ChildDaemon(Generic[R]):
    """Starts ``headrace VERB`` on this host; it ends with this process at the latest.

    Args:
        verb: ``agent``, ``controller`` …
        form: What it tells once it answers.
        listen: ``HOST:PORT`` (0: any free port) or ``unix:PATH``.
        token: Bearer token; a new one unless given. It travels in the environment.
        options: Further options of the command line.
        cpus: CPUs to run on, its own children included; None leaves the parent's.
        stderr: Where its log goes; inherited by default.
    """

    def __init__(
        self,
        verb: str,
        form: type[R],
        *,
        listen: str = "127.0.0.1:0",
        token: str | None = None,
        options: Sequence[str] = (),
        cpus: Sequence[int] | None = None,
        stderr: IO[bytes] | int | None = None,
    ) -> None:
        self.token = token or new_token()
        self._verb = verb
        self._form = form
        self._listen = listen
        self._options = list(options)
        self._cpus = cpus
        self._stderr = stderr
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: R | None = None

    @property
    def ready(self) -> R:
        """What it told when it started last."""
        if self._ready is None:
            raise AgentUnavailableError(f"the local {self._verb} was not started; call start()")
        return self._ready

    @property
    def address(self) -> str:
        """Where it answers; known once it started, and kept when it is started again."""
        return self.ready.address

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None, f"the {self._verb} was not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it and wait until it answers.

        Raises:
            AgentUnavailableError: it ended, or was not ready in time; its own words are on
                standard error.
        """
        reading, writing = os.pipe()
        with open(reading, "rb") as pipe:  # noqa: PTH123 - a pipe
            try:
                self._process = self._spawn(writing)
            finally:
                os.close(writing)
            self._ready = self._wait_ready(pipe)
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

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _spawn(self, ready_fd: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "headrace", self._verb, "--exit-with-parent"]
        command += ["--listen", self._listen, "--ready-fd", str(ready_fd)]
        with _affinity(self._cpus):
            return subprocess.Popen(
                [*command, *self._options],
                stdin=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=(ready_fd,),
                env={**os.environ, TOKEN_VARIABLE: self.token},
            )

    def _wait_ready(self, pipe: IO[bytes]) -> R:
        deadline, text = time.monotonic() + START_TIMEOUT_S, b""
        while not text.endswith(b"\n"):
            readable, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(pipe.fileno(), 65536) if readable else b""
            if not part:
                self.kill()
                raise AgentUnavailableError(self._failure(ended=bool(readable)))
            text += part
        return msgspec.json.decode(text, type=self._form)

    def _failure(self, *, ended: bool) -> str:
        named = f"the local {self._verb} ({' '.join(self._options)})"
        if ended:
            return f"{named} did not start; it says why on standard error"
        return f"{named} was not ready {START_TIMEOUT_S:g} s after its start{busy_machine()}"


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
