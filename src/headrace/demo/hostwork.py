"""The model's own host work, emulated openly: ``python -m headrace.demo.hostwork SHARE``.

Keeps one CPU busy for the given share of the time until standard input is closed. What
it could not get in one period it makes up for in the next, up to a second's worth, so
that its share holds next to other processes.
"""

from __future__ import annotations

import select
import signal
import sys
import time

PERIOD_S = 0.02
LONGEST_BURST_S = 0.1
LARGEST_DEBT_S = 1.0


def owed_after(owed_s: float, *, elapsed_s: float, share: float) -> float:
    """Return the CPU time that is due, given what was due ``elapsed_s`` ago [s]."""
    return min(owed_s + share * elapsed_s, share * LARGEST_DEBT_S)


def burst(owed_s: float) -> float:
    """Compute until ``owed_s`` of CPU time is spent, for a bounded time; return what was spent."""
    begin, limit = time.thread_time(), time.perf_counter() + LONGEST_BURST_S
    spent = 0.0
    while spent < owed_s and time.perf_counter() < limit:
        sum(range(2000))
        spent = time.thread_time() - begin
    return spent


def work(share: float) -> None:
    """Keep the share until the other end of standard input is closed."""
    owed, last = 0.0, time.perf_counter()
    while True:
        now = time.perf_counter()
        owed = owed_after(owed, elapsed_s=now - last, share=share)
        last = now
        owed -= burst(owed)
        pause = max(0.0, now + PERIOD_S - time.perf_counter())
        if select.select([sys.stdin], [], [], pause)[0]:
            return


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the demo ends it, in order
    work(float(sys.argv[1]))
