"""Reads and transforms real samples, one after another, and keeps what each took."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.assess.picking import Picked, kinds_in, picks
from headrace.core.draws import SampleKey
from headrace.core.errors import CorruptDataError, HeadraceError
from headrace.dataset.index import Index
from headrace.dataset.location import Kind
from headrace.dataset.reader import SampleReader, decode_fields
from headrace.transform.explain import TimedRun, timed_run
from headrace.transform.program import Program

LISTED = 20
"""Samples that could not be used, by name; more are only counted."""

WARM_UP = 1
"""Samples of each kind that are run once without being counted: imports, first memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """One sample."""

    key: str
    kind: Kind
    row: int
    stored_bytes: int
    read_s: float
    """Time to read its bytes from here, nothing else being read [s]."""

    run: TimedRun

    @property
    def cpu_s(self) -> float:
        """CPU time of all ops [s]."""
        return sum(self.run.cpu_s)


@dataclass(slots=True)
class Measurement:
    """What was measured of a dataset."""

    samples: list[Measured] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    """Names of samples that could not be read or decoded, with why; the first few."""

    unusable_count: int = 0
    seconds: float = 0.0
    """How long it took [s]."""

    def of_kind(self, kind: str) -> list[Measured]:
        """Return the samples of one kind."""
        return [sample for sample in self.samples if sample.kind == kind]


Progress = Callable[[float], None]
"""Is told which share of the time has passed."""


def measure(
    index: Index,
    reader: SampleReader,
    program: Program,
    *,
    seconds: float,
    seed: int = 0,
    told: Progress = lambda _: None,
) -> Measurement:
    """Measure samples until the time is over, one of each kind at least.

    Args:
        index: Of the dataset.
        reader: Reads it.
        program: The pipeline.
        seconds: Time to take [s]; a sample that was begun is ended.
        seed: Decides which samples are taken.
        told: Is told of progress.
    """
    found, begin = Measurement(), time.monotonic()
    cold: dict[Kind, int] = dict.fromkeys(kinds_in(index), WARM_UP)
    seen: set[str] = set()
    for picked in picks(index, seed=seed):
        passed = time.monotonic() - begin
        told(min(passed / seconds, 1.0))
        if passed >= seconds and picked.kind in seen:
            if seen >= cold.keys():
                break
            continue
        seen.add(picked.kind)
        _measure_one(found, index, reader, program, picked, cold=cold)
    found.seconds = time.monotonic() - begin
    return found


def _measure_one(
    found: Measurement,
    index: Index,
    reader: SampleReader,
    program: Program,
    picked: Picked,
    *,
    cold: dict[Kind, int],
) -> None:
    location, key = index.location(picked.row), SampleKey(0, 0, picked.row)
    try:
        begin = time.perf_counter()
        fields = reader.read_raw(location)
        read_s = time.perf_counter() - begin
        record = decode_fields(location, fields)
        while cold[picked.kind] > 0:
            cold[picked.kind] -= 1
            timed_run(program, record, key)
        run = timed_run(program, record, key)
    except CorruptDataError as error:
        _unusable(found, location.key, error)
        return
    found.samples.append(
        Measured(
            key=location.key,
            kind=picked.kind,
            row=picked.row,
            stored_bytes=location.length,
            read_s=read_s,
            run=run,
        )
    )


def _unusable(found: Measurement, key: str, error: HeadraceError) -> None:
    found.unusable_count += 1
    if len(found.unusable) < LISTED:
        found.unusable.append(f"{key}: {error}")
