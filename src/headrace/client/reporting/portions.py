"""Where the time to get samples goes, from what agents and this host said of each."""

from __future__ import annotations

from headrace.client.reporting.figures import Figures

DIGITS = 4
"""Digits after the point of a part."""


class Portions:
    """Parts of the time of the reads made last, 0 to 1 each.

    A report that read nothing, as while a step is waited for, tells the parts of the one before:
    what holds the step up is known only when it comes.
    """

    def __init__(self) -> None:
        self.queue = 0.0
        """Of an I/O: waiting behind others."""

        self.throttled = 0.0
        """Of an I/O: waiting for the job's quota."""

        self.transform = 0.0
        """Of a sample: work of cores and waiting for them."""

    def note(self, figures: Figures) -> None:
        """Learn from what was read since the last report, if anything was."""
        io_s = figures.queued_s + figures.throttled_s + figures.read_s
        cores_s = figures.transform_s + figures.cores_s
        if io_s + cores_s > 0:
            self.queue = share(figures.queued_s, io_s)
            self.throttled = share(figures.throttled_s, io_s)
            self.transform = share(cores_s, cores_s + io_s)


def share(part: float, whole: float) -> float:
    """Return a part of a whole, 0 to 1; 0 of nothing."""
    return round(min(part / whole, 1.0), DIGITS) if whole > 0 else 0.0
