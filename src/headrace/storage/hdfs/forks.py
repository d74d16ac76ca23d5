"""Keeps a forked child from reading over its parent's connections.

hdfs-native keeps connections to DataNodes for 3 seconds in a cache of the process. A child
that is forked meanwhile would find them in its copy and talk over the same sockets, so that
either could get the other's bytes. It waits until they have expired.
"""

from __future__ import annotations

import os
import time

EXPIRY_S = 3.5
"""How long a connection may be in the cache after a read, and a little more [s]."""

_last_read = 0.0
_safe_from = 0.0


def note_read() -> None:
    """Say that a read has ended: its connection is in the cache now."""
    global _last_read  # noqa: PLW0603 - the cache is the process's, too
    _last_read = time.monotonic()


def wait_until_safe() -> None:
    """Return once no connection of a parent process can be in the cache."""
    remaining = _safe_from - time.monotonic()
    if remaining > 0:
        time.sleep(remaining)


def _after_fork() -> None:
    global _safe_from  # noqa: PLW0603 - as above
    _safe_from = max(_safe_from, _last_read + EXPIRY_S)


os.register_at_fork(after_in_child=_after_fork)
