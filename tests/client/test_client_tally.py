"""When a host's report is due, and whom it holds."""

from __future__ import annotations

from test_client_figures import figures

from headrace.client.reporting.tally import FORGOTTEN_S, PATIENCE_S, Tally


def test_one_rank_alone_is_reported_at_once() -> None:
    tally = Tally()
    assert tally.due_in(0.0) is None
    tally.add("a", figures(), 0.0)
    assert tally.due_in(0.0) == 0.0
    assert tally.take(0.0).ranks == 1
    assert tally.due_in(0.0) is None


def test_the_first_report_waits_for_all_ranks_of_the_host() -> None:
    tally = Tally(expected=2)
    tally.add("a", figures(), 0.0)
    assert tally.due_in(0.1) == PATIENCE_S - 0.1
    tally.add("b", figures(), 0.2)
    assert tally.due_in(0.2) == 0.0
    assert tally.take(0.2).ranks == 2


def test_a_rank_that_does_not_speak_is_waited_for_so_long_and_no_longer() -> None:
    tally = Tally()
    tally.add("a", figures(), 0.0)
    tally.add("b", figures(), 0.0)
    tally.take(0.0)
    tally.add("a", figures(), 1.0)
    assert tally.due_in(1.1) == 1.0 + PATIENCE_S - 1.1
    assert tally.due_in(1.0 + PATIENCE_S) == 0.0
    assert tally.take(2.0).ranks == 1
    assert tally.ranks == 2


def test_a_report_waits_for_its_host_s_turn_among_the_job_s() -> None:
    tally = Tally()
    tally.delay_s = 0.25
    tally.add("a", figures(), 1.0)
    assert tally.due_in(1.0) == 0.25
    assert tally.due_in(1.25) == 0.0


def test_a_rank_that_left_is_not_waited_for() -> None:
    tally = Tally()
    tally.add("a", figures(), 0.0)
    tally.add("b", figures(), 0.0)
    tally.take(0.0)
    tally.remove("b")
    tally.add("a", figures(), 1.0)
    assert tally.due_in(1.0) == 0.0
    assert tally.ranks == 1


def test_a_rank_that_fell_silent_is_forgotten() -> None:
    tally = Tally()
    tally.add("a", figures(), 0.0)
    tally.add("b", figures(), 0.0)
    tally.take(0.0)
    tally.add("a", figures(), FORGOTTEN_S + 1)
    tally.take(FORGOTTEN_S + 1)
    assert tally.names == ("a",)


def test_a_rank_that_speaks_twice_counts_once_with_all_its_bytes() -> None:
    tally = Tally(expected=2)
    tally.add("a", figures(direct_bytes=1), 0.0)
    tally.add("a", figures(direct_bytes=2, iteration=6), 0.1)
    whole = tally.take(PATIENCE_S)
    assert whole.ranks == 1
    assert (whole.figures.direct_bytes, whole.figures.iteration) == (3, 6)
