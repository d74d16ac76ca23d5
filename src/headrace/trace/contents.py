"""What is in a trace: whose events, of what kinds, over what time, and what is wrong with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_KIND_SUMS = [([], "count_all"), ("duration_ns", "sum"), ("bytes", "sum")]
_JOB_SUMS = [([], "count_all"), ("begin_ns", "min"), ("end_ns", "max")]


@dataclass(slots=True)
class KindContents:
    """Events of one kind."""

    events: int = 0
    seconds: float | None = None
    """Sum of the durations that are known, if any is; events may overlap [s]."""

    bytes: int | None = None
    """Sum of those that are known, if any is [bytes]."""

    def add(self, events: int, duration_ns: int | None, nbytes: int | None) -> None:
        """Take in sums of some events."""
        self.events += events
        if duration_ns is not None:
            self.seconds = (self.seconds or 0.0) + duration_ns / 1e9
        if nbytes is not None:
            self.bytes = (self.bytes or 0) + nbytes


@dataclass(slots=True)
class JobContents:
    """One job, or all that name none."""

    events: int = 0
    hosts: set[str] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)
    begin_ns: int | None = None
    """Of its first event [ns since 1970, or since an arbitrary moment]."""

    end_ns: int | None = None
    """Of its last event to end [ns]."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Take in the events of one rank on one host."""
        self.events += row["count_all"]
        self.hosts |= set() if row["host"] is None else {row["host"]}
        self.ranks |= set() if row["rank"] is None else {row["rank"]}
        begin, end = row["begin_ns_min"], row["end_ns_max"]
        self.begin_ns = begin if self.begin_ns is None else min(self.begin_ns, begin)
        self.end_ns = end if self.end_ns is None else max(self.end_ns, end)

    @property
    def span_s(self) -> float:
        """From its first event to its last [s]."""
        if self.begin_ns is None or self.end_ns is None:
            return 0.0
        return (self.end_ns - self.begin_ns) / 1e9


@dataclass(slots=True)
class Contents:
    """Sums over a trace; memory grows with its jobs, hosts and ranks only."""

    kinds: defaultdict[str, KindContents] = field(default_factory=lambda: defaultdict(KindContents))
    jobs: defaultdict[str, JobContents] = field(default_factory=lambda: defaultdict(JobContents))
    """By name; that of those without is empty."""

    @property
    def events(self) -> int:
        """How many there are."""
        return sum(kind.events for kind in self.kinds.values())

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in events."""
        ends = pc.add(batch.column("begin_ns"), batch.column("duration_ns").fill_null(0))
        table = pa.Table.from_batches([batch]).append_column("end_ns", ends)
        for row in table.group_by("kind").aggregate(_KIND_SUMS).to_pylist():
            sums = row["count_all"], row["duration_ns_sum"], row["bytes_sum"]
            self.kinds[row["kind"]].add(*sums)
        for row in table.group_by(["job", "host", "rank"]).aggregate(_JOB_SUMS).to_pylist():
            self.jobs[row["job"] or ""].add(row)
