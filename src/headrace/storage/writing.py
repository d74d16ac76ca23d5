"""What writers of all stores have in common: a ``with`` block that was not committed aborts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from headrace.core.digest import Buffer
from headrace.storage.port import FileInfo


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
