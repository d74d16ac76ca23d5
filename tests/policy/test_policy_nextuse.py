"""The clairvoyant cache against the best that can be done, and against the usual."""

from __future__ import annotations

import time
from collections import OrderedDict
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.policy.nextuse import NextUseCache, Use

NEVER = 1 << 40


def by_step(use: Use) -> float:
    return float(use.step)


def next_use(trace: list[int], at: int) -> int | None:
    later = (i for i in range(at + 1, len(trace)) if trace[i] == trace[at])
    return next(later, None)


def hits(trace: list[int], room: int) -> int:
    """Play a trace of equally large keys against the cache; return how often it had the key."""
    kept: NextUseCache[int] = NextUseCache(room, by_step)
    count = 0
    for at, key in enumerate(trace):
        step = next_use(trace, at)
        if key in kept:
            count += 1
            kept.move(key, None if step is None else Use("job", step))
        elif step is not None:
            kept.offer(key, 1, Use("job", step))
        assert len(kept) <= room
        assert kept.used == len(kept)
    return count


def most_hits(trace: list[int], room: int) -> int:
    """Try every choice that any cache could make."""

    @cache
    def best(at: int, kept: frozenset[int]) -> int:
        if at == len(trace):
            return 0
        key = trace[at]
        choices = [kept] if key in kept or room == 0 else [kept, *grown(kept, key)]
        return (key in kept) + max(best(at + 1, choice) for choice in choices)

    def grown(kept: frozenset[int], key: int) -> list[frozenset[int]]:
        if len(kept) < room:
            return [kept | {key}]
        return [kept - {victim} | {key} for victim in kept]

    return best(0, frozenset())


def lru_hits(trace: list[int], room: int) -> int:
    kept: OrderedDict[int, None] = OrderedDict()
    count = 0
    for key in trace:
        count += key in kept
        kept[key] = None
        kept.move_to_end(key)
        if len(kept) > room:
            kept.popitem(last=False)
    return count


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=12), st.integers(0, 4))
def test_no_choice_of_any_cache_hits_more_often(trace: list[int], room: int) -> None:
    assert hits(trace, room) == most_hits(trace, room)


def hits_of_jobs(trace: list[tuple[str, int]], room: int) -> int:
    """Play visits of several jobs, each of which counts its own steps; return the hits."""
    at: dict[Use, float] = {}
    visits: list[Use] = []
    for time_s, (job, _) in enumerate(trace):
        use = Use(job, sum(other == job for other, _ in trace[:time_s]))
        at[use] = float(time_s)
        visits.append(use)
    kept: NextUseCache[int] = NextUseCache(room, lambda use: at[use])
    count, keys = 0, [key for _, key in trace]
    for time_s, key in enumerate(keys):
        following = next_use(keys, time_s)
        use_then = None if following is None else visits[following]
        if key in kept:
            count += 1
            kept.move(key, use_then)
        elif use_then is not None:
            kept.offer(key, 1, use_then)
        assert len(kept) <= room
    return count


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), max_size=12), st.integers(0, 4)
)
def test_nor_does_one_over_the_visits_of_several_jobs(
    trace: list[tuple[str, int]], room: int
) -> None:
    assert hits_of_jobs(trace, room) == most_hits([key for _, key in trace], room)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 12), st.integers(1, 11), st.integers(2, 6))
def test_a_loop_over_more_than_fits_keeps_what_fits(keys: int, room: int, rounds: int) -> None:
    trace = list(range(keys)) * rounds
    usable = min(room, keys)
    assert hits(trace, room) >= (usable - 1) * (rounds - 1) or usable == keys
    if room < keys:
        assert lru_hits(trace, room) == 0  # what is avoided here
    assert hits(trace, room) >= lru_hits(trace, room)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 9), st.sampled_from("ab"), st.integers(0, 99)),
        max_size=60,
    )
)
def test_the_budget_holds_for_keys_of_any_size(offers: list[tuple[int, int, str, int]]) -> None:
    kept: NextUseCache[int] = NextUseCache(20, by_step)
    sizes: dict[int, int] = {}
    for key, nbytes, job, step in offers:
        if key in kept:
            kept.move(key, Use(job, step))
            continue
        went = kept.offer(key, nbytes, Use(job, step))
        if went is not None:
            sizes[key] = nbytes
            for gone in went:
                del sizes[gone]
        assert kept.used == sum(sizes.values()) <= kept.budget
        assert all(key in kept for key in sizes)


