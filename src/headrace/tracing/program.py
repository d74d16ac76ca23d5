"""Runs a program as if it had been called itself: same streams, signals, exit code."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any

from headrace.core.errors import NotFoundError

_PASSED_ON = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_OF_KEYS = (signal.SIGINT, signal.SIGQUIT)
"""A terminal sends these to all processes in its foreground."""

_KILLED = 128
"""Added to the signal that ended a program, as shells do."""


def run_program(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    every: Callable[[], None],
    every_s: float,
) -> int:
    """Run a program to its end.

    It shares the terminal, whose keys reach it without help; other signals to this process are
    passed on. For the main thread.

    Args:
        command: The program and its arguments; found as a shell finds it.
        environment: Of the program.
        every: Called again and again while it runs.
        every_s: How often, at least [s].

    Returns:
        Its exit code; 128 + N where signal N ended it.

    Raises:
        NotFoundError: there is no such program, or it cannot be run.
    """
    with _PassingOn() as passing:
        pid = _started(command, environment)
        passing.begin(pid)
        ended = os.pidfd_open(pid)
        try:
            while not _wait(ended, passing, every_s):
                every()
        finally:
            os.close(ended)
        passing.end()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else _KILLED - code


class _PassingOn:
    """Passes signals that this process gets on to another one, as long as it is entered."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._early: list[int] = []
        self._before: dict[int, Any] = {}
        self.woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        """Can be read when a signal came, whichever thread of this process it came to."""

    def begin(self, pid: int) -> None:
        """Pass on what came so far, and all that comes."""
        self._pid = pid
        for number in self._early:
            self._pass_on(number, None)

    def end(self) -> None:
        """Pass on nothing more: the process ended, and its number may become another's."""
        self._pid = None

    def __enter__(self) -> _PassingOn:
        self._woken_before = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in _PASSED_ON:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it, for both
                self._before[number] = signal.signal(number, self._pass_on)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._woken_before)
        os.close(self._wake)
        os.close(self.woken)

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        if self._pid is None:
            self._early.append(number)
        elif number not in _OF_KEYS or not _is_in_foreground():
            os.kill(self._pid, number)


def _started(command: Sequence[str], environment: Mapping[str, str]) -> int:
    try:
        return os.posix_spawnp(command[0], list(command), environment)
    except OSError as error:
        raise NotFoundError(
            f"cannot run {command[0]}: {error.strerror}; name a program on PATH, or its path"
        ) from error


def _wait(ended: int, passing: _PassingOn, seconds: float) -> bool:
    """Wait for a process's end, no longer than until a signal comes; tell whether it ended."""
    ready, _, _ = select.select([ended, passing.woken], [], [], seconds)
    if passing.woken in ready:
        os.read(passing.woken, 1024)
    return ended in ready


def _is_in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)
