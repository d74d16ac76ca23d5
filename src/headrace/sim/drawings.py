"""Outcomes as drawings: SVG text, made when matplotlib is there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headrace.report.plots import ALARM, BASELINE, NEUTRAL, OURS, Bar, Series, bars, lines
from headrace.sim import contenders
from headrace.sim.contest import TIMELINE_BINS, Outcome
from headrace.sim.episode import MODES
from headrace.sim.measures import HOUR_S
from headrace.sim.scenario import Scenario

_LINES = {
    contenders.BASELINE: BASELINE,
    "published": ALARM,
    contenders.OURS: OURS,
    contenders.BOUND: NEUTRAL,
}
"""Who is drawn over time, in which colour."""

_MODE_COLOURS = dict(zip(MODES, (NEUTRAL, "#3b6fb6", ALARM, BASELINE, "#7a5ea8"), strict=True))


def drawings(scenario: Scenario, outcomes: Mapping[str, Outcome]) -> dict[str, str]:
    """Return SVG drawings by file name."""
    drawn = {"failures.svg": _failures(outcomes)}
    if any(name in _LINES for name in outcomes):
        drawn["idle.svg"] = _idle(scenario, outcomes)
    return drawn


def _idle(scenario: Scenario, outcomes: Mapping[str, Outcome]) -> str:
    hours = (np.arange(TIMELINE_BINS) + 0.5) * scenario.duration_s / HOUR_S / TIMELINE_BINS
    series = [
        Series(
            label=contenders.contender(name).title,
            colour=colour,
            x=hours.tolist(),
            y=(100 * outcomes[name].idle_share).tolist(),
        )
        for name, colour in _LINES.items()
        if name in outcomes
    ]
    return lines(series, x_label="simulated time [h]", y_label="idle [%]")


def _failures(outcomes: Mapping[str, Outcome]) -> str:
    return bars(
        [
            Bar(
                label=contenders.contender(name).title,
                parts=tuple(
                    ("nothing wrong" if mode == "none" else mode, _MODE_COLOURS[mode], rate)
                    for mode in MODES
                    if (rate := outcome.figures.modes[mode].failures_per_hour) > 0
                ),
            )
            for name, outcome in outcomes.items()
        ],
        x_label="prefetch failures per hour and job, by what was wrong",
    )
