"""Waits for a condition, never for ever."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.core.errors import DeadlineError

_FIRST_S, _LONGEST_S = 0.002, 0.1


def until(condition: Callable[[], bool], *, longest_s: float, what: str) -> None:
    """Return as soon as the condition holds, which is looked at ever more rarely.

    Raises:
        DeadlineError: It does not hold in time; the message is ``what``.
    """
    deadline, pause = time.monotonic() + longest_s, _FIRST_S
    while not condition():
        if time.monotonic() > deadline:
            raise DeadlineError(f"{what} (waited {longest_s:g} s)")
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_S)
