"""``python -m bench.evaluation``: makes both sites, measures on them, and reports."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from bench.checkpoints.cluster import Crew
from bench.checkpoints.orders import Save
from bench.evaluation.copying import Sites
from bench.evaluation.experiments import Experiments
from bench.evaluation.result import report_of
from bench.evaluation.scale import QUICK, Scale
from bench.measuring import Options, end_with, options, publish
from headrace.devhdfs.artefacts import find_java
from testbed import Scenario, Testbed, probe
from testbed.services import Services

SCENARIO = Path(__file__).parents[1] / "evaluation.toml"


def main(given: Options) -> None:
    """Measure and report."""
    scale, scenario = QUICK if given.quick else Scale(), Scenario.load(SCENARIO)
    probe.require(scenario)
    find_java()
    with (
        tempfile.TemporaryDirectory() as folder,
        Crew(Path(folder, "crew.log")) as crew,
        Testbed(scenario) as bed,
        Services(bed, site="home") as home,
        Services(bed, site="away") as away,
    ):
        os.environ.update(away.environment)
        saved = Path(folder, "checkpoint")
        ranks = scale.saving_ranks
        crew.carry_out(scale.model, Save(folder=str(saved)), [None] * ranks, mesh=(ranks,))
        sites = Sites(bed, saved, home.hdfs.url, away.hdfs.url, scale)
        found = Experiments(bed, sites, crew, away.token, scale).run()
    publish(report_of(scale, scenario, found), given.json)


if __name__ == "__main__":
    end_with(lambda: main(options()), "bench.evaluation")
