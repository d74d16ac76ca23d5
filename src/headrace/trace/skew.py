"""How far apart the clocks of hosts are, from events that bind hosts to each other.

Two kinds of events do. All ranks leave a **barrier** at nearly the same moment, so its ends on two
hosts differ by the clocks and by noise, whose scatter is the uncertainty. A **request** encloses
the work on it at its server, so each such pair bounds the difference from both sides, as NTP does.
What neither binds stays as it was recorded. Pure arithmetic on batches; memory is bounded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.trace.events import Kind
from headrace.trace.skewfit import Offset, fit, spread
from headrace.trace.skewmatch import Ints, Observations, mixed, observe_barriers, observe_requests

MOST_ROWS = 1 << 20
"""Events of one kind that are looked at, about; of more, some keys are left out."""

_NULL = -1
"""Stands for null; no hash of a text is -1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Clocks:
    """Hosts' clocks against that of one of them."""

    offsets: Mapping[str, Offset]
    """By host; the one that others are measured by has 0."""

    unknown: tuple[str, ...] = ()
    """Hosts that no event binds to another."""

    def corrected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return events with the times that one clock would have told."""
        ahead = {host: one for host, one in self.offsets.items() if one.is_significant}
        if not ahead:
            return batch
        hosts = batch.column("host").dictionary_encode()
        host = hosts.indices.fill_null(-1).to_numpy()
        begins = batch.column("begin_ns").to_numpy().copy()
        for number, name in enumerate(hosts.dictionary.to_pylist()):
            if name in ahead:
                rows = host == number
                begins[rows] -= ahead[name].ahead_ns(begins[rows])
        place = batch.schema.get_field_index("begin_ns")
        return batch.set_column(place, batch.schema.field(place), pa.array(begins))


class ClockEvidence:
    """Collects the events that bind hosts."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._hosts: set[int] = set()
        self._barriers = _Rows()
        self._asked = _Rows()
        self._answered = _Rows()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in events."""
        host = self._codes(batch, "host")
        self._hosts.update(np.unique(host[host >= 0]).tolist())
        is_timed = np.asarray(batch.column("duration_ns").is_valid()) & (host >= 0)
        for kind, add in (
            (Kind.BARRIER, self._add_barriers),
            (Kind.REQUEST, self._add_requests),
            (Kind.CALL, self._add_requests),
        ):
            rows = np.asarray(pc.equal(batch.column("kind"), kind)) & is_timed
            if rows.any():
                add(batch.filter(pa.array(rows)))

    def result(self) -> Clocks:
        """Return what the events say of the clocks."""
        seen: Observations = defaultdict(list)
        for found in (
            observe_barriers(*self._barriers.columns()),
            observe_requests(self._asked.columns(), self._answered.columns()),
        ):
            for pair, some in found.items():
                seen[pair] += some
        moments = [one.at_ns for some in seen.values() for one in some]
        at_ns = int(np.median(moments)) if moments else 0
        offsets = spread({pair: fit(some, at_ns) for pair, some in seen.items() if some}, at_ns)
        names, alone = list(self._numbers), self._hosts - set(offsets)
        return Clocks(
            offsets=dict(sorted((names[host], offset) for host, offset in offsets.items())),
            unknown=tuple(sorted(names[host] for host in alone)) if len(self._hosts) > 1 else (),
        )

    def _add_barriers(self, batch: pa.RecordBatch) -> None:
        key = mixed(
            *(self._codes(batch, name) for name in ("job", "name")),
            *(_numbers(batch, name) for name in ("epoch", "step")),
            _coded(batch.column("file"), hash),
        )
        host, rank = self._codes(batch, "host"), _numbers(batch, "rank")
        self._barriers.add(key, host, rank, _end(batch))

    def _add_requests(self, batch: pa.RecordBatch) -> None:
        """Take in requests to other hosts, and all others, and calls, as the work on such.

        Only those that name what they are for can be matched.
        """
        host, server = self._codes(batch, "host"), self._servers(batch)
        is_asked = (server >= 0) & (server != host)
        named = [_numbers(batch, name) for name in ("step", "offset")]
        named += [_coded(batch.column(name), hash) for name in ("sample", "file")]
        key = mixed(
            self._codes(batch, "job"),
            _numbers(batch, "rank"),
            np.where(is_asked, server, host),
            *named,
        )
        is_named = np.any([column != _NULL for column in named], axis=0)
        columns = (key, host, _numbers(batch, "begin_ns"), _end(batch))
        self._asked.add(*(column[is_asked & is_named] for column in columns))
        self._answered.add(*(column[~is_asked & is_named] for column in columns))

    def _servers(self, batch: pa.RecordBatch) -> Ints:
        names = pc.replace_substring_regex(batch.column("replica"), r":\d+$", "")
        return _coded(names, self._number)

    def _codes(self, batch: pa.RecordBatch, name: str) -> Ints:
        return _coded(batch.column(name), self._number)

    def _number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))


class _Rows:
    """Rows of a key and three more columns: of too many, keys are left out, alike everywhere."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ints, ...]] = []
        self._size = 0
        self._mask = 0

    def add(self, *columns: Ints) -> None:
        self._append(columns)
        while self._size > MOST_ROWS and self._mask < MOST_ROWS:
            self._mask = 2 * self._mask + 1
            columns, self._parts, self._size = self.columns(), [], 0
            self._append(columns)

    def columns(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Return all rows, column by column."""
        nothing = (np.empty(0, np.int64),) * 4
        key, first, second, third = map(np.concatenate, zip(nothing, *self._parts, strict=True))
        return key, first, second, third

    def _append(self, columns: tuple[Ints, ...]) -> None:
        room = 2 * MOST_ROWS - self._size  # where keys are few, leaving some out is not enough
        rows = np.flatnonzero(columns[0] & self._mask == 0)[:room]
        self._parts.append(tuple(column[rows] for column in columns))
        self._size += rows.size


def _coded(column: pa.Array, number: Callable[[str], int]) -> Ints:
    """Return a number for each text, int64 [rows]; -1 for null."""
    encoded = column.dictionary_encode()
    numbers = np.array([*map(number, encoded.dictionary.to_pylist()), _NULL], np.int64)
    codes: Ints = numbers[encoded.indices.fill_null(-1).to_numpy()]
    return codes


def _numbers(batch: pa.RecordBatch, name: str) -> Ints:
    numbers: Ints = batch.column(name).fill_null(_NULL).to_numpy()
    return numbers


def _end(batch: pa.RecordBatch) -> Ints:
    return _numbers(batch, "begin_ns") + _numbers(batch, "duration_ns")
