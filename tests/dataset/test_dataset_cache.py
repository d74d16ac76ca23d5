from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.dataset.cache import BoundedCache


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 9), max_size=60), st.integers(0, 30))
def test_it_never_keeps_more_than_its_bound_and_never_lies(keys: list[int], bound: int) -> None:
    cache: BoundedCache[int] = BoundedCache(bound, lambda value: value)
    for key in keys:
        assert cache.get(key, lambda key=key: key * 2) == key * 2
        assert cache.statistics().bytes <= bound
    assert cache.statistics().hits + cache.statistics().misses == len(keys)


def test_what_was_used_last_stays() -> None:
    cache: BoundedCache[str] = BoundedCache(2, len)
    for key in "abac":
        cache.get(key, lambda key=key: key)
    made: list[str] = []
    for key in "ac":
        cache.get(key, lambda key=key: made.append(key) or key)
    assert made == []


def test_an_error_reaches_everyone_who_waits_and_is_not_kept() -> None:
    cache: BoundedCache[int] = BoundedCache(10, lambda _: 1)
    making, fail = threading.Event(), threading.Event()

    def failing() -> int:
        making.set()
        assert fail.wait(10)
        raise OSError("no")

    errors: list[BaseException] = []

    def ask() -> None:
        try:
            cache.get("x", failing)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    threads[0].start()
    assert making.wait(10)
    for thread in threads[1:]:
        thread.start()
    fail.set()
    for thread in threads:
        thread.join(10)
    assert len(errors) == 3
    assert cache.get("x", lambda: 7) == 7


def test_errors_of_the_maker_pass() -> None:
    with pytest.raises(ZeroDivisionError):
        BoundedCache(1, lambda _: 1).get("x", lambda: 1 // 0)
