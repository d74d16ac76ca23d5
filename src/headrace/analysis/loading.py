"""Loading: how long batches took, of which parts, and who was slow."""

from __future__ import annotations

import numpy as np

from headrace.analysis.columns import NULL, Columns
from headrace.analysis.figures import Loading, Part
from headrace.analysis.named import NamedSums
from headrace.analysis.slowest import SlowLoads
from headrace.analysis.spreads import NS_PER_S, SpreadSketch
from headrace.trace.events import PARTS, Kind

_LEVELS = "queue_"
"""Names of numbers that are levels begin so."""


class LoadSums:
    """Loads of one unit: batches, or samples."""

    def __init__(self) -> None:
        self.latency = SpreadSketch()
        self.slow = SlowLoads()
        self.cpu_ns: int | None = None
        self._counts = NamedSums(("name",), {"total": "sum"})

    def add(self, loads: Columns) -> None:
        """Take in loads whose duration is known."""
        times = loads.operations
        self.latency.add(loads.durations / np.maximum(times, 1), times)
        self.slow.add(loads)
        names, totals = loads.all_counted()
        self._counts.add({"name": names, "total": totals})
        cpu_ns = loads.numbers("cpu_ns")
        if (cpu_ns >= 0).any():
            self.cpu_ns = (self.cpu_ns or 0) + int(np.maximum(cpu_ns, 0).sum())

    def merge(self, other: LoadSums) -> None:
        """Take in all that another one took in."""
        self.latency.merge(other.latency)
        self.slow.merge(other.slow)
        self._counts.merge(other._counts)
        if other.cpu_ns is not None:
            self.cpu_ns = (self.cpu_ns or 0) + other.cpu_ns

    def counts(self) -> dict[str, int]:
        """Return the further numbers that loads tell, summed, by name."""
        table = self._counts.table()
        if table is None:
            return {}
        pairs = zip(table["name"].to_pylist(), table["total"].to_pylist(), strict=True)
        return {name: total for name, total in sorted(pairs) if not name.startswith(_LEVELS)}


class LoadingSums:
    """Adds up what is known of loading."""

    def __init__(self) -> None:
        self._batches = LoadSums()
        self._samples = LoadSums()
        self._parts_ns = dict.fromkeys(PARTS, 0.0)

    def add(self, columns: Columns) -> None:
        """Take in the events that are of loading."""
        loads = columns.of(Kind.LOAD).timed()
        if len(loads):
            of_samples = loads.texts("sample").codes != NULL
            self._batches.add(loads.where(~of_samples))
            self._samples.add(loads.where(of_samples))
        for part in PARTS:
            self._parts_ns[part] += float(columns.of(part).timed().durations.sum(dtype=np.float64))

    def merge(self, other: LoadingSums) -> None:
        """Take in all that another one took in."""
        self._batches.merge(other._batches)
        self._samples.merge(other._samples)
        for part, nanoseconds in other._parts_ns.items():
            self._parts_ns[part] += nanoseconds

    def result(self) -> Loading | None:
        """Return the figures; None where the trace tells no loads."""
        unit = "batch" if self._batches.latency.count else "sample"
        loads = self._batches if unit == "batch" else self._samples
        latency_s = loads.latency.result(NS_PER_S, curve=True)
        if latency_s is None:
            return None
        return Loading(
            unit=unit,
            latency_s=latency_s,
            parts=self._parts(latency_s.count),
            cpu_s=None if loads.cpu_ns is None else loads.cpu_ns / NS_PER_S,
            counts=loads.counts(),
            stragglers=loads.slow.stragglers(self._named()),
        )

    def _parts(self, loads: int) -> dict[str, Part]:
        total_ns = sum(self._parts_ns.values())
        return {
            part.value: Part(
                total_s=nanoseconds / NS_PER_S,
                share=nanoseconds / total_ns,
                per_load_s=nanoseconds / NS_PER_S / loads,
            )
            for part, nanoseconds in self._parts_ns.items()
            if nanoseconds
        }

    def _named(self) -> SlowLoads:
        """Return the loads that name files: those of samples, where there are any."""
        return (self._samples if self._samples.latency.count else self._batches).slow
