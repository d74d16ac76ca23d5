"""One daemon of a cluster: a JVM that is started, signalled, stopped, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.core.errors import CallerError, DeadlineError, RemoteError

Launch = Callable[[Sequence[str], Mapping[str, str], Path], "subprocess.Popen[bytes]"]
"""Starts ``argv`` with an environment; both its outputs are appended to the log file."""

_KILL_TIMEOUT_S = 10.0
_FREEZE_TIMEOUT_S = 5.0
_LOG_TAIL_BYTES = 20_000
_TROUBLE = (" ERROR ", " FATAL ", "Exception", "Error:")


def launch_here(
    argv: Sequence[str], environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """Start a process on this host, in a session of its own, out of reach of Ctrl-C."""
    with log.open("ab") as output:
        return subprocess.Popen(
            list(argv),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            start_new_session=True,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonSpec:
    """How one daemon is started."""

    name: str
    """``namenode-1``, ``datanode-2``."""

    argv: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    launch: Launch = launch_here


class Daemon:
    """A process that can be started many times, one at a time. Not thread-safe."""

    def __init__(self, spec: DaemonSpec) -> None:
        self.name = spec.name
        self.log = spec.log
        self._spec = spec
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The running process.

        Raises:
            CallerError: it does not run.
        """
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether the process is there, be it frozen."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; it answers some seconds later.

        Raises:
            CallerError: it runs already.
        """
        if self.is_running:
            raise CallerError(f"{self.name} runs already, as process {self.pid}; stop it first")
        spec = self._spec
        self._process = spec.launch(spec.argv, spec.environment, spec.log)

    def kill(self) -> None:
        """End the process at once, as a power failure would."""
        self._signal(signal.SIGKILL)
        self._running().wait(_KILL_TIMEOUT_S)
        self._process = None

    def collect(self) -> None:
        """Take note that the process was ended by others."""
        if self._process is not None:
            self._process.wait(_KILL_TIMEOUT_S)
            self._process = None

    def stop(self, timeout_s: float = 10.0) -> None:
        """Ask the process to end, kill it after ``timeout_s``; none is fine."""
        if not self.is_running:
            return
        self.thaw()
        self._signal(signal.SIGTERM)
        try:
            self._running().wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def freeze(self) -> None:
        """Stop the process where it is: its connections stay open and fall silent."""
        self._signal(signal.SIGSTOP)
        give_up_at = time.monotonic() + _FREEZE_TIMEOUT_S
        stopped = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        while not os.waitid(os.P_PID, self._running().pid, stopped):  # its threads stop one by one
            if time.monotonic() >= give_up_at:
                raise DeadlineError(f"{self._running().pid} does not stop; is it being traced?")
            time.sleep(0.001)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self._signal(signal.SIGCONT)

    def require_running(self) -> None:
        """Check that the process has not ended by itself.

        Raises:
            RemoteError: it has; the message carries what its log says.
        """
        if self._process is not None and (code := self._process.poll()) is not None:
            raise RemoteError(
                f"{self.name} ended by itself with code {code}: {self.trouble()}; see {self.log}"
            )

    def trouble(self) -> str:
        """Return the last line of the log that speaks of an error."""
        lines = self._last_lines()
        speaking = [line for line in lines if any(word in line for word in _TROUBLE)]
        return (speaking or lines or ["nothing was logged"])[-1].strip()

    def _last_lines(self) -> list[str]:
        try:
            tail = self.log.read_bytes()[-_LOG_TAIL_BYTES:]
        except FileNotFoundError:
            return []
        return [line for line in tail.decode(errors="replace").splitlines() if line.strip()]

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise CallerError(f"{self.name} does not run; call start() first")
        return self._process

    def _signal(self, number: signal.Signals) -> None:
        self._running().send_signal(number)
