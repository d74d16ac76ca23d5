"""Which files are read most, when, and by how many ranks."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.analysis.columns import NOBODY, NULL, Columns, Ints, Mask
from headrace.analysis.figures import Heat
from headrace.analysis.named import Fold, NamedSums, folded
from headrace.analysis.slots import SlotSums
from headrace.analysis.spreads import NS_PER_S
from headrace.analysis.windows import History
from headrace.trace.events import Kind

MOST_HOT = 20
"""Files that are told."""

BINS = 60
"""Of a job's time, in which reads are counted."""

UNITS = (Kind.REQUEST, Kind.RETRIEVAL, Kind.CHECKPOINT_READ, Kind.LOAD, Kind.METADATA)
"""What counts as a read of a file: the first of these that names files in the trace."""

BUSY = 0.2
"""Share of the time of all reads from which a file is one of the busiest."""

_FOLDS: dict[str, Fold] = {
    "reads": "sum",
    "ns": "sum",
    "bytes": "sum",
    "sized": "sum",
    "first": "min",
    "last": "max",
}


class HeatSums:
    """Counts reads by file and slot of time, and by file and rank."""

    def __init__(self) -> None:
        self._reads = SlotSums(("unit", "file"), _FOLDS)
        self._readers = NamedSums(("unit", "file", "place"), {"reads": "sum"})

    def add(self, columns: Columns) -> None:
        """Take in the events that read files."""
        for unit, kind in enumerate(UNITS):
            events = _named_reads(columns.of(kind), kind)
            if len(events):
                self._reads.cover(int(events.begins.min()), int(events.begins.max()))
                self._count(unit, events)

    def result(self, begin_ns: int, end_ns: int) -> tuple[Heat, ...]:
        """Return the files that were read most in a job's time, the hottest first."""
        table = self._reads.table()
        if table is None:
            return ()
        unit = pc.min(table["unit"]).as_py()
        slots = table.filter(pc.equal(table["unit"], unit))
        files = folded(slots, ("file",), _FOLDS)
        hottest = files.sort_by(
            [("reads", "descending"), ("first", "ascending"), ("file", "ascending")]
        )
        ranks = self._ranks(unit)
        return tuple(
            Heat(
                file=row["file"],
                reads=row["reads"],
                bytes=row["bytes"] if row["sized"] else None,
                first_s=(row["first"] - begin_ns) / NS_PER_S,
                last_s=(row["last"] - begin_ns) / NS_PER_S,
                ranks=ranks.get(row["file"]),
                over_time=self._over_time(slots, row["file"], begin_ns, end_ns),
            )
            for row in hottest.slice(0, MOST_HOT).to_pylist()
        )

    def mean_read_bytes(self, places: Iterable[str]) -> float | None:
        """Return the mean size of requests that read files, or of folders; None: none did."""
        table = self._reads.table()
        if table is None:
            return None
        requests = table.filter(pc.equal(table["unit"], UNITS.index(Kind.REQUEST)))
        files = requests["file"]
        inside = [pc.or_(pc.equal(files, one), pc.starts_with(files, f"{one}/")) for one in places]
        if not inside:
            return None
        found = requests.filter(functools.reduce(pc.or_, inside))
        sized = pc.sum(found["sized"]).as_py()
        return pc.sum(found["bytes"]).as_py() / sized if sized else None

    def busiest(self, kinds: Sequence[Kind], history: History, windows: Mask) -> tuple[str, ...]:
        """Return the files whose reads took most time in some windows, the busiest first.

        Args:
            kinds: Of :data:`UNITS`; the first that names files in the trace counts.
            history: Of the job.
            windows: Of the history; what began in slots that touch one counts.
        """
        table = self._reads.table()
        if table is None:
            return ()
        told = pc.unique(table["unit"]).to_pylist()
        unit = next((unit for unit in map(UNITS.index, kinds) if unit in told), NULL)
        touching = pa.array(self._touching(table["slot"].to_numpy(), history, windows))
        reads = table.filter(pc.and_(touching, pc.equal(table["unit"], unit)))
        files = folded(reads, ("file",), {"ns": "sum"})
        least_ns = max(1, math.ceil(BUSY * (pc.sum(files["ns"]).as_py() or 0)))
        busy = files.filter(pc.greater_equal(files["ns"], least_ns))
        ordered = busy.sort_by([("ns", "descending"), ("file", "ascending")])
        return tuple(ordered["file"].to_pylist())

    @property
    def given_up(self) -> int:
        """Counts of files that memory had no room for."""
        return self._reads.given_up

    def _count(self, unit: int, events: Columns) -> None:
        codes, files = events.texts("file")
        sizes = events.numbers("bytes")
        begins = events.begins
        rows = pa.table(
            {
                "file": codes,
                "slot": self._reads.slots_of(begins),
                "place": events.places,
                "reads": events.operations,
                "ns": np.maximum(events.durations, 0),
                "bytes": np.maximum(sizes, 0),
                "sized": (sizes >= 0).astype(np.int64),
                "first": begins,
                "last": begins,
            }
        )
        counted = _spelt(folded(rows, ("file", "slot"), _FOLDS), files, unit)
        self._reads.add({name: counted[name] for name in counted.column_names})
        readers = _spelt(folded(rows, ("file", "place"), {"reads": "sum"}), files, unit)
        self._readers.add({name: readers[name] for name in readers.column_names})

    def _touching(self, slots: Ints, history: History, windows: Mask) -> Mask:
        """Return which slots of time touch one of these windows."""
        begins = slots * self._reads.width_ns - history.begin_ns
        first, last = (
            np.clip(moments // round(history.width_s * NS_PER_S), 0, len(windows) - 1)
            for moments in (begins, begins + self._reads.width_ns - 1)
        )
        passed = np.append(0, np.cumsum(windows))
        touching: Mask = passed[last + 1] > passed[first]
        return touching

    def _ranks(self, unit: int) -> dict[str, int]:
        """Return how many ranks, or processes, read each file of which all readers are known."""
        table = self._readers.table()
        if table is None or self._readers.given_up:
            return {}
        of_unit = table.filter(pc.equal(table["unit"], unit))
        by_nobody = pc.unique(of_unit.filter(pc.equal(of_unit["place"], NOBODY))["file"])
        known = of_unit.filter(pc.invert(pc.is_in(of_unit["file"], by_nobody)))
        counts = known.group_by("file", use_threads=False).aggregate([("place", "count")])
        return dict(zip(counts["file"].to_pylist(), counts["place_count"].to_pylist(), strict=True))

    def _over_time(self, slots: pa.Table, file: str, begin_ns: int, end_ns: int) -> tuple[int, ...]:
        of_file = slots.filter(pc.equal(slots["file"], file))
        width_ns = self._reads.width_ns
        middle = of_file["slot"].to_numpy() * width_ns + width_ns // 2
        bins = (middle - begin_ns) * BINS // max(end_ns - begin_ns, 1)
        reads = np.bincount(
            np.clip(bins, 0, BINS - 1), weights=of_file["reads"].to_numpy(), minlength=BINS
        )
        return tuple(reads.astype(np.int64).tolist())


def _named_reads(events: Columns, kind: Kind) -> Columns:
    """Return the events that read a file whose name is known."""
    if not len(events):
        return events
    named = events.where((events.texts("file").codes != NULL) & ~events.flags("is_write"))
    if kind != Kind.METADATA or not len(named):
        return named
    codes, names = named.texts("name")
    opens = pc.fill_null(pc.match_substring(names, "open"), False).to_numpy(zero_copy_only=False)
    return named.where(np.append(opens, False)[codes])


def _spelt(counted: pa.Table, files: pa.StringArray, unit: int) -> pa.Table:
    """Write out the names of files, and say of which unit the reads are."""
    names = files.take(counted["file"].combine_chunks())
    units = pa.array(np.full(counted.num_rows, unit))
    spelt = counted.set_column(counted.column_names.index("file"), "file", names)
    return spelt.append_column("unit", units)
