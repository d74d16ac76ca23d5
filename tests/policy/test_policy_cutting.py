"""The moving cut: what moves it, what must not, and that it comes to rest."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import Pipeline, ops
from headrace.core.errors import ConfigError
from headrace.policy.cutting import CuttingLimits, MovingCut, Seen
from headrace.transform.program import Program
from headrace.transform.split import KindProfile, plan_split

USUAL = Program(
    Pipeline(
        [
            ops.DecodeImage(),
            ops.RandomResizedCrop(224),
            ops.RandomHorizontalFlip(),
            ops.ToFloat(),
        ]
    )
)
PHOTO = KindProfile(kind="image", nbytes=50e3, width=640, height=480)
CROP_BYTES = 224 * 224 * 3
RAW, CROPPED, FLIPPED = ("image", 0), ("image", 2), ("image", 3)


def moving() -> MovingCut:
    plan = plan_split(USUAL, [PHOTO])
    assert plan.cuts == {"image": 3}
    return MovingCut(USUAL, plan, {"image": 3})


def round_at(cut: int, *, bandwidth: float = 0.0, busy: float | None = None) -> Seen:
    """Return a round of 32 samples at a cut, over a link that is waited for if it is thin."""
    seen = Seen(trainer_busy=busy)
    nbytes = CROP_BYTES if cut else int(PHOTO.nbytes)
    for _ in range(32):
        seen.shipped(("image", cut), nbytes, 2e-3 if cut else 0.0)
        seen.finished(("image", cut), 0.0 if cut == 3 else 2e-3)
    if bandwidth:
        seen.link_bytes = 32 * nbytes
        seen.link_s = seen.link_bytes / bandwidth
    return seen


def test_a_thin_link_moves_the_cut_to_the_smaller_file_and_a_thick_one_back() -> None:
    cut = moving()
    assert not cut.observe(round_at(3, bandwidth=5e6), now=0)
    assert not cut.observe(round_at(3, bandwidth=5e6), now=2)
    assert cut.observe(round_at(3, bandwidth=5e6), now=3)
    assert cut.cuts == {"image": 0}
    assert cut.bandwidth == pytest.approx(5e6)
    for now in range(4, 30):
        cut.observe(round_at(0, bandwidth=1e9), now=now)
    assert cut.cuts == {"image": 3}


def test_a_link_that_nobody_waits_for_moves_nothing() -> None:
    cut = moving()
    for now in range(30):
        assert not cut.observe(round_at(3), now=now)
    assert cut.bandwidth is None


def test_a_link_on_which_little_comes_in_a_round_is_measured_over_several() -> None:
    cut, seen = moving(), Seen(link_bytes=1e5, link_s=1.0)
    known = [cut.observe(seen, now=now) or cut.bandwidth for now in range(3)]
    assert known == [None, None, pytest.approx(1e5)]


def test_bytes_that_come_at_once_for_a_while_tell_of_a_faster_link() -> None:
    cut = moving()
    cut.observe(round_at(3, bandwidth=5e6), now=0)
    for now, carried, known in ((1, 6e6, 5e6), (2, 8e7, 5e6), (4, 8e7, 5e6), (5, 8e7, 8e7)):
        seen = round_at(0)
        seen.carried = carried
        cut.observe(seen, now=now)
        assert cut.bandwidth == pytest.approx(known)


def test_a_shaper_that_lets_short_answers_through_is_believed_less_each_time() -> None:
    """Raw files come at once, crops do not: to the eye a link that is fast, then thin again."""
    cut, moves = moving(), []
    for now in range(3000):
        at = cut.cuts["image"]
        seen = round_at(at, bandwidth=5e6 if at else 0)
        seen.carried = 0.0 if at else 1e9
        if cut.observe(seen, now=now):
            moves.append(now)
    gaps = [after - before for before, after in itertools.pairwise(moves[::2])]
    assert len(moves) < 20
    assert gaps[-1] > 10 * gaps[0]


def test_a_thin_moment_moves_nothing() -> None:
    cut = moving()
    cut.observe(round_at(3, bandwidth=5e6), now=0)
    for now in range(1, 20):
        assert not cut.observe(round_at(3, bandwidth=1e9), now=now)


def test_ops_that_only_make_bytes_larger_are_never_shipped() -> None:
    costs = moving().costs("image")
    assert [cost.cut for cost in costs] == [0, 2, 3]


def test_a_trainer_with_idle_cpus_takes_work_back_from_storage_that_others_need() -> None:
    cut = moving()
    for now in range(30):
        seen = round_at(cut.cuts["image"], busy=0.0)
        seen.storage_spare = 1 / 16
        cut.observe(seen, now=now)
    assert cut.cuts == {"image": 0}
    for now in range(30, 90):
        cut.observe(round_at(cut.cuts["image"], busy=1.0), now=now)
    assert cut.cuts == {"image": 3}


def test_few_samples_tell_nothing() -> None:
    cut = moving()
    few = Seen(link_bytes=1e6, link_s=1.0)
    for _ in range(3):
        few.shipped(FLIPPED, CROP_BYTES, 1e-3)
    for now in range(9):
        assert not cut.observe(few, now=now)
    assert not any(cost.measured for cost in cut.costs("image"))


def test_what_was_measured_stays_known_where_the_cut_left() -> None:
    cut = moving()
    for now in range(4):
        cut.observe(round_at(3, bandwidth=5e6), now=now)
    cut.observe(round_at(0, bandwidth=5e6), now=4)
    raw, _, flipped = cut.costs("image")
    assert (raw.measured, flipped.measured) == (True, True)
    assert flipped.wire_bytes == CROP_BYTES
    assert flipped.storage_s == pytest.approx(2e-3)


positive = st.floats(1e-5, 1e-1)
lengths = st.integers(1_000, 10_000_000)


@given(
    storage=st.tuples(positive, positive),
    trainer=st.tuples(positive, positive),
    nbytes=st.tuples(lengths, lengths, lengths),
    bandwidth=st.floats(1e6, 1e10),
    busy=st.floats(0, 1),
    spare=st.floats(1 / 16, 1),
)
def test_under_constant_conditions_it_comes_to_rest(
    storage: tuple[float, float],
    trainer: tuple[float, float],
    nbytes: tuple[int, int, int],
    bandwidth: float,
    busy: float,
    spare: float,
) -> None:
    """Whatever truth is behind the measurements: three cuts, so few moves, and none later."""
    cut, moves = moving(), []
    places = {0: 0, 2: 1, 3: 2}
    on_storage = (0.0, storage[0], sum(storage))
    on_trainer = (sum(trainer), trainer[1], 0.0)
    for now in range(200):
        place = places[cut.cuts["image"]]
        seen = Seen(trainer_busy=busy, storage_spare=spare)
        cell = ("image", cut.cuts["image"])
        for _ in range(16):
            seen.shipped(cell, nbytes[place], on_storage[place])
            seen.finished(cell, on_trainer[place])
        seen.link_bytes = max(16 * nbytes[place], 1 << 18)
        seen.link_s = seen.link_bytes / bandwidth
        if cut.observe(seen, now=now):
            moves.append(now)
    assert len(moves) <= 6
    assert not [now for now in moves if now > 100]


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"cutting\.margin=1"):
        CuttingLimits(margin=1)
