"""Runs a program as if it had been called itself: same streams, signals, exit code."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence

from headrace.core.errors import NotFoundError

_PASSED_ON = {
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
}
_BY_KILL = 0
"""``si_code`` of a signal that a process sent to this one."""

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

    It shares the terminal, so that the keys which send signals reach it without help; signals
    that are sent to this process alone are passed on. For the main thread.

    Args:
        command: The program and its arguments; found as a shell finds it.
        environment: Of the program.
        every: Called again and again while it runs.
        every_s: How often [s].

    Returns:
        Its exit code; 128 + N where signal N ended it.

    Raises:
        NotFoundError: there is no such program, or it cannot be run.
    """
    waited = _PASSED_ON | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        pid = _started(command, environment, before)
        while True:
            received = signal.sigtimedwait(waited, every_s)
            if received is None or received.si_signo == signal.SIGCHLD:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    return _exit_code(status)
            elif received.si_code <= _BY_KILL:
                os.kill(pid, received.si_signo)
            if received is None:
                every()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _started(command: Sequence[str], environment: Mapping[str, str], mask: Collection[int]) -> int:
    try:
        return os.posix_spawnp(command[0], list(command), environment, setsigmask=mask)
    except OSError as error:
        raise NotFoundError(
            f"cannot run {command[0]}: {error.strerror}; name a program on PATH, or its path"
        ) from error


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _KILLED - code
