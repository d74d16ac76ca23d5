"""What watches calls knows which thread is in one, in forks too."""

from __future__ import annotations

import os
import threading

from headrace.tracing.probe.tracer import Watcher


def test_in_a_fork_no_thread_of_the_parent_is_within_a_call() -> None:
    watcher, entered, leave = Watcher("calls"), threading.Event(), threading.Event()

    def call() -> None:
        entered.set()
        leave.wait(10)

    caller = threading.Thread(target=watcher.timed(call, lambda _: None))
    caller.start()
    assert entered.wait(10)
    child = os.fork()
    if not child:
        os._exit(watcher.is_anyone_inside)
    assert watcher.is_anyone_inside
    leave.set()
    caller.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_fork_within_a_call_is_within_it() -> None:
    watcher = Watcher("calls")

    def fork() -> int:
        child = os.fork()
        if not child:
            os._exit(watcher.is_inside)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert watcher.timed(fork, lambda _: None)() == 1
