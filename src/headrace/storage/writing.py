"""What writers of all stores have in common: the ``with`` block, and beginning a file anew."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self

from headrace.core.digest import Buffer
from headrace.core.errors import CallerError, StorageError
from headrace.storage.port import FileInfo, FileWriter

ATTEMPTS = 15
"""Times that a file is begun before its writing is given up."""

PAUSE_S = 0.2
"""Before a file is begun anew: nodes report what they have by and by [s]."""


class BrokenFileError(StorageError):
    """A node of the store failed while a file was written; begun anew, it may find another."""


class AbortingWriter(ABC):
    """A ``FileWriter`` whose ``with`` block leaves nothing behind unless it was committed."""

    @abstractmethod
    def write(self, data: Buffer) -> None:
        """Append bytes."""

    @abstractmethod
    def commit(self) -> FileInfo:
        """Make them durable and visible."""

    @abstractmethod
    def abort(self) -> None:
        """Leave nothing behind."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()


def write_anew(create: Callable[[], FileWriter], fill: Callable[[FileWriter], None]) -> FileInfo:
    """Write a file, begun anew as often as a node of the store fails meanwhile.

    Args:
        create: Begins the file.
        fill: Writes all of it; called for each attempt.

    Raises:
        BrokenFileError: nodes failed in all ``ATTEMPTS``.
        StorageError: the store refuses.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            with create() as writer:
                fill(writer)
                return writer.commit()
        except BrokenFileError:
            if not left:
                raise
        time.sleep(PAUSE_S)
    raise AssertionError("the last attempt returns or raises")


def ended(name: str) -> CallerError:
    """Return the error for a writer that is used after its end."""
    return CallerError(f"cannot write {name}: it was committed, aborted or broken; create it anew")


def flat(data: Buffer) -> memoryview:
    """Return a buffer of any shape and type as its bytes."""
    view = memoryview(data)
    return view.cast("B") if view.nbytes else memoryview(b"")
