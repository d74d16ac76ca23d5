"""Tiers give what their devices give."""

from __future__ import annotations

import pytest

from headrace.core.errors import ConfigError
from headrace.sim.estate import Estate
from headrace.sim.media import Network, SolidState, Spinning, cost, nominal_rate


def test_small_reads_of_hard_disks_are_slow_and_long_ones_near_the_sequential_rate():
    disks = Spinning(devices=12, bytes_per_s=200e6, seek_s=0.008)
    assert nominal_rate(disks, 100e3) == pytest.approx(12 * 100e3 / 0.0085)
    assert nominal_rate(disks, 100e6) > 0.98 * 12 * 200e6


def test_reading_in_sequence_costs_a_hard_disk_less_and_a_solid_one_the_same():
    one = {"nominal_bytes": 1e6}
    disks, flash = Spinning(), SolidState()
    assert cost(disks, 1e6, sequential=0.0, **one) == pytest.approx(1.0)
    assert cost(disks, 1e6, sequential=1.0, **one) == pytest.approx(7 / 13)
    assert cost(disks, 1e5, sequential=0.0, **one) > 5.0
    assert cost(flash, 1e6, sequential=1.0, **one) == pytest.approx(1.0)


def test_a_link_carries_its_rate_whatever_the_size():
    link = Network(bytes_per_s=1e9)
    assert nominal_rate(link, 1e3) == nominal_rate(link, 1e8) == pytest.approx(1e9)


def test_hardware_that_cannot_be_is_refused_with_what_to_do():
    for wrong in (
        lambda: SolidState(devices=0),
        lambda: Spinning(bytes_per_s=-1.0),
        lambda: Network(bytes_per_s=0.0),
    ):
        with pytest.raises(ConfigError, match="give its devices, rates and sizes"):
            wrong()
    with pytest.raises(ConfigError, match="no tier 'hdd', only ssd"):
        Estate(tiers={"ssd": SolidState()})
