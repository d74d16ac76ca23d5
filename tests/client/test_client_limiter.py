"""Direct reads are held to a rate; those who wait notice that it changes, or that all is over."""

from __future__ import annotations

import threading
import time

import pytest

from headrace.client import limiter as module
from headrace.client.held import Held
from headrace.client.limiter import BURST_S, DirectLimiter


def waiting(limiter: DirectLimiter, nbytes: int) -> tuple[threading.Thread, list[float]]:
    waited: list[float] = []
    thread = threading.Thread(target=lambda: waited.append(limiter.wait(nbytes)))
    thread.start()
    return thread, waited


def test_without_a_quota_nothing_waits_and_bytes_are_counted() -> None:
    limiter = DirectLimiter(Held())
    assert limiter.wait(10**12) == 0.0
    assert limiter.read_bytes == 10**12
    assert limiter.bytes_per_s is None


@pytest.mark.parametrize("threads", [1, 4])
def test_all_threads_together_keep_the_rate(threads: int) -> None:
    limiter = DirectLimiter(Held())
    limiter.set_rate(1e6)
    begin = time.monotonic()
    workers = [
        threading.Thread(target=lambda: [limiter.wait(10_000) for _ in range(60 // threads)])
        for _ in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(10)
    took_s = time.monotonic() - begin
    assert took_s > (600_000 - 10_000) / 1e6 - BURST_S
    assert took_s < 6.0


def test_a_higher_rate_lets_go_of_those_who_wait() -> None:
    limiter = DirectLimiter(Held())
    limiter.set_rate(1.0)
    limiter.wait(10**6)
    thread, waited = waiting(limiter, 1)
    limiter.set_rate(1e9)
    thread.join(5)
    assert waited
    assert waited[0] < 5


def test_lifting_the_limit_or_closing_lets_everybody_through() -> None:
    for end in (lambda limiter: limiter.set_rate(None), lambda limiter: limiter.close()):
        limiter = DirectLimiter(Held())
        limiter.set_rate(1.0)
        limiter.wait(10**6)
        thread, waited = waiting(limiter, 1)
        end(limiter)
        thread.join(5)
        assert waited
        assert limiter.wait(10**6) < 1


def test_no_sample_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_S", 0.05)
    limiter = DirectLimiter(Held())
    limiter.set_rate(0.0)
    assert 0.04 < limiter.wait(10) + limiter.wait(10) < 5
