"""Packs the sequences of a batch into rows of one length, on the client."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from headrace.core.errors import ConfigError
from headrace.core.record import AnyArray
from headrace.transform import cost
from headrace.transform.op import BatchOp, Columns, Memory
from headrace.transform.ops.uneven import arrays_of, filling_of, require_one_field
from headrace.transform.spec import Spec

Ids = npt.NDArray[np.int32]

_LEAST, _MOST = np.iinfo(np.int32).min, np.iinfo(np.int32).max
_NONE = np.zeros((), np.int32)


class Pack(BatchOp, frozen=True):
    """Lay the sequences of a batch end to end and cut them into rows of ``length``.

    Nothing is lost: a sequence that crosses the end of a row goes on in the next, and only the
    last row is padded. Makes ``FIELD`` (``[rows, length, ...]``; tokens become int32), and
    ``segments`` and ``positions``, both ``int32 [rows, length]``.
    """

    length: int
    """Entries in a row."""

    eos: int | None = None
    """Token put behind every text; None puts none."""

    pad: int = 0
    """What fills the last row."""

    axis: int = 0
    """Axis of a single sample along which it is a sequence; the second of the result."""

    fields: tuple[str, ...] = ("tokens",)
    """The one field that holds the sequences: token ids, or features of frames or patches."""

    def __post_init__(self) -> None:
        require_one_field(self)
        if self.length < 1 or not (self.eos is None or _LEAST <= self.eos <= _MOST):
            raise ConfigError(
                f"pack.length={self.length} must be at least 1, and pack.eos={self.eos} None or a "
                "token of 32 bits"
            )

    def join(self, columns: Columns, memory: Memory = np.empty) -> Columns:
        """Return the batch with the field packed.

        ``segments`` holds, per entry, 1 + the sequence's place in the batch, 0 for padding;
        ``positions`` the entry's place in its sequence, which goes on over a row's end.

        Raises:
            ConfigError: the field holds something else than arrays that differ in length only.
        """
        (field,) = self.fields
        sequences = [
            self._ended(array) for array in arrays_of(columns[field], field, self.axis, self)
        ]
        lengths = [len(sequence) for sequence in sequences]
        segments = [np.full(length, n + 1, np.int32) for n, length in enumerate(lengths)]
        positions = [np.arange(length, dtype=np.int32) for length in lengths]
        return {
            **columns,
            field: self._rows(sequences, filling_of(self, "pad", sequences[0].dtype), memory),
            "segments": self._rows(segments, _NONE, memory),
            "positions": self._rows(positions, _NONE, memory),
        }

    def cost_s(self, spec: Spec) -> float:
        """Return the estimated CPU time [s]."""
        return cost.TEXT * spec.nbytes

    def _ended(self, sequence: AnyArray) -> AnyArray:
        """Return tokens as int32 with the end of a text behind them, anything else as it is."""
        if sequence.ndim == 1 and sequence.dtype.kind in "iu":
            ids = _tokens(sequence, self.fields[0])
            return ids if self.eos is None else np.append(ids, np.int32(self.eos))
        if self.eos is not None:
            raise ConfigError(
                f"pack.eos={self.eos} belongs to one-dimensional integer arrays, not to "
                f"{sequence.dtype} {list(sequence.shape)} in {self.fields[0]!r}; leave it None"
            )
        return sequence

    def _rows(self, sequences: Sequence[AnyArray], fill: AnyArray, memory: Memory) -> AnyArray:
        """Return sequences end to end in rows, the last of them filled up."""
        count, first = sum(map(len, sequences)), sequences[0]
        rows = max(1, -(-count // self.length))
        padded = memory((rows, self.length, *first.shape[1:]), first.dtype)
        entries = padded.reshape(rows * self.length, *first.shape[1:])
        np.concatenate(sequences, out=entries[:count])
        entries[count:] = fill
        return padded


def _tokens(sequence: AnyArray, field: str) -> Ids:
    """Return token ids as int32."""
    ids: Ids = sequence.astype(np.int32, copy=False)
    if ids is not sequence and not np.array_equal(ids, sequence):
        wrong = sequence[ids != sequence][0]
        raise ConfigError(
            f"{wrong} in {field!r} is no token of 32 bits; pack tokens as they are, or features "
            "with an axis more"
        )
    return ids
