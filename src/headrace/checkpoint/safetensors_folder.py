"""The layout of a folder that holds safetensors files and no index of them.

Frameworks load such files whole in each process (``load_file``): all ranks read all bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from headrace.checkpoint.layout import (
    Checkpoint,
    CheckpointFile,
    Folder,
    LayoutName,
    Piece,
    Reading,
    whole_file,
)
from headrace.checkpoint.naming import is_plain, step_of
from headrace.checkpoint.remembered import Remembered
from headrace.checkpoint.safetensors import (
    DTYPES,
    PARALLEL_HEADERS,
    Header,
    ShortFileError,
    read_header,
    read_headers,
)
from headrace.core.errors import CorruptDataError
from headrace.storage.paths import join
from headrace.storage.port import FileInfo, Storage

SUFFIX = ".safetensors"

_SHORTFALLS = Remembered[str](4096)


class SafetensorsLayout:
    """A folder with safetensors files directly in it. It has no marker."""

    @property
    def name(self) -> LayoutName:
        """``safetensors``."""
        return "safetensors"

    def recognise(self, storage: Storage, folder: Folder) -> Checkpoint | None:
        """Return the checkpoint, complete when each file is as long as its header says."""
        found = [info for info in folder.files if is_plain(info.path, SUFFIX)]
        if not found:
            return None
        return Checkpoint(
            path=folder.path,
            layout=self.name,
            step=step_of(folder.path),
            files=tuple(CheckpointFile.of(info, "weights") for info in found),
            missing=shortfall(storage, folder.path, found),
        )

    def pieces(self, storage: Storage, checkpoint: Checkpoint) -> Sequence[Piece]:
        """Return all tensors."""
        return tensors_of(storage, checkpoint, (file.path for file in checkpoint.files))

    def readings(
        self,
        storage: Storage,  # noqa: ARG002 - the files' lengths tell all
        checkpoint: Checkpoint,
        world_size: int,
    ) -> Sequence[Reading]:
        """Return that all ranks read all files."""
        ranks = range(world_size)
        return [whole_file(file, ranks, "weights") for file in checkpoint.files]


def tensors_of(storage: Storage, checkpoint: Checkpoint, files: Iterable[str]) -> list[Piece]:
    """Return the tensors of some of a checkpoint's files, which are safetensors files.

    Raises:
        CorruptDataError: a header is damaged, or two files have a tensor of the same name.
    """
    wanted = set(files)
    chosen = sorted((f for f in checkpoint.files if f.path in wanted), key=lambda f: f.path)
    infos = [FileInfo(checkpoint.file_path(f.path), f.size, f.version) for f in chosen]
    homes: dict[str, str] = {}
    pieces = []
    for file, header in zip(chosen, read_headers(storage, infos), strict=True):
        for piece in _pieces(file.path, header):
            if piece.name in homes:
                raise CorruptDataError(
                    f"{checkpoint.path}: {homes[piece.name]} and {file.path} both have a tensor "
                    f"{piece.name!r}; keep the files of one model in a folder"
                )
            homes[piece.name] = file.path
            pieces.append(piece)
    return pieces


def shortfall(storage: Storage, path: str, files: Sequence[FileInfo]) -> str:
    """Return which file of a folder does not yet hold all that its header names; empty: none.

    A file that was found whole is not looked into again as long as it is the same.

    Args:
        storage: Where they are.
        path: The folder's.
        files: Safetensors files, with paths relative to the folder.

    Raises:
        CorruptDataError: a header is damaged otherwise.
    """
    whole = [replace(file, path=join(path, file.path)) for file in files]
    if not whole:
        return ""

    def shortfall_of(file: FileInfo) -> str:
        return _SHORTFALLS.of(storage, file, lambda: _shortfall_of(storage, file))

    with ThreadPoolExecutor(min(PARALLEL_HEADERS, len(whole))) as pool:
        return next(filter(None, pool.map(shortfall_of, whole)), "")


def _shortfall_of(storage: Storage, file: FileInfo) -> str:
    try:
        read_header(storage, file)
    except ShortFileError as error:
        return str(error)
    return ""


def _pieces(file: str, header: Header) -> list[Piece]:
    """Return a file's tensors, by offset; each is whole."""
    return [
        Piece(
            name=entry.name,
            file=file,
            offset=entry.offset,
            length=entry.length,
            dtype=DTYPES[entry.dtype].torch_name,
            shape=entry.shape,
            origin=(0,) * len(entry.shape),
            whole=entry.shape,
        )
        for entry in header.tensors
    ]
