"""Tells the documents apart that a window of tokens holds, on the client."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from headrace.core.errors import ConfigError
from headrace.transform import cost
from headrace.transform.op import BatchOp, Column, Columns, Memory, Rows
from headrace.transform.spec import Spec

Ids = npt.NDArray[np.int32]


class Segments(BatchOp, frozen=True):
    """Make ``segments`` and ``positions`` of windows that were cut from Megatron's files.

    Both are ``int32 [rows, N]`` as the tokens are, or lists where the rows differ in length. They
    take the place of ``documents``, which says how many tokens of each document are in a row.
    """

    fields: tuple[str, ...] = ("tokens", "documents")
    """The field of the tokens, and that of the documents' lengths."""

    def __post_init__(self) -> None:
        if len(self.fields) != 2:
            raise ConfigError(
                f"segments.fields={self.fields} must be two: tokens, and lengths of documents"
            )

    def join(self, columns: Columns, memory: Memory = np.empty) -> Columns:
        """Return the batch with the documents of each row told apart.

        ``segments`` holds, per token, 1 + its document's place in the row; ``positions`` the
        token's place in that document's part of the row, which begins with 0 in each row.

        Raises:
            ConfigError: the documents have other tokens than the rows.
        """
        tokens, documents = (columns[field] for field in self.fields)
        parts = [np.asarray(lengths, np.int32) for lengths in documents]
        self._require_same_lengths(tokens, parts)
        segments = [np.repeat(_numbers(len(part)) + 1, part) for part in parts]
        positions = [
            _numbers(len(segment)) - np.repeat(np.cumsum(part, dtype=np.int32) - part, part)
            for segment, part in zip(segments, parts, strict=True)
        ]
        others = {name: value for name, value in columns.items() if name != self.fields[1]}
        return {
            **others,
            "segments": _column(segments, memory),
            "positions": _column(positions, memory),
        }

    def rows(self, columns: Columns, rows: Mapping[str, Rows]) -> dict[str, Rows]:  # noqa: ARG002
        """Return the rows of the tokens for what is made of them."""
        return dict.fromkeys(("segments", "positions"), rows[self.fields[0]])

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        return cost.TEXT * spec.nbytes

    def _require_same_lengths(self, tokens: Column, parts: list[Ids]) -> None:
        rows = [np.asarray(row).size for row in tokens]
        if rows != [int(part.sum()) for part in parts]:
            raise ConfigError(
                f"segments finds other tokens in {self.fields[0]!r} than {self.fields[1]!r} tells "
                "of; leave tokens as they were read before it"
            )


def _numbers(count: int) -> Ids:
    return np.arange(count, dtype=np.int32)


def _column(rows: list[Ids], memory: Memory) -> Column:
    if len({len(row) for row in rows}) > 1:
        return list(rows)
    return np.stack(rows, out=memory((len(rows), len(rows[0])), np.int32))
