"""Says of which step or load an event is a part, and gives those their ids as spans."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.compute as pc

from headrace.trace.arrays import array_of
from headrace.trace.events import PARTS, Event, Kind

_BELOW_LOADS = frozenset({*PARTS, Kind.REQUEST, Kind.LOAD})
_PARENTS = array_of([Kind.STEP, Kind.LOAD], pa.string())
_COLUMNS = ("kind", "begin_ns", "job", "host", "rank", "pid", "step", "epoch", "sample")


class Parents:
    """Finds, in a first pass over a trace, the steps and the loads of batches, each by its name.

    What comes twice under one name, as the steps of a run that began anew, is nobody's parent:
    which of both it would be is not told. Memory grows with the number of steps.
    """

    def __init__(self) -> None:
        self._spans: dict[str, str | None] = {}
        """Name of a step or load → id of its span, none where there are several."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in events."""
        found = batch.select(_COLUMNS).filter(pc.is_in(batch["kind"], _PARENTS))
        for row in found.to_pylist():
            event = Event(**row)
            if (name := _own_name(event)) is not None:
                epochless = _name(event.kind, event, epoch=None)
                for known in {name, epochless}:
                    self._spans[known] = None if known in self._spans else name

    def own(self, event: Event) -> str | None:
        """Return the id of a step, or load, that others are parts of; None: it is no such."""
        name = _own_name(event)
        return None if name is None else self._spans.get(name)

    def of(self, event: Event) -> str | None:
        """Return the id of what an event is a part of; None: nothing that is known.

        Agents do not tell the epoch; a step's number is enough where it is one of one epoch.
        """
        if event.step is None or event.kind == Kind.STEP:
            return None
        load = None
        if event.kind in _BELOW_LOADS and _own_name(event) is None:
            load = self._spans.get(_name(Kind.LOAD, event, epoch=event.epoch))
        return load or self._spans.get(_name(Kind.STEP, event, epoch=event.epoch))


def _own_name(event: Event) -> str | None:
    """Return what a step, or the load of a batch, is called; None: it is neither."""
    is_batch = event.kind == Kind.LOAD and event.sample is None
    if event.step is None or not (is_batch or event.kind == Kind.STEP):
        return None
    return _name(event.kind, event, epoch=event.epoch)


def _name(kind: str, event: Event, *, epoch: int | None) -> str:
    """Return what is of some kind at an event's step is called."""
    process = (event.host, event.pid) if event.rank is None else event.rank
    return hex_id(8, event.job, process, str(kind), epoch, event.step)


def hex_id(nbytes: int, *parts: object) -> str:
    """Return hexadecimal digits that stand for some values; never only zeros."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=nbytes).hexdigest()
    return digest if digest.strip("0") else "1".zfill(2 * nbytes)
