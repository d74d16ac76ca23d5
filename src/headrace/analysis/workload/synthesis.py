"""Makes a trace of events out of a model, in memory that does not grow with the trace.

Steps are synchronous: each begins for all ranks when the slowest of them has ended the one
before, and when what blocks training is over. Loads are prepared in the background and end when
the loop gets its batch. What a model does not hold is not in the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from headrace.analysis.columns import LATEST, NULL, Ints
from headrace.analysis.workload.fields import Field, nanoseconds
from headrace.analysis.workload.loads import Loads, ReadRequests
from headrace.analysis.workload.model import Model
from headrace.analysis.workload.noise import Noise
from headrace.analysis.workload.rows import Block, Row, batch_of_rows
from headrace.analysis.workload.transfers import Occurrences, host_names, occurrences
from headrace.core.errors import CallerError
from headrace.trace.events import Kind, Phase
from headrace.trace.importer import BATCH_EVENTS

START_NS = 1_767_225_600_000_000_000
"""When the job of a synthetic trace begins: 2026 [ns since 1970, UTC]."""


class Synthesis:
    """A job that a model describes, step by step.

    Raises:
        CallerError: the model's stragglers need more hosts.
    """

    def __init__(
        self, model: Model, *, ranks: int | None = None, steps: int | None = None, seed: int = 0
    ) -> None:
        """Prepare what hosts and steps share.

        Args:
            model: What the job is like.
            ranks: Instead of the model's.
            steps: Instead of the model's.
            seed: Of all random numbers; the same one leads to the same events.
        """
        noise = Noise(seed)
        self.ranks = ranks or model.ranks
        self.steps = steps or model.steps
        self._clock_ns = START_NS
        self._ranks = np.arange(self.ranks)
        hosts = self._ranks // model.ranks_per_host
        self._step = Field("step", model.step, noise, hosts=hosts, steps=self.steps)
        self._loop = _Loop(model, noise, hosts=hosts, steps=self.steps)
        self._occurrences = tuple(occurrences(model, noise, ranks=self.ranks, steps=self.steps))

    def batches(self, advanced: Callable[[int], None] = lambda _: None) -> Iterator[pa.RecordBatch]:
        """Yield events with the columns of the schema, about in the order of time; once.

        Args:
            advanced: Called with the number of steps that were made since the last call.

        Raises:
            CallerError: a time of the model, or all together, is longer than any trace.
        """
        for one in self._occurrences:
            if one.is_first:
                yield self._carried_out(one, NULL)
        block = max(1, BATCH_EVENTS // (self.ranks * self._loop.slots))
        for first in range(0, self.steps, block):
            steps = np.arange(first, min(first + block, self.steps))
            yield from self._iterated(steps)
            advanced(steps.size)

    def _iterated(self, steps: Ints) -> Iterator[pa.RecordBatch]:
        """Yield the events of some steps, then what came between them."""
        durations = nanoseconds(self._step.values(steps, self._ranks))
        begins = np.empty(steps.size, np.int64)
        between: list[pa.RecordBatch] = []
        for place, step in enumerate(steps.tolist()):
            begins[place] = self._clock_ns
            self._clock_ns += int(durations[place].max())
            self._require_time(step)
            between.extend(
                self._carried_out(one, step) for one in self._occurrences if one.is_due(step)
            )
        width = max(1, BATCH_EVENTS // self._loop.slots)
        for ranks in np.split(self._ranks, range(width, self.ranks, width)):
            yield self._loop.events(steps, ranks, begins, durations[:, ranks])
        yield from between

    def _require_time(self, step: int) -> None:
        if self._clock_ns >= LATEST:
            raise CallerError(f"step {step} would end after 2116; ask for {step} steps or fewer")

    def _carried_out(self, one: Occurrences, step: int) -> pa.RecordBatch:
        batch, slowest_ns = one.events(step, self._clock_ns)
        if one.blocks:
            self._clock_ns += slowest_ns
        return batch


class _Loop:
    """What each rank does in each step."""

    def __init__(self, model: Model, noise: Noise, *, hosts: Ints, steps: int) -> None:
        self._model = model
        self._hosts = host_names("host", hosts)
        self._wait = self._loads = self._requests = None
        self.slots = 2
        """Most events of a rank in a step."""

        if model.wait:
            self._wait = Field("wait", model.wait, noise, hosts=hosts, steps=steps)
        if model.load:
            width = model.ranks_per_host
            self._loads = Loads(model.load, noise, hosts=hosts, ranks_per_host=width, steps=steps)
            self.slots += self._loads.slots
        if model.requests:
            self._requests = ReadRequests(model.requests, noise)
            self.slots += self._requests.slots

    def events(self, steps: Ints, ranks: Ints, begins: Ints, durations: Ints) -> pa.RecordBatch:
        """Return the events of some ranks in some steps.

        Args:
            steps: Their numbers.
            ranks: Their numbers.
            begins: When each step begins [ns], [steps].
            durations: How long it takes each rank [ns], [steps, ranks].
        """
        files = self._model.requests.files if self._model.requests else None
        block = Block(
            job=self._model.name,
            phase=Phase.ITERATION,
            steps=steps,
            ranks=ranks,
            hosts=self._hosts.take(pa.array(ranks)),
            steps_per_epoch=self._model.steps_per_epoch,
            suffix=files.suffix if files else "",
        )
        rows = self._rows(steps, ranks, np.tile(begins[:, None], (1, ranks.size)), durations)
        return batch_of_rows(block, list(rows))

    def _rows(self, steps: Ints, ranks: Ints, begins: Ints, durations: Ints) -> Iterator[Row]:
        yield Row(kind=Kind.STEP, begins=begins, durations=durations)
        ready = begins
        if self._wait:
            waits = np.minimum(nanoseconds(self._wait.values(steps, ranks)), durations)
            yield Row(kind=Kind.WAIT, begins=begins, durations=waits)
            ready = begins + waits
        loads = list(self._loads.rows(steps, ranks, ready)) if self._loads else []
        yield from loads
        if self._requests:
            yield from self._requests.rows(steps, ranks, loads[0].begins if loads else begins)
