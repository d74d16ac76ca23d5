"""Who writes in the background is told of forks, whatever other threads do meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable

from headrace.trace import lifetime


class Writer:
    def __init__(self, while_held: Callable[[], None] = lambda: None) -> None:
        self.is_held = False
        self._while_held = while_held

    def before_fork(self) -> bool:
        self.is_held = True
        self._while_held()
        return True

    def after_fork_in_parent(self) -> None:
        self.is_held = False

    def after_fork_in_child(self) -> None: ...

    def close(self) -> None: ...


def test_one_that_begins_while_others_are_held_for_a_fork_keeps_nobody_held() -> None:
    new = Writer()
    old = Writer(lambda: lifetime.watch(new))
    lifetime.watch(old)
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    assert not old.is_held
