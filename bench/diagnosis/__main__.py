"""Injects causes into modelled jobs, and scores what an analysis of their traces names."""

from __future__ import annotations

from bench.diagnosis.modelled import verdicts
from bench.diagnosis.result import report_of
from bench.measuring import Options, end_with, options, publish

JOBS = 40
"""Of each cause."""

QUICK_JOBS = 3


def main(given: Options) -> None:
    """Measure and report."""
    publish(report_of(verdicts(QUICK_JOBS if given.quick else JOBS)), given.json)


if __name__ == "__main__":
    end_with(lambda: main(options()), "bench.diagnosis")
