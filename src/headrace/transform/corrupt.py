"""Turns whatever a decoder throws at bad bytes into one error, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from headrace.core.errors import CorruptSampleError, HeadraceError

_LARGEST_DEMAND = 1 << 31
"""More than any decoder may ask for at once within the ops' limits [bytes]."""


@contextmanager
def untrusted_bytes(what: str) -> Iterator[None]:
    """Raise CorruptSampleError for any fault of a decoder inside the block.

    Parsers of hostile bytes fail in every way a parser can (OSError, struct.error,
    IndexError, SyntaxError, FFmpeg's own), and on every host alike. Two things are not the
    sample's fault and pass through: a lack of memory, and an error of headrace (storage
    that failed while a decoder was reading from it).

    Decoders also report a lack of memory when a header claims an absurd size. It was the
    header if much more memory than any good file needs can still be had.
    """
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        if _lacks_memory(error) and not _memory_is_left():
            raise MemoryError(f"no memory left while decoding {what}") from error
        raise CorruptSampleError(
            f"{what} cannot be decoded: {reason_of(error)}; replace the file or leave it out"
        ) from error


def _lacks_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "out of memory" in str(error)  # Pillow's codec error


def _memory_is_left() -> bool:
    try:
        np.empty(_LARGEST_DEMAND, np.uint8)  # address space only: no page is touched
    except MemoryError:
        return False
    return True


def reason_of(error: Exception) -> str:
    """Return an exception's message on one line, or its type where it has none."""
    return " ".join(str(error).split()) or type(error).__name__
