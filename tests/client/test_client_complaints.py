"""Warnings about trouble that many samples share."""

from __future__ import annotations

import logging

import pytest

from headrace.client.complaints import EVERY_S, Complaints
from headrace.core.clock import ManualClock


def test_the_first_of_each_kind_is_said_and_then_one_in_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    clock = ManualClock()
    complaints = Complaints(clock)
    for number in range(5):
        complaints.warn("unreadable", f"file {number}")
    complaints.warn("stale", "file 9")
    clock.advance(EVERY_S)
    complaints.warn("unreadable", "file 7")
    assert [record.getMessage() for record in caplog.records] == [
        "file 0",
        "file 9",
        "file 7 (and 4 more before)",
    ]


def test_a_name_in_a_warning_cannot_drive_the_terminal(caplog: pytest.LogCaptureFixture) -> None:
    Complaints(ManualClock()).warn("stale", "a\n\x1b[31m.jpg is gone")
    assert caplog.messages == ["a\ufffd\ufffd[31m.jpg is gone"]
