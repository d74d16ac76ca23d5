"""Waiting times against formulas and against a queue that is simulated customer by customer."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from headrace.sim.waiting import Waiting


def simulated_wait(busy, devices, *, customers=200_000):
    """Return the mean wait of exponential arrivals and services, in service times."""
    generator = np.random.default_rng(4)
    arrivals = np.cumsum(generator.exponential(1 / (busy * devices), customers))
    services = generator.exponential(1.0, customers)
    free, waits = [0.0] * devices, 0.0
    for arrival, service in zip(arrivals.tolist(), services.tolist(), strict=True):
        begin = max(arrival, heapq.heappop(free))
        waits += begin - arrival
        heapq.heappush(free, begin + service)
    return waits / customers


@pytest.mark.parametrize("busy", [0.3, 0.6, 0.9])
def test_one_device_with_constant_service_follows_pollaczek_and_khinchine(busy):
    waiting = Waiting(np.array([2.0]), np.array([1.0]), variation=0.0)
    assert waiting.at(np.array([busy]))[0] == pytest.approx(2.0 * busy / (2 * (1 - busy)))


@pytest.mark.parametrize(("busy", "devices"), [(0.6, 1), (0.8, 4), (0.9, 12)])
def test_several_devices_agree_with_a_simulated_queue(busy, devices):
    waiting = Waiting(np.array([1.0]), np.array([float(devices)]))
    expected = simulated_wait(busy, devices)
    assert waiting.at(np.array([busy]))[0] == pytest.approx(expected, rel=0.15)


def test_the_wait_stays_finite_where_the_tier_is_full():
    waits = Waiting(np.array([0.01]), np.array([12.0])).at(np.array([1.0]))
    assert 0.0 < waits[0] < 1.0
