"""Where a checkpoint's pieces lie, as arrays: what a host's ranks hand each other in no time.

The metadata of ``torch.distributed.checkpoint`` has two objects for each piece, and torch itself
looks at none of them: they are for whoever reads the files, who wants those of one rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import MetadataIndex

from headrace.storage.port import FileRange

_Numbers: TypeAlias = "npt.NDArray[np.int64]"
_Corner: TypeAlias = tuple[int, ...] | None
"""Where a piece begins in its tensor; None: it is no part of a tensor."""

_NONE = -1


class Pieces(Mapping[MetadataIndex, _StorageInfo]):
    """All pieces by what they are, in the order of their numbers, which count from 0.

    Equal to the ``storage_data`` it was made of, and made to be pickled and looked into.
    """

    def __init__(self, places: Mapping[MetadataIndex, _StorageInfo]) -> None:
        """Take what metadata says.

        Args:
            places: Piece → where it lies.
        """
        names: dict[str, int] = {}
        files: dict[str, int] = {}
        corners: list[int] = []
        rows = []
        self._transforms: dict[int, Sequence[str]] = {}
        """Of the few pieces that have any, by number."""

        for number, (index, info) in enumerate(places.items()):
            name = names.setdefault(index.fqn, len(names))
            file = files.setdefault(info.relative_path, len(files))
            dims = _NONE if index.offset is None else len(index.offset)
            hint = _NONE if index.index is None else index.index
            rows.append((name, file, info.offset, info.length, hint, dims, len(corners)))
            corners.extend(index.offset or ())
            if info.transform_descriptors:
                self._transforms[number] = info.transform_descriptors
        self._names = list(names)
        self._files = list(files)
        self._rows: _Numbers = np.array(rows, np.int64).reshape(len(rows), 7)
        self._corners: _Numbers = np.array(corners, np.int64)
        self._numbers: dict[tuple[str, _Corner], int] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_numbers": None}

    @property
    def lengths(self) -> _Numbers:
        """Of all pieces, by number [bytes]."""
        lengths: _Numbers = self._rows[:, 3]
        return lengths

    def number(self, index: MetadataIndex) -> int | None:
        """Return a piece's number; None: there is no such piece."""
        if self._numbers is None:
            self._numbers = self._numbered()
        return self._numbers.get((index.fqn, index.offset))

    def place(self, number: int) -> FileRange:
        """Return all of a piece as bytes of its file."""
        _, file, offset, length, *_ = self._rows[number].tolist()
        return FileRange(self._files[file], offset, length)

    def info(self, number: int) -> _StorageInfo:
        """Return where a piece lies, as torch says it."""
        _, file, offset, length, *_ = self._rows[number].tolist()
        return _StorageInfo(self._files[file], offset, length, self._transforms.get(number))

    def __getitem__(self, index: MetadataIndex) -> _StorageInfo:
        number = self.number(index)
        if number is None:
            raise KeyError(index)
        return self.info(number)

    def __iter__(self) -> Iterator[MetadataIndex]:
        corners = self._corners.tolist()
        for name, _, _, _, hint, dims, at in self._rows.tolist():
            yield MetadataIndex(
                self._names[name],
                _corner(corners, at, dims),
                None if hint == _NONE else hint,
            )

    def __len__(self) -> int:
        return len(self._rows)

    def _numbered(self) -> dict[tuple[str, _Corner], int]:
        corners, names = self._corners.tolist(), self._names
        return {
            (names[name], _corner(corners, at, dims)): number
            for number, (name, _, _, _, _, dims, at) in enumerate(self._rows.tolist())
        }


def _corner(corners: Sequence[int], at: int, dims: int) -> _Corner:
    return None if dims == _NONE else tuple(corners[at : at + dims])
