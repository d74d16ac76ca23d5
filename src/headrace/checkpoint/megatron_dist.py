"""The layout of Megatron-Core's ``torch_dist``: DCP's files beside ``common.pt``.

Rank 0 writes ``common.pt``, all ranks write shards, then come ``.metadata`` and, last,
``metadata.json``, which is the marker; ``latest_checkpointed_iteration.txt`` in the folder above
points to the newest ``iter_NNNNNNN``.

**Who reads what.** All ranks read ``metadata.json``, ``.metadata`` and ``common.pt``. A tensor, or
an object that each rank has one of (``…/shard_I_N``), in n chunks is taken to be read evenly: by
n ranks or more, chunk i is read by the ranks i, i + n, i + 2n …, as tensor parallel ranks are
neighbours; by fewer, each rank reads consecutive chunks. So a tensor in one chunk is read by all.
What cannot be known from the files: how many ranks hold replicas, and of which pipeline stage they
are. Source: ``megatron.core.dist_checkpointing``, ``serialization`` and ``strategies.torch``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from headrace.checkpoint.dcp import (
    METADATA,
    by_name,
    files_of,
    is_dcp,
    needed_lengths,
    reading_of,
    require_ranks,
    shortfall,
    stored_pieces,
)
from headrace.checkpoint.iterations import iteration_pointer
from headrace.checkpoint.layout import (
    Checkpoint,
    Folder,
    LayoutName,
    Piece,
    Reading,
    whole_file,
)
from headrace.checkpoint.naming import step_of
from headrace.storage.port import FileInfo, Storage

MARKER = "metadata.json"

_COMMON = "common.pt"
_SHARD_OF = re.compile(r"/shard_[\d.]+_[\d.]+$")


class MegatronDistLayout:
    """A folder with DCP's files and ``common.pt``, which is there before them."""

    @property
    def name(self) -> LayoutName:
        """``megatron-dist``."""
        return "megatron-dist"

    def recognise(self, storage: Storage, folder: Folder) -> Checkpoint | None:
        """Return the checkpoint, complete when its marker and all shards are there."""
        infos = {info.path: info for info in folder.files}
        if _COMMON not in infos or not is_dcp(storage, folder.path, infos):
            return None
        metadata = [infos[METADATA]] if METADATA in infos else []
        lengths = needed_lengths(storage, folder.path, metadata)
        return Checkpoint(
            path=folder.path,
            layout=self.name,
            step=step_of(folder.path),
            files=files_of(infos, lengths, last=(METADATA, MARKER)),
            missing=_unready(infos) or shortfall(infos, lengths),
            marker=MARKER,
            pointer=iteration_pointer(folder),
        )

    def pieces(self, storage: Storage, checkpoint: Checkpoint) -> Sequence[Piece]:
        """Return all shards and objects in DCP's files."""
        return stored_pieces(storage, checkpoint)

    def readings(
        self, storage: Storage, checkpoint: Checkpoint, world_size: int
    ) -> Sequence[Reading]:
        """Return what each rank reads, by the rule that this module states."""
        require_ranks(world_size)
        shared = (METADATA, MARKER, _COMMON)
        found = [
            whole_file(file, range(world_size), "metadata" if file.path != _COMMON else _COMMON)
            for file in checkpoint.files
            if file.path in shared
        ]
        for chunks in by_name(map(_as_chunk, stored_pieces(storage, checkpoint))):
            found += _share(chunks, world_size)
        return found


def _unready(infos: Mapping[str, FileInfo]) -> str:
    absent = [name for name in (METADATA, MARKER) if name not in infos]
    return f"no {absent[0]} yet" if absent else ""


def _as_chunk(piece: Piece) -> Piece:
    """Return an object that each rank has one of as if it were a chunk of one object."""
    if piece.dtype is not None:
        return piece
    return replace(piece, name=_SHARD_OF.sub("", piece.name), origin=(piece.offset,))


def _share(chunks: Sequence[Piece], world_size: int) -> Iterator[Reading]:
    count = len(chunks)
    for place, chunk in enumerate(chunks):
        if count <= world_size:
            ranks = range(place, world_size, count)
        else:
            rank = place * world_size // count
            ranks = range(rank, rank + 1)
        yield reading_of(chunk, ranks)
