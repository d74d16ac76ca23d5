"""A diagnosis is scored by episodes, and false alarms count."""

from __future__ import annotations

from headrace.policy.reservation.events import Mode
from headrace.sim.confusion import (
    AFTERMATH_S,
    Confusion,
    Statement,
    Stretch,
    confusion,
    together,
)


def _episode(mode: Mode, begin_s: float, end_s: float, *, hurt: bool = True) -> Stretch:
    return Stretch(job="a", mode=mode, begin_s=begin_s, end_s=end_s, hurt=hurt)


def _said(*said: tuple[float, Mode]) -> list[Statement]:
    return [Statement(job="a", mode=mode, at_s=at_s) for at_s, mode in said]


def _found(episodes: list[Stretch], statements: list[Statement]) -> Confusion:
    return confusion(episodes, statements, until_s=1000.0)


def test_an_episode_that_is_named_right_is_right() -> None:
    found = _found([_episode("thrash", 100, 200)], _said((110, "thrash"), (190, "none")))
    assert found.counts["thrash"]["thrash"] == 1
    assert found.scores["thrash"].precision == found.scores["thrash"].recall == 1.0


def test_the_cause_named_longest_is_what_was_said() -> None:
    said = _said((100, "cold-start"), (110, "thrash"), (190, "none"))
    found = _found([_episode("thrash", 100, 200)], said)
    assert found.counts["thrash"]["thrash"] == 1
    assert found.counts["none"] == dict.fromkeys(found.counts["none"], 0)


def test_an_episode_that_hurt_and_was_not_named_lowers_recall() -> None:
    found = _found([_episode("congestion", 100, 200)], [])
    assert found.counts["congestion"]["none"] == 1
    assert found.scores["congestion"].recall == 0.0


def test_an_episode_that_hurt_nobody_need_not_be_named() -> None:
    found = _found([_episode("congestion", 100, 200, hurt=False)], [])
    assert found.scores["congestion"].episodes == 0


def test_a_cause_named_where_nothing_was_wrong_is_a_false_alarm() -> None:
    found = _found([_episode("thrash", 100, 200)], _said((500, "thrash"), (510, "none")))
    assert found.counts["none"]["thrash"] == 1
    assert found.scores["thrash"].precision == 0.0


def test_a_cause_may_be_named_shortly_after_its_episode() -> None:
    said = _said((200 + AFTERMATH_S / 2, "thrash"), (300, "none"))
    assert _found([_episode("thrash", 100, 200)], said).counts["thrash"]["thrash"] == 1


def test_how_long_an_episode_may_be_named_after_its_end_can_be_said() -> None:
    said = _said((206, "thrash"), (300, "none"))
    episode = [_episode("thrash", 100, 200)]
    for aftermath_s, right in ((5.0, 0), (8.0, 1)):
        found = confusion(episode, said, until_s=1000.0, aftermath_s=aftermath_s)
        assert found.counts["thrash"]["thrash"] == right


def test_several_runs_are_scored_as_one() -> None:
    episode = [_episode("thrash", 100, 200)]
    right, missed = (_found(episode, said) for said in (_said((110, "thrash"), (190, "none")), []))
    found = together([right, missed, missed, missed])
    assert found.counts["thrash"]["none"] == 3
    assert found.scores["thrash"].recall == 0.25
    assert together([right]) == right


def test_a_statement_holds_until_the_end_of_the_run() -> None:
    assert (
        _found([_episode("thrash", 900, 1000)], _said((950, "thrash"))).scores["thrash"].recall
        == 1.0
    )


def test_where_two_things_are_wrong_each_is_right_to_name() -> None:
    both = [_episode("congestion", 100, 200), _episode("thrash", 150, 300)]
    found = _found(both, _said((150, "thrash"), (250, "none")))
    assert found.counts["congestion"]["congestion"] == found.counts["thrash"]["thrash"] == 1
    apart = [_episode("congestion", 100, 200), _episode("thrash", 600, 700)]
    found = _found(apart, _said((150, "thrash"), (250, "none"), (600, "thrash")))
    assert found.counts["congestion"]["thrash"] == found.counts["thrash"]["thrash"] == 1


def test_what_is_said_before_all_have_settled_is_no_false_alarm() -> None:
    said = _said((10, "cold-start"), (20, "none"), (60, "thrash"), (70, "none"))
    found = confusion([], said, from_s=50.0, until_s=1000.0)
    assert found.counts["none"]["cold-start"] == 0
    assert found.counts["none"]["thrash"] == 1


def test_jobs_are_not_mixed_up() -> None:
    other = Statement(job="b", mode="thrash", at_s=110)
    found = _found([_episode("thrash", 100, 200)], [other])
    assert found.counts["thrash"]["none"] == 1
    assert found.counts["none"]["thrash"] == 1
