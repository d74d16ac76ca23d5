"""Waits for threads to end, from wherever a loader is closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable


def join_all(threads: Iterable[threading.Thread], timeout_s: float) -> None:
    """Wait for threads to end, at most ``timeout_s`` for all of them.

    A loader that nobody closes is closed by the garbage collector, which may run in one of its
    own threads: that one is not waited for.
    """
    deadline = time.monotonic() + timeout_s
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(max(deadline - time.monotonic(), 0.0))
