"""Brings the emulated cluster up: a bed, HDFS and agents on its hosts, the dataset in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.offload.data import Stored, store
from bench.offload.rig import Rig
from headrace.demo.dataset import DemoDataset
from headrace.demo.view import View
from headrace.devhdfs.artefacts import find_java
from testbed import Testbed, probe
from testbed.scenario import Scenario
from testbed.services import Services

SCENARIO = Path(__file__).parents[1] / "offload.toml"
FOLDER = "multimodal"


def require_machine() -> None:
    """See whether the cluster can be made here, before anything takes time.

    Raises:
        ConfigError: this machine lacks root, Java, or something in the kernel; says what.
    """
    probe.require(Scenario.load(SCENARIO))
    find_java()


@contextmanager
def cluster(dataset: DemoDataset, view: View) -> Iterator[tuple[Rig, Stored]]:
    """Make the cluster with the dataset in its HDFS; nothing of it is left afterwards."""
    scenario = Scenario.load(SCENARIO)
    view.note(f"cluster: {', '.join(spec.name for spec in scenario.specs())}")
    with (
        Testbed(scenario) as bed,
        Services(bed) as services,
        _environment(services.environment),
    ):
        rig = Rig(bed, services, url=f"{services.hdfs.url}/{FOLDER}")
        with rig.without_quotas():
            stored = store(dataset, services.hdfs.url, FOLDER, view)
        yield rig, stored


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables for this process and those it starts while the block runs."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value
