"""One phase of a job."""

from __future__ import annotations

from headrace.analysis.columns import Columns
from headrace.analysis.fetching import only_fetches, without_fetches
from headrace.analysis.figures import PhaseFigures
from headrace.analysis.loading import LoadingSums
from headrace.analysis.requests import RequestSums
from headrace.analysis.spans import Spans
from headrace.analysis.spreads import NS_PER_S, SpreadSketch
from headrace.trace.events import Kind


class PhaseSums:
    """Adds up what is told for each phase."""

    def __init__(self) -> None:
        self.spans = Spans()
        self.waits = SpreadSketch()
        self.loading = LoadingSums()
        self.requests = RequestSums()
        self.fetches = RequestSums()

    def add(self, columns: Columns) -> None:
        """Take in events of the phase."""
        self.spans.add(columns)
        self.waits.add(columns.of(Kind.WAIT).timed().durations)
        self.loading.add(columns)
        self.requests.add(without_fetches(columns))
        self.fetches.add(only_fetches(columns))

    def merge(self, other: PhaseSums) -> None:
        """Take in all that another one took in."""
        self.spans.merge(other.spans)
        self.waits.merge(other.waits)
        self.loading.merge(other.loading)
        self.requests.merge(other.requests)
        self.fetches.merge(other.fetches)

    def result(self, phase: str) -> PhaseFigures:
        """Return the figures."""
        return PhaseFigures(
            phase=phase,
            seconds=self.spans.mean_s,
            wait_s=self.waits.result(NS_PER_S),
            loading=self.loading.result(),
            requests=self.all_requests().result(),
        )

    def all_requests(self) -> RequestSums:
        """Return what was asked of storage and of agents."""
        both = RequestSums()
        both.merge(self.requests)
        both.merge(self.fetches)
        return both
