"""Injects causes into modelled and simulated jobs, and scores what their traces are said to show.

Seeds are others than those that the rules were made on.
"""

from __future__ import annotations

from bench.diagnosis import modelled, real, simulated
from bench.diagnosis.result import report_of
from bench.measuring import Options, end_with, options, publish

JOBS = 40
"""Of each cause."""

JOBS_WITH_TWO = 10
"""Of each pair of causes."""

QUICK_JOBS = 3

SWITCHES = {
    "real": "also run headrace's loader on slow storage, and on slow transforms (2 minutes)"
}


def main(given: Options) -> None:
    """Measure and report."""
    jobs, pairs = (QUICK_JOBS, 1) if given.quick else (JOBS, JOBS_WITH_TWO)
    hours, seeds = (
        (simulated.QUICK_HOURS, simulated.SEEDS[:1])
        if given.quick
        else (simulated.HOURS, simulated.SEEDS)
    )
    report = report_of(
        modelled.verdicts(jobs, of_pairs=pairs),
        simulated.verdicts(seeds=seeds, hours=hours),
        real.verdicts() if "real" in given.switches else (),
    )
    publish(report, given.json)


if __name__ == "__main__":
    end_with(lambda: main(options(switches=SWITCHES)), "bench.diagnosis")
