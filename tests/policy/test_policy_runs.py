"""Merging scattered reads: what it may never do, and when it leaves things alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.policy.runs import Run, SeekCosts, merged, pieces

COSTS = SeekCosts(seek_s=0.01, bytes_per_s=1000.0, least_gain=1.0)
"""A gap of ten bytes costs as much as a seek."""

Samples = list[tuple[int, int, int]]
samples = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 200), st.integers(1, 30)), max_size=40
)


def merge(given_samples: Samples, costs: SeekCosts = COSTS) -> tuple[list[Run], list[np.ndarray]]:
    files, begins, lengths = (
        np.array([sample[place] for sample in given_samples], np.int64) for place in range(3)
    )
    return merged(files, begins, begins + lengths, costs), [files, begins, begins + lengths]


@settings(max_examples=200, deadline=None)
@given(samples)
def test_runs_hold_whole_samples_of_one_file_and_none_twice(given_samples: Samples) -> None:
    runs, (files, begins, ends) = merge(given_samples)
    members = [member for run in runs for member in run.members]
    assert len(members) == len(set(members))
    for run in runs:
        assert len(run.members) > 1
        for member in run.members:
            assert files[member] == run.file
            assert run.begin <= begins[member] < ends[member] <= run.end
    spans = sorted((run.file, run.begin, run.end) for run in runs)
    for before, after in itertools.pairwise(spans):
        assert before[0] != after[0] or after[1] - before[2] > COSTS.gap_bytes


@settings(max_examples=200, deadline=None)
@given(samples)
def test_no_run_takes_longer_than_its_samples_alone(given_samples: Samples) -> None:
    runs, (_, begins, ends) = merge(given_samples)
    for run in runs:
        own = list(run.members)
        alone = COSTS.time_of(len(own), int((ends - begins)[own].sum()))
        assert COSTS.time_of(1, len(run)) <= alone + 1e-9


@settings(max_examples=200, deadline=None)
@given(samples, st.integers(1, 60))
def test_pieces_hold_every_sample_of_a_run_and_no_more_bytes_than_they_may(
    given_samples: Samples, most: int
) -> None:
    runs, (_, begins, ends) = merge(given_samples)
    for run in runs:
        parts = list(pieces(run, begins, ends, most))
        assert [member for part in parts for member in part.members] == list(run.members)
        for part in parts:
            assert ends[part.members[-1]] - part.begin <= most or len(part.members) == 1


def test_a_short_gap_is_read_and_a_long_one_jumped_over() -> None:
    runs, _ = merge([(0, 0, 10), (0, 20, 10), (0, 41, 10), (0, 51, 10)])
    assert [(run.begin, run.end, run.members) for run in runs] == [
        (0, 30, (0, 1)),
        (41, 61, (2, 3)),
    ]


def test_samples_that_share_bytes_are_read_once() -> None:
    runs, _ = merge([(0, 0, 100), (0, 0, 100), (0, 0, 100)])
    assert [(len(run), run.members) for run in runs] == [(100, (0, 1, 2))]


def test_nothing_is_merged_for_a_gain_that_is_too_small() -> None:
    scattered: Samples = [(0, 0, 1000), (0, 1005, 1000)]
    assert merge(scattered)[0]
    careful = SeekCosts(seek_s=0.01, bytes_per_s=1000.0, least_gain=1.5)
    assert merge(scattered, careful)[0] == []
    assert merge([(0, 0, 10), (1, 0, 10)])[0] == []
    assert merge([])[0] == []


def test_a_medium_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="bytes_per_s"):
        SeekCosts(bytes_per_s=0)
