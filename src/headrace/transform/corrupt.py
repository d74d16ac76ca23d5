"""Turns whatever a decoder throws at bad bytes into one error, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.core.errors import CorruptSampleError, HeadraceError


@contextmanager
def untrusted_bytes(what: str) -> Iterator[None]:
    """Raise CorruptSampleError for any fault of a decoder inside the block.

    Parsers of hostile bytes fail in every way a parser can (OSError, struct.error,
    IndexError, SyntaxError, FFmpeg's own), and on every host alike. Two things are not the
    sample's fault and pass through: a lack of memory, and an error of headrace (storage
    that failed while a decoder was reading from it).
    """
    try:
        yield
    except (HeadraceError, MemoryError):
        raise
    except Exception as error:
        if "out of memory" in str(error):  # Pillow's codec error -9 is an OSError
            raise MemoryError(f"no memory left while decoding {what}") from error
        raise CorruptSampleError(
            f"{what} cannot be decoded: {reason_of(error)}; replace the file or leave it out"
        ) from error


def reason_of(error: Exception) -> str:
    """Return an exception's message on one line, or its type where it has none."""
    return " ".join(str(error).split()) or type(error).__name__
