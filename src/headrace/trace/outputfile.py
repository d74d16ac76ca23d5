"""Writes a text file that appears whole or not at all, as gzip where its name says so."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from headrace.core.errors import StorageError

_LEVEL = 4
"""Of gzip: half the time of the usual 6, a tenth larger."""


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write to, which has its name when the block ends without an error.

    A link stays, and what it names is replaced.

    Raises:
        StorageError: it cannot be written.
    """
    place = path.resolve()
    partial = place.with_name(f".{place.name}.partial")
    try:
        with partial.open("wb") as file:
            if path.suffix == ".gz":
                with gzip.GzipFile(
                    fileobj=file, mode="wb", compresslevel=_LEVEL, mtime=0
                ) as zipped:
                    yield cast(BinaryIO, zipped)
            else:
                yield file
        partial.replace(place)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}; name another place"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
