"""The loss monitor: no alarm on curves that fall, however noisy; alarms soon where they rise."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import inf, nan

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import ConfigError
from headrace.policy.loss import LossLimits, LossMonitor, LossVerdict

SCALE = 0.05
Losses = npt.NDArray[np.float64]


def curve(seed: int, steps: int, *, tails: int | None = None) -> Losses:
    """A training loss that falls from 12 towards 2; ``tails``: degrees of freedom of its noise."""
    draws = np.random.default_rng(seed)
    at = np.arange(steps)
    falling = 2 + 9 * np.exp(-at / 150) + 2 * (at + 10.0) ** -0.3
    noise = draws.standard_normal(steps) if tails is None else draws.standard_t(tails, steps)
    return np.asarray(falling + SCALE * noise)


def watched(losses: Iterable[float], limits: LossLimits | None = None) -> list[LossVerdict]:
    monitor = LossMonitor(limits)
    return [monitor.handle(step, float(loss)) for step, loss in enumerate(losses)]


def alarms(losses: Iterable[float], limits: LossLimits | None = None) -> list[int]:
    return [verdict.step for verdict in watched(losses, limits) if verdict.alarm]


@pytest.mark.parametrize("tails", [None, 3, 2])
def test_noisy_curves_that_fall_raise_no_alarm(tails: int | None) -> None:
    """Seeds 0 to 24, of the 200 whose figures the module states."""
    assert [seed for seed in range(25) if alarms(curve(seed, 1500, tails=tails))] == []


def test_a_curve_with_single_outliers_raises_no_alarm() -> None:
    losses = curve(1, 2000)
    losses[100::25] += 100 * SCALE
    assert alarms(losses) == []


@pytest.mark.parametrize(("height", "within"), [(14, 7), (16, 3), (50, 3), (1e6, 3)])
def test_a_jump_is_told_within_a_few_steps(height: float, within: int) -> None:
    """Seeds 0 to 29, jump at step 600."""
    for seed in range(30):
        losses = curve(seed, 640)
        losses[600:] += height * SCALE
        found = alarms(losses)
        assert len(found) == 1, seed
        assert found[0] - 600 < within, seed


@pytest.mark.parametrize(("rate", "within"), [(0.1, 170), (0.5, 70)])
def test_a_slow_rise_is_told(rate: float, within: int) -> None:
    """Seeds 0 to 19; ``rate`` scales a step, from step 1000 on."""
    for seed in range(20):
        losses = curve(seed, 1000 + within, tails=3)
        losses[1000:] += rate * SCALE * np.arange(within)
        found = watched(losses)
        assert any(verdict.alarm for verdict in found[1000:]), seed
        assert not any(verdict.alarm for verdict in found[:1000]), seed


def test_a_spike_that_passes_is_one_alarm_and_ends() -> None:
    losses = curve(3, 1400)
    losses[700:720] += 40 * SCALE
    found = watched(losses)
    assert [verdict.step for verdict in found if verdict.alarm] == [702]
    assert found[710].state == "spike"
    assert found[710].height > 20
    assert {verdict.state for verdict in found[723:]} == {"steady"}


def test_a_second_spike_is_told_after_the_cool_down_and_not_before() -> None:
    for gap, expected in ((30, 1), (80, 2)):
        losses = curve(4, 1000)
        losses[700:705] += 40 * SCALE
        losses[700 + gap : 705 + gap] += 40 * SCALE
        assert len(alarms(losses)) == expected, gap


def test_an_alarm_does_not_flutter_at_the_threshold() -> None:
    losses = np.full(600, 2.0)
    losses[300:] += np.tile([0.09, 0.06], 150)
    found = alarms(losses, LossLimits(patience=1000, cool_down=0))
    assert found == [304]


def test_a_level_that_stays_is_taken_for_the_new_one_after_a_while() -> None:
    losses = curve(5, 1500)
    losses[700:] += 40 * SCALE
    losses[1300:1310] += 40 * SCALE
    assert alarms(losses) == [702, 1302]


@pytest.mark.parametrize("loss", [nan, inf, -inf])
def test_a_loss_that_is_not_finite_is_told_at_once_and_once(loss: float) -> None:
    losses = curve(6, 300)
    losses[0] = loss
    losses[200:260] = loss
    found = watched(losses)
    assert [verdict.step for verdict in found if verdict.alarm] == [0, 200]
    assert found[0].state == found[230].state == "not-finite"
    assert found[290].state == "steady"


def test_losses_that_are_not_finite_during_warm_up_do_not_stop_it() -> None:
    losses = curve(7, 200)
    losses[:20:2] = nan
    assert watched(losses)[-1].state == "steady"


def test_training_that_goes_back_ends_the_anomaly() -> None:
    monitor = LossMonitor()
    losses = curve(8, 800)
    for step in range(700):
        monitor.handle(step, losses[step])
    assert [monitor.handle(step, 5.0).alarm for step in range(700, 705)].count(True) == 1
    again = [monitor.handle(step, losses[step]) for step in range(650, 800)]
    assert {verdict.state for verdict in again} == {"steady"}


def test_a_loss_that_hardly_varies_is_not_taken_for_noise_free() -> None:
    losses = [2.0] * 200 + [2.05] * 20
    assert alarms(losses) == []
    assert alarms([0.0] * 200 + [1.0] * 20) == [202]
    assert alarms([-2.0] * 200 + [-1.0] * 20) == [202]


def test_memory_does_not_grow() -> None:
    monitor = LossMonitor()
    for step, loss in enumerate(curve(9, 1000)):
        monitor.handle(step, loss)
    held = [len(value) for value in vars(monitor).values() if hasattr(value, "__len__")]
    assert sum(held) <= 64 + 5


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(
    losses=st.lists(st.floats() | st.floats(0, 10), max_size=150),
    cool_down=st.integers(0, 20),
)
def test_whatever_the_loss_is_alarms_keep_their_distance(
    losses: list[float], cool_down: int
) -> None:
    limits = LossLimits(window=8, warm_up=4, recent=3, cool_down=cool_down)
    found = watched(losses, limits)
    assert len(found) == len(losses)
    steps = [verdict.step for verdict in found if verdict.alarm]
    assert all(after - before >= max(1, cool_down) for before, after in pairwise(steps))
    assert all(verdict.state != "steady" for verdict in found if verdict.alarm)


@pytest.mark.parametrize(
    "wrong",
    [
        {"window": 10},
        {"recent": 0},
        {"recent": 40},
        {"calm": 9.0},
        {"threshold": inf},
        {"least_scale": 0.0},
        {"cool_down": -1},
        {"patience": 0},
        {"calm": nan},
    ],
)
def test_limits_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"loss\."):
        LossLimits(**wrong)  # type: ignore[arg-type]
