"""``python -m bench.soak``: runs the loops for a long time, and says whether anything grows."""

from __future__ import annotations

import sys

from bench.measuring import Options, end_with, options, publish
from bench.soak.experiments import (
    Look,
    Scale,
    bed,
    reopen_loader,
    restart_agent,
    restart_rank,
    soak,
)
from bench.soak.result import Result, report_of
from headrace.report.units import bytes_

MINUTES = 30.0
QUICK = Scale(minutes=0.25, every_s=0.5, restarts=2, settle_s=2.0)


def main(given: Options) -> int:
    """Measure and report; 1 when something grows."""
    scale = QUICK if given.quick else Scale(minutes=given.minutes)
    with bed() as where:
        looks = soak(where, scale, _tell)
        again = (reopen_loader, restart_rank, restart_agent)
        restarted = tuple(experiment(where, scale) for experiment in again)
    result = Result(scale=scale, looks=looks, restarted=restarted)
    publish(report_of(result), given.json)
    return 0 if all(result.verdicts().values()) else 1


def _tell(look: Look) -> None:
    """Say on standard error how it stands."""
    sides = "; ".join(f"{name} {bytes_(held.own_bytes)}" for name, held in look.sides.items())
    steps = " and ".join(f"{told.steps:,}" for told in look.progress.values())
    sys.stderr.write(f"{look.at_s:6.0f} s, {steps} steps: {sides}\n")


if __name__ == "__main__":
    end_with(lambda: main(options(minutes=MINUTES)), "bench.soak")
