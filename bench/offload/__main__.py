"""``python -m bench.offload``: makes the cluster, measures on it, and reports."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from bench.measuring import Options, end_with, options, publish
from bench.offload.cluster import cluster, require_machine
from bench.offload.data import cache_directory, make_dataset
from bench.offload.experiments import Experiments
from bench.offload.page import report_page
from bench.offload.result import Result, report_of
from bench.offload.scale import QUICK, Scale
from headrace.demo.view import view_for
from headrace.report.html import render_page


def main(given: Options) -> int:
    """Measure and report; 1 when the two loaders made different batches."""
    scale = QUICK if given.quick else Scale()
    require_machine()
    with view_for(Console(stderr=True)) as view:
        dataset = make_dataset(view)
        with cluster(dataset, view) as (rig, stored):
            experiments = Experiments(rig, scale, view)
            measured = experiments.run()
    result = Result(scale=scale, stored=stored, measured=measured)
    publish(report_of(result), given.json)
    page = _page_path(given.json)
    page.write_text(render_page(report_page(result, experiments.meter.samples)))
    Console(stderr=True).print(f"report: {page}", highlight=False, soft_wrap=True)
    return 1 if result.unequal else 0


def _page_path(json: Path | None) -> Path:
    """Return where the page goes: beside the JSON file, else to the kept dataset."""
    if json is None:
        return cache_directory() / "offload.html"
    return json / "offload.html" if json.is_dir() else json.with_suffix(".html")


if __name__ == "__main__":
    end_with(lambda: main(options()), "bench.offload")
