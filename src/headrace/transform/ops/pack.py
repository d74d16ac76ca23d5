"""Packs the texts of a batch into rows of one length, on the client."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.core.errors import ConfigError
from headrace.transform import cost
from headrace.transform.op import BatchOp, Columns
from headrace.transform.spec import Spec

Ids = npt.NDArray[np.int32]


class Pack(BatchOp, frozen=True):
    """Lay the token arrays of a batch end to end and cut them into rows of ``length``.

    No token is lost: a text that crosses the end of a row goes on in the next, and only the
    last row is padded. Makes ``tokens``, ``segments`` and ``positions``, all
    ``int32 [rows, length]``.
    """

    length: int
    """Tokens in a row."""

    eos: int | None = None
    """Token put behind every text; None puts none."""

    pad: int = 0
    """Token that fills the last row."""

    fields: tuple[str, ...] = ("tokens",)
    """The one field that holds the token arrays."""

    def __post_init__(self) -> None:
        if self.length < 1 or len(self.fields) != 1:
            raise ConfigError(
                f"pack.length={self.length} must be at least 1, and pack.fields={self.fields} one "
                "field"
            )

    def join(self, columns: Columns) -> Columns:
        """Return the batch with the token field packed.

        ``segments`` holds, per token, 1 + the text's place in the batch, 0 for padding;
        ``positions`` the token's place in its text, which goes on over a row's end.

        Raises:
            ConfigError: the field holds something else than one-dimensional integer arrays.
        """
        (field,) = self.fields
        texts = [self._text(value) for value in columns[field]]
        lengths = np.array([len(text) for text in texts], np.int64)
        segments = np.repeat(np.arange(1, len(texts) + 1, dtype=np.int32), lengths)
        positions = [np.arange(length, dtype=np.int32) for length in lengths]
        return {
            **columns,
            field: self._rows(np.concatenate(texts), self.pad),
            "segments": self._rows(segments, 0),
            "positions": self._rows(np.concatenate(positions), 0),
        }

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        return cost.TEXT * spec.nbytes

    def _text(self, value: object) -> Ids:
        if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in "iu":
            raise ConfigError(
                f"pack takes one-dimensional integer arrays in {self.fields[0]!r}, not "
                f"{type(value).__name__}; put tokenize before it"
            )
        ids = value.astype(np.int32, copy=False)
        return ids if self.eos is None else np.append(ids, np.int32(self.eos))

    def _rows(self, stream: Ids, fill: int) -> Ids:
        rows = max(1, -(-len(stream) // self.length))
        padded = np.full(rows * self.length, fill, np.int32)
        padded[: len(stream)] = stream
        return padded.reshape(rows, self.length)
