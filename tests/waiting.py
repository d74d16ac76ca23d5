"""Waits for what a test looks at, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_S = 0.01


def eventually(holds: Callable[[], object], within_s: float = 60.0) -> None:
    """Return as soon as ``holds`` does; the test fails where it does not within so long [s]."""
    give_up_at = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < give_up_at, f"it did not happen within {within_s:g} s"
        time.sleep(LOOK_S)
