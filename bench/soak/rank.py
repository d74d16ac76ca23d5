"""A rank that runs in a process of its own, and the last thing it told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.soak.loop import LoopPlan, Progress
from headrace.core.errors import DeadlineError

START_TIMEOUT_S = 120.0
_POLL_S = 0.05
_CHECKOUT = Path(__file__).parents[2]


class Rank:
    """Starts a rank, as often as it is ended."""

    def __init__(self, plan: LoopPlan, temporary: Path) -> None:
        """Take note of what to start.

        Args:
            plan: What it is told.
            temporary: Folder in which it makes temporary files.
        """
        self._plan = plan
        self._temporary = temporary
        self._process: subprocess.Popen[bytes] | None = None
        self._listening: threading.Thread | None = None
        self.progress = Progress()
        """What it told last, since it was started last."""

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None, "the rank was not started"
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it has made steps."""
        self.progress = Progress()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.soak.loop", msgspec.json.encode(self._plan).decode()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=_CHECKOUT,
            env={**os.environ, "TMPDIR": str(self._temporary)},
        )
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()
        self.wait_until(lambda told: told.steps > 0)

    def wait_until(self, reached: Callable[[Progress], bool]) -> None:
        """Wait until what it tells is so.

        Raises:
            DeadlineError: it ended, or that took two minutes.
        """
        assert self._process is not None, "the rank was not started"
        deadline = time.monotonic() + START_TIMEOUT_S
        while not reached(self.progress):
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise DeadlineError("the rank stands still or has ended; it says why above")
            time.sleep(_POLL_S)

    def reopen(self) -> None:
        """Let it make its loader anew, and wait until it makes steps with it."""
        loaders = self.progress.loaders
        os.kill(self.pid, signal.SIGUSR1)
        self.wait_until(lambda told: told.loaders > loaders)

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is None or self._listening is None:
            return
        self._process.kill()
        self._process.wait()
        self._listening.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.progress = msgspec.json.decode(line, type=Progress)
