"""Writes one file of a file system of fsspec, aside until its end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from headrace.core.digest import Buffer
from headrace.core.errors import HeadraceError
from headrace.storage.port import FileInfo
from headrace.storage.writing import AbortingWriter, ended, flat


class FsspecWriter(AbortingWriter):
    """Writes aside, then renames over what was there. For one thread."""

    def __init__(
        self,
        file: BinaryIO,
        *,
        run: Callable[[Callable[[], object], int], object],
        publish: Callable[[], FileInfo],
        discard: Callable[[], object],
    ) -> None:
        """Write into an open file.

        Args:
            file: The one aside.
            run: Has a call done that moves so many bytes.
            publish: Gives it its name.
            discard: Removes it.
        """
        self._file: BinaryIO | None = file
        self._run = run
        self._publish = publish
        self._discard = discard

    def write(self, data: Buffer) -> None:
        """Append bytes."""
        file, view = self._begun(), flat(data)
        self._run(lambda: file.write(view), view.nbytes)

    def commit(self) -> FileInfo:
        """Close the file and rename it."""
        file = self._begun()
        self._run(file.close, 0)
        info = self._publish()
        self._file = None
        return info

    def abort(self) -> None:
        """Remove what was written aside; what went wrong before is what is told."""
        file, self._file = self._file, None
        if file is not None:
            for step in (file.close, self._discard):
                with suppress(HeadraceError):
                    self._run(step, 0)

    def _begun(self) -> BinaryIO:
        if self._file is None:
            raise ended("the file")
        return self._file
