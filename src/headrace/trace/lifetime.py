"""Tells those who write in the background of forks, and of the end of the process."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from multiprocessing.process import parent_process
from typing import Protocol


class Lasting(Protocol):
    """Lives as long as its process, unless it is closed before."""

    def before_fork(self) -> bool:
        """Let no write be under way in a fork; tell whether that could be had in time."""

    def after_fork_in_parent(self) -> None:
        """Go on; only where there was no write under way."""

    def after_fork_in_child(self) -> None:
        """Leave to the parent what is the parent's."""

    def close(self) -> None:
        """Write what is left."""


_LIVE: weakref.WeakSet[Lasting] = weakref.WeakSet()
_HELD: list[Lasting] = []


def watch(one: Lasting) -> None:
    """Tell it of forks, and close it with the process."""
    _LIVE.add(one)


def forget(one: Lasting) -> None:
    """Tell it of nothing any more: it was closed."""
    _LIVE.discard(one)


def see_end() -> None:
    """Make sure that this process's end is seen; to be called when it has something to write.

    Children of multiprocessing end without running what ``atexit`` was told, but run what they
    register themselves.
    """
    global _is_seen  # noqa: PLW0603 - a process ends once
    util = sys.modules.get("multiprocessing.util")
    if not _is_seen and util is not None and parent_process() is not None:
        util.Finalize(None, _close_all, exitpriority=0)
    _is_seen = True


_is_seen = False


def _before_fork() -> None:
    _HELD[:] = [one for one in list(_LIVE) if one.before_fork()]  # others may begin meanwhile


def _after_fork_in_parent() -> None:
    while _HELD:
        _HELD.pop().after_fork_in_parent()


def _after_fork_in_child() -> None:
    global _is_seen  # noqa: PLW0603 - a process ends once
    _is_seen = False
    _HELD.clear()
    for one in list(_LIVE):
        one.after_fork_in_child()


def _close_all() -> None:
    for one in list(_LIVE):
        one.close()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
atexit.register(_close_all)
