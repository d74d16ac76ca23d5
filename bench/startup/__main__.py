"""``python -m bench.startup``: makes the cluster, measures on it, and reports."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from bench.checkpoints.cluster import Crew
from bench.checkpoints.control import controller_on
from bench.measuring import Options, end_with, options, publish
from bench.startup.experiments import Experiments, controller_config
from bench.startup.result import report_of
from bench.startup.scale import QUICK, Scale
from headrace.devhdfs.artefacts import find_java
from testbed import Scenario, Testbed, probe
from testbed.services import Services

SCENARIO = Path(__file__).parents[1] / "startup.toml"


def main(given: Options) -> None:
    """Measure and report."""
    scale, scenario = QUICK if given.quick else Scale(), Scenario.load(SCENARIO)
    probe.require(scenario)
    find_java()
    with (
        tempfile.TemporaryDirectory() as logs,
        Crew(Path(logs, "crew.log")) as crew,
        Testbed(scenario) as bed,
        Services(bed) as services,
    ):
        os.environ.update(services.environment)
        (namenode,) = bed.by_role("namenode")
        config = namenode.directory / "controller.toml"
        config.write_text(controller_config(bed.by_role("storage")))
        told = ["--config", str(config)]
        with controller_on(namenode, services.token, told) as controller:
            experiments = Experiments(bed, services, crew, controller, scale)
            found = experiments.run()
        report = report_of(scale, experiments.bound(), found)
    publish(report, given.json)


if __name__ == "__main__":
    end_with(lambda: main(options()), "bench.startup")