def test_what_is_needed_last_goes_first_and_only_for_what_is_needed_sooner() -> None:
    kept: NextUseCache[str] = NextUseCache(2, by_step)
    kept.offer("far", 1, Use("job", 90))
    kept.offer("near", 1, Use("job", 10))
    assert kept.offer("later", 1, Use("job", 95)) is None
    assert kept.offer("sooner", 1, Use("job", 20)) == ["far"]
    assert kept.offer("same", 1, Use("job", 20)) is None


def test_nothing_goes_for_a_key_that_does_not_fit_in_the_end() -> None:
    kept: NextUseCache[str] = NextUseCache(3, by_step)
    kept.offer("far", 1, Use("job", 90))
    kept.offer("near", 2, Use("job", 10))
    assert kept.offer("large", 3, Use("job", 50)) is None
    assert "far" in kept
    assert "near" in kept
    assert kept.offer("larger than all", 4, Use("job", 1)) is None


def test_jobs_are_compared_by_time_and_each_keeps_its_own_order_when_its_pace_changes() -> None:
    pace = {"slow": 10.0, "fast": 1.0}
    kept: NextUseCache[str] = NextUseCache(2, lambda use: use.step * pace[use.job])
    kept.offer("of the slow", 1, Use("slow", 5))
    kept.offer("of the fast", 1, Use("fast", 20))
    assert kept.offer("a", 1, Use("fast", 30)) == ["of the slow"]
    pace["fast"] = 0.001
    assert kept.offer("b", 1, Use("fast", 25)) == ["a"]


def test_what_is_never_needed_again_goes_before_all_others() -> None:
    kept: NextUseCache[str] = NextUseCache(2, by_step)
    kept.offer("far", 1, Use("job", 900))
    kept.offer("over", 1, Use("job", 1))
    kept.move("over", None)
    assert kept.offer("new", 1, Use("job", 950)) == ["over"]


def test_uses_of_a_job_that_is_gone_count_as_never() -> None:
    gone = {"job": False}
    kept: NextUseCache[str] = NextUseCache(
        1, lambda use: float("inf") if gone["job"] and use.job == "job" else float(use.step)
    )
    kept.offer("old", 1, Use("job", 3))
    gone["job"] = True
    assert kept.offer("new", 1, Use("other", 700)) == ["old"]


def test_keys_can_be_listed_by_job_and_removed() -> None:
    kept: NextUseCache[str] = NextUseCache(4, by_step)
    kept.offer("x", 1, Use("a", 3))
    kept.offer("y", 1, Use("b", 3))
    assert kept.kept_for("a") == ["x"]
    kept.remove("x")
    assert (kept.used, kept.kept_for("a")) == (1, [])
    with pytest.raises(KeyError):
        kept.remove("x")
    with pytest.raises(ConfigError, match="kept already"):
        kept.offer("y", 1, Use("b", 9))


def test_rotating_comes_to_every_key() -> None:
    kept: NextUseCache[str] = NextUseCache(3, by_step)
    for step, key in enumerate("xyz"):
        kept.offer(key, 1, Use("a", step))
    kept.move("x", None)
    seen = kept.rotate(2) + kept.rotate(1)
    assert seen == [("y", Use("a", 1)), ("z", Use("a", 2)), ("x", None)]
    assert kept.rotate(9)[0][0] == "y"


def test_an_access_costs_microseconds() -> None:
    kept: NextUseCache[int] = NextUseCache(20_000, by_step)
    begin = time.thread_time()
    for access in range(100_000):
        key = access * 7919 % 40_000
        use = Use("job", access + 40_000)
        if key in kept:
            kept.move(key, use)
        else:
            kept.offer(key, 1, use)
    assert (time.thread_time() - begin) / 100_000 < 50e-6
