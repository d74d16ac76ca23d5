"""Tells those who write in the background of forks, and of the end of the process."""

from __future__ import annotations

import atexit
import os
import weakref
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


def _before_fork() -> None:
    _HELD[:] = [one for one in _LIVE if one.before_fork()]


def _after_fork_in_parent() -> None:
    while _HELD:
        _HELD.pop().after_fork_in_parent()


def _after_fork_in_child() -> None:
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
