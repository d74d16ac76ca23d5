"""Puts the repository on the path, and says where real beds can be made."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # testbed is no package of the wheel

from testbed import Scenario, Testbed, probe

PLAIN = """
name = "plain"
[[hosts]]
role = "storage"
count = 2
cpus = 0.4
rate_mbit_per_s = 200
[[hosts]]
role = "storage"
name = "disk"
[hosts.disk]
profile = "custom"
size_gb = 0.3
read_bytes_per_s = 40_000_000
write_bytes_per_s = 20_000_000
read_iops = 80
[[hosts]]
role = "trainer"
"""


@pytest.fixture(scope="session")
def machine() -> None:
    """Skip where beds cannot be made; where CI is, they must be."""
    missing = probe.lacks(Scenario.parse(PLAIN))
    if missing and not os.environ.get("CI"):
        pytest.skip("; ".join(lack.what for lack in missing))
    assert not missing


@pytest.fixture(scope="module")
def bed(machine: None) -> Iterator[Testbed]:
    with Testbed(Scenario.parse(PLAIN)) as bed:
        yield bed
