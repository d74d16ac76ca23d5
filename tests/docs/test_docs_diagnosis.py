"""The page about diagnoses: its example prints what it shows, its numbers are the thresholds."""

from __future__ import annotations

import re

import pytest
from docs_reader import REPOSITORY, Reader

from headrace.analysis.causes import Cause
from headrace.analysis.heat import BUSY
from headrace.analysis.rereads import HIT, MOST_READS
from headrace.analysis.thresholds import Thresholds
from headrace.analysis.windows import MOST_WINDOWS

TEXT = (REPOSITORY / "docs" / "diagnosis.md").read_text()


def test_the_example_prints_what_the_page_shows(
    reader: Reader, capsys: pytest.CaptureFixture[str]
) -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    reader.follow(TEXT)
    assert capsys.readouterr().out == shown


def test_the_page_names_every_cause() -> None:
    assert [cause for cause in Cause if f"`{cause}`" not in TEXT] == []


def test_the_numbers_of_the_page_are_those_that_decide() -> None:
    limits = Thresholds()
    told = {
        "lost_share": (limits.lost_share, 0.02, "2 % of the ranks' time"),
        "main_cause": (limits.main_cause, 0.5, "half of all that was lost"),
        "most_windows": (limits.most_windows, 256, "up to 256 windows"),
        "window_steps": (limits.window_steps, 3, "three steps"),
        "window_loads": (limits.window_loads, 2, "two loads"),
        "calm_loads": (limits.calm_loads, 0.2, "a fifth of the loads"),
        "standing": (limits.standing, 0.8, "less than 0.8"),
        "main_part": (limits.main_part, 0.5, "half of all at least"),
        "explained": (limits.explained, 0.5, "more than twice as long"),
        "round_trips": (limits.round_trips, 0.5, "half of a read's time"),
        "nominal_bytes_per_s": (limits.nominal_bytes_per_s, 10e6, "at 10 MB/s"),
        "remote_s": (limits.remote_s, 2e-4, "0.2 ms or more"),
        "slower": (limits.slower, 1.3, "1.3 times as long"),
        "fewer_hits": (limits.fewer_hits, 0.95, "less than 0.95"),
        "has_cache": (limits.has_cache, 0.3, "below 0.3"),
        "begun_steps": (limits.begun_steps, 3, "first three steps"),
        "slow_host": (limits.slow_host, 1.5, "1.5 times as long"),
        "slow_host_waits": (limits.slow_host_waits, 2, "wait twice as long"),
        "storm_ranks": (limits.storm_ranks, 4, "four or more"),
        "MOST_READS": (MOST_READS, 131_072, "131,072 reads"),
        "HIT": (HIT, 1 / 3, "a third of the first read"),
        "MOST_WINDOWS": (MOST_WINDOWS, 1024, "1,024 windows"),
        "BUSY": (BUSY, 0.2, "a fifth or more of the time"),
    }
    for name, (value, stated, words) in told.items():
        assert value == stated, name
        assert words in TEXT, name
