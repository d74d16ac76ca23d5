from __future__ import annotations

import threading
import time
import weakref

import pytest

from headrace.storage.calls import Calls

LONG_S = 30.0


def test_results_and_errors_come_back() -> None:
    calls = Calls("test")

    def fail() -> None:
        raise OSError("no")

    assert calls.run(lambda: 7, LONG_S) == 7
    with pytest.raises(OSError, match="no"):
        calls.run(fail, LONG_S)


def test_a_panic_becomes_an_error() -> None:
    class PanicException(BaseException):
        """Like that of Rust code."""

    def panic() -> None:
        raise PanicException("past the end")

    with pytest.raises(RuntimeError, match="panicked: past the end"):
        Calls("test").run(panic, LONG_S)


def test_calls_that_hang_are_left_and_others_go_on() -> None:
    calls, release = Calls("test", threads=2), threading.Event()
    for _ in range(5):
        with pytest.raises(TimeoutError):
            calls.run(lambda: release.wait(LONG_S), 0.01)
    assert calls.run(lambda: "still here", LONG_S) == "still here"
    release.set()
    assert [calls.run(lambda n=n: n, LONG_S) for n in range(20)] == list(range(20))


def test_a_call_that_waits_behind_one_that_is_abandoned_is_run() -> None:
    calls, release = Calls("test", threads=1), threading.Event()
    hanging, started = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        release.wait(LONG_S)
        hanging.set()

    first = calls.start(hang)
    waiting = calls.start(lambda: "run")
    assert started.wait(LONG_S)
    calls.abandon(first)
    assert waiting.result(LONG_S) == "run"
    assert not hanging.is_set()
    release.set()
    first.result(LONG_S)


def test_no_more_calls_run_at_once_than_allowed() -> None:
    calls, lock = Calls("test", threads=3), threading.Lock()
    now, most = 0, 0
    full = threading.Barrier(3)

    def call() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        full.wait(LONG_S)
        with lock:
            now -= 1

    for future in [calls.start(call) for _ in range(12)]:
        future.result(LONG_S)
    assert most == 3


def test_a_call_that_is_abandoned_before_it_starts_never_does() -> None:
    calls, release, ran = Calls("test", threads=1), threading.Event(), []
    first = calls.start(lambda: release.wait(LONG_S))
    second = calls.start(lambda: ran.append("second"))
    calls.abandon(second)
    release.set()
    first.result(LONG_S)
    assert calls.run(lambda: "third", LONG_S) == "third"
    assert ran == []


def test_closing_waits_for_what_runs_and_starts_nothing_more() -> None:
    calls, release, started = Calls("test", threads=1), threading.Event(), threading.Event()

    def work() -> str:
        started.set()
        release.wait(LONG_S)
        return "done"

    running, queued = calls.start(work), calls.start(lambda: "never")
    assert started.wait(LONG_S)
    calls.close(0.01)
    assert not running.done()
    release.set()
    calls.close(LONG_S)
    assert running.result(0) == "done"
    assert not queued.done()
    assert not calls.start(lambda: "never").done()


def test_an_idle_thread_keeps_nothing_of_its_last_call() -> None:
    class Data:
        """Like the bytes of a part."""

    calls = Calls("test", threads=1)
    kept = weakref.ref(calls.run(Data, LONG_S))
    give_up_at = time.monotonic() + LONG_S
    while kept() is not None:
        assert time.monotonic() < give_up_at
        time.sleep(0.001)
