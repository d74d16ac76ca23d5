"""The ops that the trainer runs over a whole batch, into memory of its choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from headrace.core.draws import SampleKey
from headrace.core.record import AnyArray, Record
from headrace.transform.op import Column, Memory, Rows
from headrace.transform.program import Program, Stack

_Form: TypeAlias = "tuple[np.dtype[np.generic], tuple[int, ...]]"
_Given: TypeAlias = "tuple[str, int, np.dtype[np.generic], tuple[int, ...]]"


class Tail:
    """Finishes batches of one program. Thread-safe."""

    def __init__(self, program: Program, memory: Memory) -> None:
        self.memory = memory
        self._program = program
        self._forms: dict[_Given, _Form | None] = {}

    def stacks(self, fields: set[str], stacks: Mapping[str, Stack], start: int) -> bool:
        """Tell whether the ops from ``start`` on may run over stacks instead of single samples.

        Args:
            fields: All fields of the samples.
            stacks: Those whose arrays have one form.
            start: First op to run.
        """
        ops = self._program.ops[start : self._program.sample_ops]
        single = fields - {*stacks}
        return start >= self._program.tail_of(fields) and not any(
            op.acts_on(field) for op in ops for field in single
        )

    def run(self, record: Record, key: SampleKey, start: int) -> Record:
        """Run the remaining ops on one sample."""
        return self._program.run(record, key, start=start, stop=self._program.sample_ops)

    def run_stacked(self, stacks: Mapping[str, Stack], start: int) -> dict[str, AnyArray]:
        """Run the remaining ops on the samples' arrays; return them in one array for each field."""
        out = {
            name: place
            for name, stack in stacks.items()
            if (place := self._place(name, stack, start)) is not None
        }
        return self._program.run_stacked(stacks, start=start, out=out)

    def run_batch(
        self, columns: Mapping[str, Column], rows: Mapping[str, Rows]
    ) -> tuple[dict[str, Column], dict[str, Rows]]:
        """Run the ops that join samples; ``rows`` are those of columns that not all rows have."""
        return self._program.run_batch(dict(columns), rows, self.memory)

    def _place(self, name: str, stack: Stack, start: int) -> AnyArray | None:
        """Return memory for a field's result; None where that is the stack as it is."""
        if not len(stack):
            return None
        first = stack[0]
        given = (name, start, first.dtype, first.shape)
        if given not in self._forms:
            self._forms[given] = self._form(name, first[np.newaxis], start)
        form = self._forms[given]
        if form is None and isinstance(stack, np.ndarray):
            return None
        dtype, shape = form or (first.dtype, first.shape)
        return self.memory((len(stack), *shape), dtype)

    def _form(self, name: str, first: AnyArray, start: int) -> _Form | None:
        """Learn the form of a field's result by making one."""
        result = self._program.run_stacked({name: first}, start=start)[name]
        return None if result is first else (result.dtype, result.shape[1:])
