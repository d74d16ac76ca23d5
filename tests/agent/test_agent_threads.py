"""Threads that the end of a process does not wait for."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from headrace.agent.threads import DaemonThreads
from waiting import eventually


def ended_process(script: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Run a script in a process of its own; return how long its end took [s]."""
    lines = ("import asyncio, threading, time", "from headrace.agent.threads import DaemonThreads")
    ended = subprocess.run(
        [sys.executable, "-c", "\n".join((*lines, script))],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return time.time() - float(ended.stdout.splitlines()[0]), ended


def test_a_process_ends_although_a_call_hangs() -> None:
    took_s, ended = ended_process(
        "async def main():\n"
        "    call = asyncio.ensure_future(DaemonThreads(2, 'x').run(threading.Event().wait))\n"
        "    await asyncio.sleep(0.1)\n"
        "    call.cancel()\n"
        "asyncio.run(main())\n"
        "print(time.time(), flush=True)\n"
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert took_s < 10


def test_a_process_waits_a_moment_for_calls_that_end() -> None:
    _, ended = ended_process(
        "print(time.time(), flush=True)\n"
        "DaemonThreads(1, 'x').submit(lambda: (time.sleep(0.2), print('over', flush=True)))\n"
    )
    assert "over" in ended.stdout


def test_a_call_that_ends_after_its_loop_harms_nobody() -> None:
    go_on, threads = threading.Event(), DaemonThreads(1, "x")

    async def play() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await asyncio.shield(threads.run(lambda: go_on.wait(10)))

    asyncio.run(play())
    go_on.set()
    threads.shutdown()


def test_so_many_calls_run_at_once_and_no_more_threads_than_needed() -> None:
    threads, meeting = DaemonThreads(3, "pool-under-test"), threading.Barrier(3)
    for _ in range(5):
        threads.submit(int).result(30)
        assert threads._idle.acquire(timeout=30)  # the thread is idle again
        threads._idle.release()
    assert _count("pool-under-test") == 1
    list(threads.map(lambda _: meeting.wait(30), range(6), timeout=30))
    assert _count("pool-under-test") == 3
    threads.shutdown()
    assert _count("pool-under-test") == 0


def test_what_a_call_raises_is_raised_where_it_is_awaited() -> None:
    with DaemonThreads(1, "x") as threads, pytest.raises(ZeroDivisionError):
        asyncio.run(threads.run(lambda: 1 // 0))


def test_what_is_queued_at_the_end_is_not_begun() -> None:
    threads, go_on = DaemonThreads(1, "x"), threading.Event()
    running, queued = threads.submit(go_on.wait, 30), threads.submit(int)
    eventually(running.running)
    threads.shutdown(wait=False, cancel_futures=True)
    assert queued.cancelled()
    go_on.set()
    assert running.result(30)
    with pytest.raises(RuntimeError, match="shut down"):
        threads.submit(int)


def _count(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())
