"""Synthetic transfers: checkpoints read and saved, logits written, by many ranks at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.analysis.columns import NULL, Ints
from headrace.analysis.workload.distributions import Curve
from headrace.analysis.workload.fields import Field, nanoseconds
from headrace.analysis.workload.loads import whole
from headrace.analysis.workload.model import Model, Transfer
from headrace.analysis.workload.noise import Noise
from headrace.analysis.workload.rows import Block, Row, batch_of_rows
from headrace.trace.events import Kind, Phase


class _Sort(NamedTuple):
    """What a transfer of a model is in a trace."""

    kind: Kind
    phase: Phase
    is_write: bool


_SORTS = {
    "checkpoint_read": _Sort(Kind.CHECKPOINT_READ, Phase.INITIALISATION, is_write=False),
    "checkpoint_save": _Sort(Kind.CHECKPOINT_SAVE, Phase.ITERATION, is_write=True),
    "logits_write": _Sort(Kind.LOGITS_WRITE, Phase.ITERATION, is_write=True),
    "evaluation": _Sort(Kind.CHECKPOINT_READ, Phase.EVALUATION, is_write=False),
}


class Occurrences:
    """A transfer of the model, as often as it occurs."""

    def __init__(
        self, name: str, model: Model, transfer: Transfer, noise: Noise, *, ranks: int, steps: int
    ) -> None:
        self._name, self._model, self._transfer, self._noise = name, model, transfer, noise
        self._ranks = np.arange(transfer.ranks or ranks)
        hosts = self._ranks // model.ranks_per_host
        self._hosts = host_names("evaluation" if name == "evaluation" else "host", hosts)
        period = transfer.period_steps
        times = steps // period if period else 1
        self._seconds = Field(name, transfer.seconds, noise, hosts=hosts, steps=max(1, times))
        self._curve = Curve(transfer.bytes) if transfer.bytes else None

    @property
    def blocks(self) -> bool:
        """Whether the job waits for it."""
        return self._transfer.blocks

    @property
    def is_first(self) -> bool:
        """Whether it is carried out before the first step, and never again."""
        return not self._transfer.period_steps

    def is_due(self, step: int) -> bool:
        """Tell whether it is carried out after a step."""
        period = self._transfer.period_steps
        return bool(period) and (step + 1) % period == 0

    def events(self, step: int, begin_ns: int) -> tuple[pa.RecordBatch, int]:
        """Return the events after a step, or before all, and how long the slowest takes [ns]."""
        time = np.array([0 if self.is_first else (step + 1) // self._transfer.period_steps - 1])
        durations = nanoseconds(self._seconds.values(time, self._ranks))
        sort = _SORTS[self._name]
        row = Row(
            kind=sort.kind,
            begins=np.full_like(durations, begin_ns),
            durations=durations,
            bytes=self._sizes(time),
            is_write=sort.is_write,
        )
        block = Block(
            job=self._model.name + ("-evaluation" if sort.phase is Phase.EVALUATION else ""),
            phase=sort.phase,
            steps=np.array([NULL if self.is_first else step]),
            ranks=self._ranks,
            hosts=self._hosts,
        )
        return batch_of_rows(block, [row]), int(durations.max())

    def _sizes(self, time: Ints) -> Ints | None:
        if self._curve is None:
            return None
        return whole(self._curve(self._noise.normals(f"{self._name}/bytes", time, self._ranks)))


def occurrences(model: Model, noise: Noise, *, ranks: int, steps: int) -> Iterator[Occurrences]:
    """Yield all transfers of a model."""
    for name, transfer in model.transfers().items():
        yield Occurrences(name, model, transfer, noise, ranks=ranks, steps=steps)


def host_names(prefix: str, hosts: Ints) -> pa.StringArray:
    """Return the name of each rank's host."""
    names = [f"{prefix}-{host:05d}" for host in range(int(hosts[-1]) + 1)]
    return pa.array(names, pa.string()).take(pa.array(hosts))
