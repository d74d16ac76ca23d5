"""A model fitted to the trace of a model is that model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from headrace.analysis.workload.distributions import (
    LEVELS,
    Constant,
    Distribution,
    Gamma,
    Lognormal,
    Mixture,
    Quantiles,
)
from headrace.analysis.workload.fitting import Fitted, fit_model
from headrace.analysis.workload.model import (
    Files,
    Linked,
    Load,
    Model,
    Quantity,
    Requests,
    Transfer,
)
from headrace.analysis.workload.synthesis import Synthesis
from headrace.trace.events import Event, Kind, batch_of

LEVELS_COMPARED = (0.1, 0.5, 0.9, 0.99)
VALUE_WITHIN = 0.05
"""Of means, and of the quantiles at these levels."""

SHARE_WITHIN = 0.08
"""Of what hosts and steps share of the variance, of correlations and of shares of zeros."""

WHOLE = Model(
    version=1,
    name="whole",
    ranks=64,
    ranks_per_host=4,
    steps=300,
    steps_per_epoch=75,
    step=Quantity(distribution=Gamma(mean=2.0, shape=20), step_share=0.6, autocorrelation=0.7),
    wait=Quantity(distribution=Gamma(mean=0.4, shape=0.7), zero_share=0.6),
    load=Load(
        seconds=Quantity(distribution=Lognormal(mean=1.5, sigma=0.5), host_share=0.1),
        stragglers=(4.0, 3.0),
        bytes=Linked(distribution=Lognormal(mean=5e6, sigma=0.6), correlation=0.7),
        parts={
            "metadata": Linked(distribution=Gamma(mean=0.01, shape=2.0)),
            "transformation": Linked(distribution=Lognormal(mean=1.2, sigma=0.5), correlation=0.9),
        },
    ),
    requests=Requests(
        per_step=1.6,
        seconds=Linked(distribution=Lognormal(mean=0.02, sigma=0.5), correlation=0.6),
        bytes=Mixture(
            weight=0.7,
            first=Lognormal(mean=15e3, sigma=0.2),
            second=Lognormal(mean=2e6, sigma=0.4),
        ),
        files=Files(count=50, zipf=0.9, suffix=".tar"),
    ),
    checkpoint_read=Transfer(
        seconds=Quantity(distribution=Lognormal(mean=30, sigma=0.2)),
        bytes=Constant(mean=1e9),
    ),
    checkpoint_save=Transfer(
        seconds=Quantity(distribution=Lognormal(mean=12, sigma=0.1), step_share=0.3),
        bytes=Constant(mean=2e9),
        period_steps=20,
    ),
    evaluation=Transfer(
        seconds=Quantity(distribution=Lognormal(mean=9, sigma=0.1)),
        period_steps=60,
        blocks=False,
        ranks=16,
    ),
    logits_write=Transfer(
        seconds=Quantity(distribution=Lognormal(mean=0.3, sigma=0.1)),
        bytes=Gamma(mean=1e6, shape=9),
        period_steps=10,
        blocks=False,
    ),
)


def trace_of(model: Model, seed: int) -> Callable[[], Iterator[pa.RecordBatch]]:
    return lambda: Synthesis(model, seed=seed).batches()


@cache
def fitted(seed: int) -> Fitted:
    return fit_model(trace_of(WHOLE, seed))


def alike(
    found: Distribution | None,
    meant: Distribution | None,
    compared: tuple[float, ...] = LEVELS_COMPARED,
) -> None:
    assert found is not None and meant is not None
    assert found.average() == pytest.approx(meant.average(), rel=VALUE_WITHIN)
    levels = np.array(compared)
    same = pytest.approx(meant.quantiles(levels), rel=2 * VALUE_WITHIN)
    assert found.quantiles(levels) == same, (found, meant)


def alike_quantity(found: Quantity | None, meant: Quantity | None) -> None:
    assert found is not None and meant is not None
    alike(found.distribution, meant.distribution)
    for share in ("zero_share", "host_share", "step_share"):
        assert getattr(found, share) == pytest.approx(getattr(meant, share), abs=SHARE_WITHIN)
    assert found.autocorrelation == pytest.approx(meant.autocorrelation, abs=2 * SHARE_WITHIN)


def alike_linked(found: Linked | None, meant: Linked | None) -> None:
    assert found is not None and meant is not None
    alike(found.distribution, meant.distribution)
    assert found.correlation == pytest.approx(meant.correlation, abs=SHARE_WITHIN)


@pytest.mark.parametrize("seed", [1, 2])
def test_everything_that_a_model_holds_is_fitted_again(seed: int) -> None:
    found, notes = fitted(seed)
    assert notes == ()
    for count in ("name", "ranks", "ranks_per_host", "steps", "steps_per_epoch"):
        assert getattr(found, count) == getattr(WHOLE, count)
    alike_quantity(found.step, WHOLE.step)
    assert found.wait
    alike_quantity(found.wait, WHOLE.wait)


@pytest.mark.parametrize("seed", [1, 2])
def test_loads_their_parts_and_stragglers_are_fitted_again(seed: int) -> None:
    found, meant = fitted(seed).model.load, WHOLE.load
    assert found and meant
    assert (found.unit, found.parts.keys()) == (meant.unit, meant.parts.keys())
    assert found.per_step == pytest.approx(meant.per_step)
    assert found.stragglers == pytest.approx(meant.stragglers, rel=0.15)
    alike_quantity(found.seconds, meant.seconds)
    alike_linked(found.bytes, meant.bytes)
    for name, part in meant.parts.items():
        alike_linked(found.parts[name], part)


@pytest.mark.parametrize("seed", [1, 2])
def test_requests_and_the_popularity_of_files_are_fitted_again(seed: int) -> None:
    found, meant = fitted(seed).model.requests, WHOLE.requests
    assert found and meant and found.files and meant.files
    assert found.per_step == pytest.approx(meant.per_step, rel=VALUE_WITHIN)
    alike_linked(found.seconds, meant.seconds)
    alike(found.bytes, meant.bytes)
    assert (found.files.count, found.files.suffix) == (50, ".tar")
    assert found.files.zipf == pytest.approx(meant.files.zipf, abs=0.05)


@pytest.mark.parametrize("seed", [1, 2])
def test_transfers_and_their_periods_are_fitted_again(seed: int) -> None:
    found = fitted(seed).model.transfers()
    assert found.keys() == WHOLE.transfers().keys()
    for name, meant in WHOLE.transfers().items():
        for field in ("period_steps", "blocks", "ranks"):
            assert getattr(found[name], field) == getattr(meant, field), name
        assert found[name].seconds.mean == pytest.approx(meant.seconds.mean, rel=VALUE_WITHIN)
        if meant.bytes is not None:
            alike(found[name].bytes, meant.bytes)


def test_a_trace_whose_steps_begin_anew_in_each_epoch_has_the_same_model() -> None:
    per_epoch = 20
    model = Model(
        version=1,
        name="epochs",
        ranks=8,
        ranks_per_host=4,
        steps=100,
        steps_per_epoch=per_epoch,
        step=Quantity(distribution=Gamma(mean=2.0, shape=20), step_share=0.6),
        checkpoint_save=Transfer(
            seconds=Quantity(distribution=Lognormal(mean=12, sigma=0.1)), period_steps=5
        ),
    )

    def anew() -> Iterator[pa.RecordBatch]:
        for batch in Synthesis(model).batches():
            steps = batch["step"].to_numpy()
            columns = {name: batch[name] for name in batch.schema.names}
            columns["step"] = pa.array(1 + steps % per_epoch)
            columns["epoch"] = pa.array(1 + steps // per_epoch)
            yield pa.RecordBatch.from_pydict(columns, schema=batch.schema)

    assert fit_model(anew).model == fit_model(trace_of(model, 0)).model


def test_short_saves_that_follow_one_another_are_no_long_one() -> None:
    second = 1_000_000_000
    steps = [
        Event(kind=Kind.STEP, begin_ns=step * second // 20, duration_ns=second // 20, rank=0)
        for step in range(100)
    ]
    saves = [
        Event(kind=Kind.CHECKPOINT_SAVE, begin_ns=n * second // 2, duration_ns=2_000_000, rank=0)
        for n in range(1, 10)
    ]
    found = fit_model(lambda: [batch_of([*steps, *saves])]).model.checkpoint_save
    assert found is not None and found.period_steps == 10
    assert found.seconds.mean == pytest.approx(0.002)


def random_family(draw: np.random.Generator, mean: float) -> Distribution:
    match draw.integers(4):
        case 0:
            return Constant(mean=mean)
        case 1:
            return Lognormal(mean=mean, sigma=float(draw.uniform(0.05, 0.7)))
        case 2:
            return Gamma(mean=mean, shape=float(draw.uniform(0.8, 30)))
        case _:
            values = np.sort(draw.uniform(0.2, 2.0, len(LEVELS))) * mean
            return Quantiles(values=tuple(values.tolist()))


def random_model(seed: int) -> Model:
    draw = np.random.default_rng(seed)
    step = random_family(draw, float(draw.uniform(0.1, 20)))
    size = random_family(draw, 10.0 ** draw.uniform(4, 8))
    return Model(
        version=1,
        name=f"random-{seed}",
        ranks=int(draw.integers(30, 100)),
        ranks_per_host=int(draw.integers(1, 5)),
        steps=150,
        step=Quantity(distribution=step, step_share=float(draw.uniform(0, 0.05))),
        wait=Quantity(
            distribution=random_family(draw, step.average() / 50),
            zero_share=float(draw.uniform(0, 0.9)),
        ),
        load=Load(
            seconds=Quantity(distribution=random_family(draw, step.average())),
            per_step=float(draw.uniform(0.5, 2.5)),
            unit="sample" if draw.integers(2) else "batch",
            bytes=Linked(distribution=size, correlation=0.0),
        ),
        checkpoint_save=Transfer(
            seconds=Quantity(distribution=random_family(draw, 3 * step.average())),
            bytes=random_family(draw, 1e9),
            period_steps=int(draw.integers(5, 40)),
            blocks=bool(draw.integers(2)),
        ),
    )


@pytest.mark.parametrize("seed", range(8))
def test_random_models_are_fitted_again(seed: int) -> None:
    meant = random_model(seed)
    found = fit_model(trace_of(meant, seed)).model
    assert found.load and meant.load and found.wait and meant.wait
    assert found.checkpoint_save and meant.checkpoint_save
    assert (found.ranks, found.ranks_per_host) == (meant.ranks, meant.ranks_per_host)
    alike(found.step.distribution, meant.step.distribution)
    alike(found.wait.distribution, meant.wait.distribution)
    assert found.wait.zero_share == pytest.approx(meant.wait.zero_share, abs=0.02)
    alike(found.load.seconds.distribution, meant.load.seconds.distribution)
    assert found.load.bytes and meant.load.bytes and found.load.unit == meant.load.unit
    alike(found.load.bytes.distribution, meant.load.bytes.distribution)
    assert found.load.per_step == pytest.approx(meant.load.per_step, rel=VALUE_WITHIN)
    assert found.checkpoint_save.period_steps == meant.checkpoint_save.period_steps
    assert found.checkpoint_save.blocks == meant.checkpoint_save.blocks
