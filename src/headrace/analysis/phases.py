"""One phase of a job."""

from __future__ import annotations

from headrace.analysis.columns import Columns
from headrace.analysis.figures import PhaseFigures
from headrace.analysis.loading import LoadingSums
from headrace.analysis.requests import RequestSums
from headrace.analysis.spans import Spans


class PhaseSums:
    """Adds up what is told for each phase."""

    def __init__(self) -> None:
        self.spans = Spans()
        self.loading = LoadingSums()
        self.requests = RequestSums()

    def add(self, columns: Columns) -> None:
        """Take in events of the phase."""
        self.spans.add(columns)
        self.loading.add(columns)
        self.requests.add(columns)

    def merge(self, other: PhaseSums) -> None:
        """Take in all that another one took in."""
        self.spans.merge(other.spans)
        self.loading.merge(other.loading)
        self.requests.merge(other.requests)

    def result(self, phase: str) -> PhaseFigures:
        """Return the figures."""
        return PhaseFigures(
            phase=phase,
            seconds=self.spans.mean_s,
            loading=self.loading.result(),
            requests=self.requests.result(),
        )
