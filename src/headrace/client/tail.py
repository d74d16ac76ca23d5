"""The ops that the trainer runs over a whole batch, into memory of its choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from headrace.core.draws import SampleKey
from headrace.core.record import AnyArray, Record
from headrace.transform.op import Column, Memory, Rows
from headrace.transform.program import Program

_Form: TypeAlias = "tuple[np.dtype[np.generic], tuple[int, ...]]"
_Stack: TypeAlias = "tuple[str, int, np.dtype[np.generic], tuple[int, ...]]"


class Tail:
    """Finishes batches of one program. Thread-safe."""

    def __init__(self, program: Program, memory: Memory) -> None:
        self.memory = memory
        self._program = program
        self._forms: dict[_Stack, _Form | None] = {}

    def stacks(self, fields: set[str], blocks: Mapping[str, AnyArray], start: int) -> bool:
        """Tell whether the ops from ``start`` on may run over blocks instead of single samples.

        Args:
            fields: All fields of the samples.
            blocks: Those that are stacked.
            start: First op to run.
        """
        ops = self._program.ops[start : self._program.sample_ops]
        single = fields - {*blocks}
        return start >= self._program.tail_of(fields) and not any(
            op.acts_on(field) for op in ops for field in single
        )

    def run(self, record: Record, key: SampleKey, start: int) -> Record:
        """Run the remaining ops on one sample."""
        return self._program.run(record, key, start=start, stop=self._program.sample_ops)

    def run_stacked(self, blocks: Mapping[str, AnyArray], start: int) -> dict[str, AnyArray]:
        """Run the remaining ops on stacked samples ``[n, ...]``."""
        out = {
            name: place
            for name, block in blocks.items()
            if (place := self._place(name, block, start)) is not None
        }
        return self._program.run_stacked(blocks, start=start, out=out)

    def run_batch(
        self, columns: Mapping[str, Column], rows: Mapping[str, Rows]
    ) -> tuple[dict[str, Column], dict[str, Rows]]:
        """Run the ops that join samples; ``rows`` are those of columns that not all rows have."""
        return self._program.run_batch(dict(columns), rows, self.memory)

    def _place(self, name: str, block: AnyArray, start: int) -> AnyArray | None:
        """Return memory for a field's result; None where no op changes the field."""
        if not len(block):
            return None
        stack = (name, start, block.dtype, block.shape[1:])
        if stack not in self._forms:
            self._forms[stack] = self._form(name, block[:1], start)
        form = self._forms[stack]
        return None if form is None else self.memory((len(block), *form[1]), form[0])

    def _form(self, name: str, first: AnyArray, start: int) -> _Form | None:
        """Learn the form of a field's result by making one."""
        result = self._program.run_stacked({name: first}, start=start)[name]
        return None if result is first else (result.dtype, result.shape[1:])
