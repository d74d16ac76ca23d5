"""Second look at a trace to be fitted: how long what took, and how large it was."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.analysis.columns import NULL, Columns, Ints
from headrace.analysis.named import Fold, NamedSums
from headrace.analysis.workload.model import TRANSFERS
from headrace.analysis.workload.survey import HostNumbers, Shape, of_job, transfers
from headrace.analysis.workload.tallies import Pairs, Tally
from headrace.trace.events import PARTS, Kind, Phase

MOST_RANK_OCCASIONS = 4_194_304
"""Ranks times occasions of one transfer that are kept."""

MOST_FILES = 262_144

_INTERRUPTING = ("checkpoint_save", "logits_write")
"""What may make the step longer in which it is done."""

_SHARED_PHASES = (Phase.INITIALISATION, Phase.EVALUATION)
"""In which requests are not those of loading."""


class StepTallies:
    """Steps, those apart in which something was saved or written."""

    def __init__(self) -> None:
        self.clear = Tally()
        self.interrupted = {name: Tally() for name in _INTERRUPTING}

    def add(self, steps: Columns, hosts: Ints, shape: Shape) -> None:
        """Take in steps."""
        left = np.ones(len(steps), np.bool_)
        for name, tally in self.interrupted.items():
            within = left & shape.occasions[name].overlap(steps.begins, steps.ends)
            add_durations(tally, steps.where(within), shape, hosts[within])
            left &= ~within
        add_durations(self.clear, steps.where(left), shape, hosts[left])


class LoadTallies:
    """Loads of one unit, and their parts."""

    def __init__(self) -> None:
        self.seconds, self.bytes = Tally(), Tally()
        self.sized = Pairs()
        self.parts = {part: Tally() for part in PARTS}
        self.linked = {part: Pairs() for part in PARTS}
        self.of_stragglers = Tally()
        self.parts_ns = dict.fromkeys(PARTS, 0.0)
        """Of all loads, also of hosts that straggle."""

    def add(self, columns: Columns, hosts: HostNumbers, shape: Shape) -> None:
        """Take in loads and parts."""
        loads = columns.of(Kind.LOAD).timed()
        of_samples = loads.texts("sample").codes != NULL
        loads = loads.where(of_samples if shape.unit == "sample" else ~of_samples)
        straggling = np.array(sorted(shape.stragglers), np.int64)
        is_slow = np.isin(hosts.of(loads), straggling)
        add_durations(self.of_stragglers, loads.where(is_slow), shape)
        steady_loads = loads.where(~is_slow)
        self._add_loads(steady_loads, hosts.of(steady_loads), shape)
        for part in PARTS:
            events = columns.of(part).timed()
            self.parts_ns[part] += float(events.durations.sum(dtype=np.float64))
            steady = events.where(~np.isin(hosts.of(events), straggling))
            add_durations(self.parts[part], steady, shape)
            self.linked[part].add(*_together(steady_loads, steady, shape))

    def _add_loads(self, loads: Columns, hosts: Ints, shape: Shape) -> None:
        add_durations(self.seconds, loads, shape, hosts)
        is_sized = loads.numbers("bytes") >= 0
        sized = loads.where(is_sized)
        each = np.maximum(sized.operations, 1)
        sizes = sized.numbers("bytes") / each
        self.bytes.add(sizes, sized.operations)
        self.sized.add(sized.durations / each, sizes)


class RequestTallies:
    """Reads of storage while the job iterates, and of which files."""

    def __init__(self) -> None:
        self.seconds, self.bytes = Tally(), Tally()
        self.sized = Pairs()
        self.files = NamedSums(("file",), {"reads": "sum"}, most=MOST_FILES)

    def add(self, columns: Columns, shape: Shape) -> None:
        """Take in requests."""
        requests = columns.of(Kind.REQUEST)
        of_others = np.isin(requests.texts("phase").codes, _codes(requests, _SHARED_PHASES))
        kept = ~requests.flags("is_write") & ~of_others
        if shape.has_ranked_requests:
            kept &= requests.numbers("rank") >= 0
        reads = requests.where(kept).timed()
        add_durations(self.seconds, reads, shape)
        sizes, each = reads.numbers("bytes"), np.maximum(reads.operations, 1)
        sized = sizes >= 0
        self.bytes.add((sizes / each)[sized], reads.operations[sized])
        self.sized.add((reads.durations / each)[sized], (sizes / each)[sized])
        names = reads.strings("file")
        known = pc.is_valid(names)
        counts = pa.array(reads.operations).filter(known)
        self.files.add({"file": names.filter(known), "reads": counts})


class TransferTallies:
    """A transfer: of each rank on each occasion from its first event to the end of its last."""

    def __init__(self) -> None:
        folds: dict[str, Fold] = {"end": "max", "begin": "min", "host": "max", "bytes": "sum"}
        self._rows = NamedSums(("place", "occasion"), folds, most=MOST_RANK_OCCASIONS)

    def add(self, events: Columns, hosts: Ints, occasions: Ints) -> None:
        """Take in events, each of an occasion."""
        self._rows.add(
            {
                "place": events.places,
                "occasion": occasions,
                "begin": events.begins,
                "end": events.ends,
                "host": hosts,
                "bytes": np.maximum(events.numbers("bytes"), 0),
            }
        )

    def tallies(self) -> tuple[Tally, Tally, int]:
        """Return seconds, bytes, and how many ranks took part."""
        seconds, sizes = Tally(), Tally()
        table = self._rows.table()
        if table is None:
            return seconds, sizes, 0
        rows = {name: table[name].to_numpy() for name in table.column_names}
        once = np.ones(table.num_rows, np.int64)
        seconds.add(rows["end"] - rows["begin"], once, hosts=rows["host"], steps=rows["occasion"])
        sizes.add(rows["bytes"], once)
        return seconds, sizes, np.unique(rows["place"]).size


class Measurement:
    """Takes in the batches of a trace once more, knowing its shape."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.steps = StepTallies()
        self.waits = Tally()
        self.loads = LoadTallies()
        self.requests = RequestTallies()
        self.transfers = {name: TransferTallies() for name in TRANSFERS}
        self._hosts = shape.hosts

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in events."""
        whole = Columns(batch)
        for name, tallies in self.transfers.items():
            events = transfers(name, whole, self.shape.job)
            occasions = self.shape.occasions[name].of(events.begins)
            tallies.add(events, self._hosts.of(events), occasions)
        columns = of_job(whole, self.shape.job)
        steps = columns.of(Kind.STEP).timed()
        self.steps.add(steps, self._hosts.of(steps), self.shape)
        waits = columns.of(Kind.WAIT).timed()
        add_durations(self.waits, waits, self.shape, self._hosts.of(waits))
        self.loads.add(columns, self._hosts, self.shape)
        self.requests.add(columns, self.shape)


def add_durations(tally: Tally, events: Columns, shape: Shape, hosts: Ints | None = None) -> None:
    """Let a tally take in how long each operation took [ns]."""
    each = events.durations / np.maximum(events.operations, 1)
    tally.add(each, events.operations, hosts=hosts, steps=_steps(events, shape))


def _codes(events: Columns, wanted: Sequence[str]) -> list[int]:
    values = events.texts("phase").values.to_pylist()
    return [code for code, value in enumerate(values) if value in wanted]


def _together(loads: Columns, parts: Columns, shape: Shape) -> tuple[Ints, Ints]:
    """Return the durations of loads of this batch, and of their parts in it [ns]."""
    if not len(loads) or not len(parts):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    keys, rows = np.unique(_keys(loads, shape), return_index=True)
    wanted = _keys(parts, shape)
    place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    found = keys[place] == wanted
    sums = np.bincount(place[found], weights=parts.durations[found], minlength=keys.size)
    return loads.durations[rows], sums.astype(np.int64)


def _steps(events: Columns, shape: Shape) -> Ints:
    return shape.step_numbers.of(events.numbers("step"), events.numbers("epoch"))


def _keys(events: Columns, shape: Shape) -> Ints:
    """Return a number by which events of one load are told."""
    by_sample = shape.unit == "sample"
    own = events.texts("sample").codes if by_sample else _steps(events, shape)
    return events.places * np.int64(2**40) + own
