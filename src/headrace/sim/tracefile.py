"""Writes the trace of a simulated run as a file that ``headrace analyze`` reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from headrace.policy.reservation.events import Action
from headrace.policy.reservation.events import Event as Told
from headrace.sim.job import SimulatedJob
from headrace.sim.policies import Floats, Omniscient, Policy, Truth
from headrace.sim.tracing import Traced
from headrace.trace.events import Event, batch_of
from headrace.trace.importer import BATCH_EVENTS
from headrace.trace.parquetfile import EventParquetWriter


def trace_path(folder: Path, policy: str) -> Path:
    """Return where in a folder the trace of a run under a policy lies."""
    return folder / f"{policy}.parquet"


@contextmanager
def traced_into(
    folder: Path, name: str, governing: Policy | Omniscient, jobs: Sequence[SimulatedJob]
) -> Iterator[Policy | Omniscient]:
    """Give a policy that does as another one does, and write what it is told when all went well.

    Its jobs are called ``POLICY/JOB``, so that runs under several policies can be told apart.

    Raises:
        StorageError: the file cannot be written.
    """
    with EventParquetWriter(trace_path(folder, name)) as writer:
        pages = _Pages(writer, name)
        if isinstance(governing, Policy):
            yield Traced(governing, jobs, pages.record)
        else:
            yield _TracedBound(governing, Traced(_Nobody(), jobs, pages.record))
        pages.write()
        writer.commit()


class _Pages:
    """Gathers events until they are worth a write."""

    def __init__(self, writer: EventParquetWriter, policy: str) -> None:
        self._writer, self._policy = writer, policy
        self._events: list[Event] = []

    def record(self, event: Event) -> None:
        self._events.append(replace(event, job=f"{self._policy}/{event.job}"))
        if len(self._events) == BATCH_EVENTS:
            self.write()

    def write(self) -> None:
        self._writer.write(batch_of(self._events))
        self._events.clear()


class _TracedBound:
    """A bound that sees the truth, and beside it what is recorded of the jobs."""

    def __init__(self, bound: Omniscient, traced: Traced) -> None:
        self._bound, self._traced = bound, traced

    def allot(self, truth: Truth) -> Floats:
        return self._bound.allot(truth)

    def handle(self, event: Told, now: float) -> list[Action]:
        return self._traced.handle(event, now)


class _Nobody:
    """Decides nothing."""

    def handle(self, event: Told, now: float) -> list[Action]:  # noqa: ARG002
        return []
