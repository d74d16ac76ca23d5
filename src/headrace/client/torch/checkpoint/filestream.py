"""A file of a store as ``torch.save`` writes to one: digested, counted, held to a rate."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.checkpoint.manifest import Digester
from headrace.client.limiter import DirectLimiter
from headrace.core.errors import HeadraceError
from headrace.storage.port import FileWriter
from headrace.storage.writing import flat

if TYPE_CHECKING:
    from typing_extensions import Buffer

Wrote = Callable[[int, int, float], None]
"""Is told of the offset and the length of what was written [bytes], and when that began,
monotonic [s]."""

PIECE_BYTES = 4 << 20
"""Longest write to the store, and longest step of the rate limit [bytes]."""


class FileStream(io.RawIOBase):
    """Passes on what is written in pieces of a useful size. For one thread.

    ``torch.save`` writes a header in some twenty small writes, and the numbers in one. When one of
    them fails it still tries to end its archive, and raises what comes of that instead: so
    nothing is written after a failure, and the failure is kept.
    """

    def __init__(self, writer: FileWriter, limiter: DirectLimiter, wrote: Wrote) -> None:
        """Begin a file.

        Args:
            writer: Takes it.
            limiter: Holds it to a rate.
            wrote: Called with what the store took.
        """
        super().__init__()
        self._wrote = wrote
        self._passed_on = 0
        self._writer = writer
        self._limiter = limiter
        self._digester = Digester()
        self._pending = bytearray()
        self._position = 0
        self.failure: HeadraceError | None = None
        """Why the store did not take what was written; None: it did."""

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes that were written."""
        return self._position

    def write(self, data: Buffer, /) -> int:
        """Append bytes; they may still be in memory when this returns."""
        view = flat(memoryview(data))
        self._position += len(view)
        if len(self._pending) + len(view) < PIECE_BYTES:
            self._pending += view
        else:
            self.flush()
            for begin in range(0, len(view), PIECE_BYTES):
                self._pass_on(view[begin : begin + PIECE_BYTES])
        return len(view)

    def flush(self) -> None:
        """Hand over to the store what was held back."""
        pending, self._pending = self._pending, bytearray()
        if pending:
            self._pass_on(memoryview(pending))

    def digests(self) -> tuple[str, ...]:
        """Return those of the chunks that were handed over, as a manifest has them."""
        return self._digester.digests()

    def _pass_on(self, piece: memoryview) -> None:
        if self.failure is not None:
            raise self.failure
        self._limiter.wait(len(piece))
        self._digester.update(piece)
        begin = time.monotonic()
        try:
            self._writer.write(piece)
        except HeadraceError as error:
            self.failure = error
            raise
        self._wrote(self._passed_on, len(piece), begin)
        self._passed_on += len(piece)
