"""Traces and models that nobody meant are fitted, refused or made into traces, never crash."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.analysis.workload.distributions import (
    LEVELS,
    Constant,
    Curve,
    Distribution,
    Gamma,
    Lognormal,
    Mixture,
    Quantiles,
)
from headrace.analysis.workload.families import choose_family
from headrace.analysis.workload.fitting import fit_model
from headrace.analysis.workload.model import (
    Linked,
    Load,
    Model,
    Quantity,
    Requests,
    Transfer,
    find_model,
)
from headrace.analysis.workload.synthesis import Synthesis
from headrace.core.errors import CallerError, ConfigError
from headrace.report.toml import parse_toml, toml_text
from headrace.trace.events import Event, Kind, Phase, batch_of
from headrace.trace.importer import BATCH_EVENTS

NUMBERS = st.one_of(st.none(), st.integers(0, 5), st.integers(0, 2**62))
EVENTS = st.builds(
    Event,
    kind=st.sampled_from([*Kind, "no kind"]),
    begin_ns=st.one_of(st.integers(-(10**9), 10**9), st.integers(-(2**62), 2**62)),
    duration_ns=st.one_of(NUMBERS, st.integers(-5, 10**12)),
    job=st.sampled_from([None, "a"]),
    host=st.sampled_from([None, "h", "", "\n"]),
    rank=NUMBERS,
    pid=NUMBERS,
    phase=st.sampled_from([None, *Phase, "no phase"]),
    step=st.one_of(st.none(), st.integers(-2, 1000), st.integers(-2, 2**62)),
    epoch=NUMBERS,
    sample=st.sampled_from([None, "s", ""]),
    file=st.sampled_from([None, "f", "", "a.tar"]),
    bytes=NUMBERS,
    is_write=st.sampled_from([None, True, False]),
    count=st.sampled_from([None, 0, 1, 7]),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(EVENTS, max_size=12), max_size=3))
def test_any_events_are_fitted_or_refused(batches: list[list[Event]]) -> None:
    try:
        model = fit_model(lambda: map(batch_of, batches), job="a").model
    except CallerError as error:
        assert "neither steps nor loads" in str(error)
        return
    again = parse_toml(toml_text(model), Model, source="fitted")
    assert (again.ranks, again.steps) == (model.ranks, model.steps)


POSITIVE = st.floats(1e-9, 1e12)
LOGNORMALS = st.builds(Lognormal, mean=POSITIVE, sigma=st.floats(0, 5))
FAMILIES = st.one_of(
    st.builds(Constant, mean=st.floats(0, 1e12)),
    LOGNORMALS,
    st.builds(Gamma, mean=POSITIVE, shape=st.floats(0.05, 1e4)),
    st.builds(Mixture, weight=st.floats(0, 1), first=LOGNORMALS, second=LOGNORMALS),
    st.lists(st.floats(0, 1e12), min_size=len(LEVELS), max_size=len(LEVELS)).map(
        lambda values: Quantiles(values=tuple(sorted(values)))
    ),
)


@settings(max_examples=100, deadline=None)
@given(FAMILIES, st.sampled_from([0.0, 0.3, 1.0]))
def test_every_family_has_quantiles_that_its_levels_give_back(
    family: Distribution, zero_share: float
) -> None:
    values = Curve(family, zero_share)(np.linspace(-4, 4, 50))
    assert np.isfinite(values).all() and (values >= 0).all()
    assert (np.diff(values) >= -1e-9 * values[1:]).all()
    levels = np.array([0.05, 0.3, 0.5, 0.7, 0.95])
    found = family.levels(family.quantiles(levels) * 1.05)  # a cell of a mixture's table
    assert (found >= levels - 0.01).all()
    assert family.scaled(3.0).average() == pytest.approx(3 * family.average())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 2**62), min_size=1, max_size=200))
def test_a_family_is_chosen_for_any_values_and_has_their_mean(found: list[int]) -> None:
    values, times = np.unique(np.array(found, np.float64), return_counts=True)
    family = choose_family(values, times)
    mean = float(values @ times) / times.sum()
    error = 2 * math.sqrt(float(np.average((values - mean) ** 2, weights=times)) / times.sum())
    assert family.average() == pytest.approx(mean, rel=0.021, abs=error)


def test_families_are_told_from_samples_of_them() -> None:
    levels = (np.arange(5000) + 0.5) / 5000
    meant = [
        Constant(mean=4.0),
        Lognormal(mean=4.0, sigma=0.8),
        Gamma(mean=4.0, shape=0.8),
        Mixture(
            weight=0.8, first=Lognormal(mean=1, sigma=0.1), second=Lognormal(mean=90, sigma=0.3)
        ),
        Quantiles(values=tuple(float(k**3) + 1 for k in range(len(LEVELS)))),
    ]
    for family in meant:
        values, times = np.unique(family.quantiles(levels), return_counts=True)
        assert type(choose_family(values, times)) is type(family)


def test_quantiles_keep_the_mean_where_values_leap() -> None:
    values, times = np.array([8.0, 80, 512, 1.5e8, 1.6e8]), np.array([45, 3, 41, 9, 2])
    family = choose_family(values, times)
    assert isinstance(family, Quantiles)
    assert family.average() == pytest.approx(float(values @ times) / times.sum(), rel=1e-6)
    found = family.quantiles(np.array([0.1, 0.4, 0.6, 0.8, 0.95, 1.0]))
    assert found == pytest.approx([8, 8, 512, 512, 1.5e8, 1.6e8])
    drawn = family.quantiles(np.linspace(0, 1, 10_001))
    assert not ((drawn > 600) & (drawn < 1e8)).any()
    assert drawn.mean() == pytest.approx(family.average(), rel=0.01)
    at = np.array([7.0, 8.0, 512, 1e6, 1.6e8])
    assert family.levels(at) == pytest.approx([0, 0.45, 0.89, 0.89, 1], abs=0.03)


def test_means_that_do_not_belong_to_quantiles_are_refused() -> None:
    values = tuple(float(k) for k in range(len(LEVELS)))
    with pytest.raises(ConfigError, match="have 20 means, or none"):
        Quantiles(values=values, means=(0.5,))
    with pytest.raises(ConfigError, match="the mean 7 is not between 0 and 1"):
        Quantiles(values=values, means=(7.0, *(k + 0.5 for k in range(1, 20))))
    with pytest.raises(ConfigError, match="must rise"):
        Quantiles(values=values[::-1])


SMALL = Model(
    version=1,
    name="small",
    ranks=5,
    ranks_per_host=2,
    steps=7,
    step=Quantity(distribution=Constant(mean=1.0)),
)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"steps_per_epoch": 3},
        {"wait": Quantity(distribution=Constant(mean=0.0), zero_share=1.0)},
        {"wait": Quantity(distribution=Constant(mean=9.0))},
        {"load": Load(seconds=Quantity(distribution=Constant(mean=50.0)), per_step=0.1)},
        {
            "load": Load(
                seconds=Quantity(distribution=Constant(mean=0.1)), unit="sample", per_step=3
            )
        },
        {"requests": Requests(per_step=2.5, seconds=Linked(distribution=Constant(mean=0.1)))},
        {"checkpoint_read": Transfer(seconds=Quantity(distribution=Constant(mean=2.0)))},
        {
            "checkpoint_save": Transfer(
                seconds=Quantity(distribution=Constant(mean=2.0)), period_steps=100
            )
        },
        {
            "logits_write": Transfer(
                seconds=Quantity(distribution=Constant(mean=5.0)), period_steps=1, blocks=False
            )
        },
    ],
)
def test_any_part_of_a_model_may_be_missing(changed: dict[str, object]) -> None:
    model = msgspec.structs.replace(SMALL, **changed)
    rows = [row for batch in Synthesis(model).batches() for row in batch.to_pylist()]
    steps = [row for row in rows if row["kind"] == "step"]
    assert {(row["rank"], row["step"]) for row in steps} == {
        (rank, step) for rank in range(5) for step in range(7)
    }
    waits = [row["duration_ns"] for row in rows if row["kind"] == "wait"]
    assert all(wait <= 10**9 for wait in waits)
    found = fit_model(lambda: Synthesis(model).batches()).model
    assert (found.ranks, found.steps, found.ranks_per_host) == (5, 7, 2)
    assert found.steps_per_epoch == model.steps_per_epoch


def test_fewer_ranks_or_steps_are_part_of_more_where_hosts_do_not_differ() -> None:
    def rows(**size: int) -> set[tuple[object, ...]]:
        return {
            (row["kind"], row["rank"], row["step"], row["duration_ns"])
            for batch in Synthesis(model, **size).batches()
            for row in batch.to_pylist()
        }

    spread = Quantity(distribution=Lognormal(mean=1.0, sigma=0.5), step_share=0.3)
    model = msgspec.structs.replace(SMALL, step=spread, load=Load(seconds=spread))
    assert rows(ranks=3, steps=4) < rows(ranks=6, steps=9)


def test_steps_of_a_trace_in_bounded_blocks_do_not_overlap_on_a_rank() -> None:
    spread = Quantity(distribution=Lognormal(mean=1.0, sigma=0.5))
    model = msgspec.structs.replace(SMALL, step=spread, steps=200)
    ends: dict[int, int] = {}
    for batch in Synthesis(model).batches():
        for row in batch.to_pylist():
            assert row["begin_ns"] >= ends.get(row["rank"], 0)
            ends[row["rank"]] = row["begin_ns"] + row["duration_ns"]


def test_no_batch_is_larger_than_others_make_them_however_many_ranks_there_are() -> None:
    model = find_model("MM-L")
    sizes = [batch.num_rows for batch in Synthesis(model, ranks=20_000, steps=2).batches()]
    assert max(sizes) <= BATCH_EVENTS
    assert sum(sizes) >= 20_000 * 2 * 7


@pytest.mark.parametrize("mean", [1e300, 1e10, 1e9])
def test_a_model_of_times_that_no_trace_has_room_for_is_refused(mean: float) -> None:
    model = msgspec.structs.replace(SMALL, step=Quantity(distribution=Constant(mean=mean)))
    with pytest.raises(CallerError, match=r"longer than any trace|would end after 2116"):
        list(Synthesis(model, steps=10).batches())


def test_a_job_of_a_long_name_has_a_model_that_can_be_read() -> None:
    step = Event(kind=Kind.STEP, begin_ns=0, duration_ns=10**9, rank=0, job="j" * 300)
    model = fit_model(lambda: iter([batch_of([step])])).model
    assert parse_toml(toml_text(model), Model, source="fitted") == model
