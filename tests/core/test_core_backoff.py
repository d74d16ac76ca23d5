"""Pauses before what failed is tried again."""

from __future__ import annotations

import pytest

from headrace.core.backoff import Backoff


def test_pauses_double_up_to_the_longest_and_are_shortened_by_half_at_most() -> None:
    backoff = Backoff(first_s=0.5, longest_s=5.0)
    longest = [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    for pause, most in zip((backoff.failed() for _ in longest), longest, strict=True):
        assert most / 2 <= pause <= most


def test_no_two_that_fail_at_once_come_back_at_once() -> None:
    pauses = {Backoff(first_s=1.0, longest_s=1.0).failed() for _ in range(100)}
    assert len(pauses) > 90
    assert max(pauses) - min(pauses) > 0.3


def test_a_success_begins_a_new_row() -> None:
    backoff = Backoff(first_s=0.5, longest_s=30.0)
    for _ in range(10_000):
        pause = backoff.failed()
    assert 15.0 <= pause <= 30.0
    assert backoff.failures == 10_000
    backoff.succeeded()
    assert backoff.failures == 0
    assert backoff.failed() == pytest.approx(0.375, abs=0.125)
