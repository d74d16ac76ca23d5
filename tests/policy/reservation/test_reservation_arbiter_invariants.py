"""What holds for the arbiter whatever happens: checked by ``Books`` after every action."""

from __future__ import annotations

from arbiter_books import Books, report
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.policy.reservation.events import (
    BurstAnnounced,
    BurstEnded,
    Event,
    JobJoined,
    JobLeft,
    Tick,
    TierChanged,
)
from headrace.policy.reservation.limits import ReservationLimits

JOBS = st.sampled_from(["a", "b", "c", "d"])
TIERS = st.sampled_from(["ssd", "hdd", "wan"])
MEDIA = {"ssd": "ssd", "hdd": "hdd", "wan": "link"}
SHARE = st.floats(0.0, 1.0)
BYTES = st.floats(1e3, 1e12)

SPLITS = st.builds(
    lambda part, far: {"ssd": part, "hdd": 1.0 - part, **({"wan": 1.0} if far else {})},
    SHARE,
    st.booleans(),
)
REPORTS = st.builds(
    report,
    JOBS,
    st.integers(0, 40),
    host=st.sampled_from(["h0", "h1"]),
    depth=st.floats(0.0, 8.0),
    nbytes=BYTES,
    step_s=st.floats(0.1, 30.0),
    split=SPLITS,
    wait_s=st.floats(0.0, 30.0),
    queue_share=SHARE,
    throttled_share=SHARE,
    hit_rate=SHARE,
    transform_share=SHARE,
)
JOINS = st.builds(
    JobJoined,
    job=JOBS,
    weight=st.floats(0.1, 10.0),
    guaranteed=st.dictionaries(TIERS, st.floats(0.0, 1e9), max_size=2),
    hosts=st.integers(1, 2),
    step_time_s=st.floats(0.0, 10.0),
    begins_in_s=st.floats(0.0, 100.0),
    upcoming_bytes=st.lists(BYTES, max_size=3).map(tuple),
)
CHANGES = st.builds(
    lambda tier, rate: TierChanged(tier=tier, media=MEDIA[tier], bytes_per_s=rate),  # type: ignore[arg-type]
    TIERS,
    st.floats(1e6, 1e10),
)
BURSTS = st.builds(
    BurstAnnounced,
    job=JOBS,
    burst=st.sampled_from(["s1", "s2"]),
    tier=TIERS,
    nbytes=BYTES,
    deadline_s=st.floats(0.0, 100.0),
    urgent=st.booleans(),
)
EVENTS = st.one_of(
    REPORTS,
    REPORTS,
    REPORTS,
    JOINS,
    CHANGES,
    BURSTS,
    st.builds(JobLeft, job=JOBS),
    st.builds(BurstEnded, job=JOBS, burst=st.sampled_from(["s1", "s2"])),
    st.just(Tick()),
)
HISTORIES = st.lists(st.tuples(EVENTS, st.floats(0.0, 5.0)), max_size=40)


def started(*, predictive: bool) -> Books:
    """Return books of three tiers and four jobs."""
    books = Books(ReservationLimits(predictive=predictive))
    for tier, media in MEDIA.items():
        books.tell(TierChanged(tier=tier, media=media, bytes_per_s=1e9))  # type: ignore[arg-type]
    for job in "abcd":
        books.tell(JobJoined(job=job))
    return books


def live(books: Books, history: list[tuple[Event, float]]) -> None:
    """Tell a history; bursts of jobs that left are not told of."""
    for event, passed in history:
        books.tell(event, now=books.now + passed)


@settings(max_examples=60, deadline=None)
@given(HISTORIES, st.booleans())
def test_no_tier_is_ever_overdrawn_and_no_loan_outlives_its_timer(
    history: list[tuple[Event, float]], predictive: bool
) -> None:
    live(started(predictive=predictive), history)


@settings(max_examples=15, deadline=None)
@given(HISTORIES)
def test_the_same_events_lead_to_the_same_actions(history: list[tuple[Event, float]]) -> None:
    one, other = started(predictive=True), started(predictive=True)
    live(one, history)
    live(other, history)
    assert one.actions == other.actions


@settings(max_examples=30, deadline=None)
@given(HISTORIES)
def test_bandwidth_is_given_out_while_there_are_jobs(history: list[tuple[Event, float]]) -> None:
    books = started(predictive=True)
    live(books, history)
    for _ in range(5):
        books.tell(Tick(), now=books.now + 20.0)
    jobs = books.arbiter.snapshot().jobs
    for name, tier in books.arbiter.snapshot().tiers.items():
        if jobs:
            assert books.given(name) >= 0.89 * tier.nominal


@settings(max_examples=30, deadline=None)
@given(st.floats(0.0, 8.0), st.floats(0.0, 8.0), st.floats(1e6, 1e9))
def test_of_two_equal_jobs_the_one_with_the_emptier_queue_never_has_less(
    one: float, other: float, nbytes: float
) -> None:
    books = Books()
    books.tell(TierChanged(tier="ssd", media="ssd", bytes_per_s=0.3e9))
    for job in "ab":
        books.tell(JobJoined(job=job))
    for iteration in range(8):
        for job, depth in (("a", one), ("b", other)):
            books.tell(report(job, iteration, depth=depth, nbytes=nbytes), now=2.0 * iteration)
    books.tell(Tick(), now=16.0)  # the division before knew the newest report of one of them only
    worse, better = ("a", "b") if one < other else ("b", "a")
    floor = books.limits.tolerance * books.capacity["ssd"]
    lacks = books.arbiter.snapshot().jobs[worse].tiers["ssd"].asked > books.quota(worse)
    assert not lacks or books.quota(worse) >= books.quota(better) - floor
