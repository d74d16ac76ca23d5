"""The layout of ``torch.distributed.checkpoint``; torchtitan's ``step-N`` is one.

Each rank writes ``__R_0.distcp`` (and ``__R_1.distcp`` … with several threads); then rank 0 writes
``.metadata``, which says where each chunk is, so that is the marker. Without collectives each rank
writes a ``__R.metadata`` of its own instead, and there is no marker. Megatron's ``torch_dcp`` and
``fsdp_dtensor`` are the same in ``iter_NNNNNNN``, which a pointer names.

**Who reads what.** All ranks read ``.metadata``, every object that is no tensor, and every tensor
that is in one chunk. A tensor in as many chunks as there are ranks is read as it was written: each
rank reads the chunk of its number, in the order of their places. Any other is divided as FSDP
does it: its rows (first dimension) over the ranks as ``torch.chunk`` does, and each rank reads
every chunk that holds some of its rows. Torch reads a chunk whole even if it needs a part. What
cannot be known from the files: ranks beside those of FSDP (tensor or pipeline parallel, replicas)
make other readers of the same bytes. Where each rank has metadata of its own, rank R reads the
files of rank R. Source: ``torch.distributed.checkpoint``, ``planner_helpers`` and ``filesystem``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from math import prod

from headrace.checkpoint.dcpmetadata import parse_metadata
from headrace.checkpoint.dcppieces import lengths_of, pieces_of
from headrace.checkpoint.iterations import iteration_pointer
from headrace.checkpoint.layout import (
    MOST_METADATA_BYTES,
    Checkpoint,
    CheckpointFile,
    Folder,
    LayoutName,
    Piece,
    Reading,
    Role,
    whole_file,
)
from headrace.checkpoint.naming import is_hidden, step_of
from headrace.checkpoint.remembered import Remembered
from headrace.core.errors import CallerError, CorruptDataError
from headrace.storage.paths import join
from headrace.storage.port import FileInfo, Storage

METADATA = ".metadata"
SHARD_SUFFIX = ".distcp"

_RANK_METADATA = re.compile(r"__(\d{1,9})\.metadata$")
_LENGTHS = Remembered[Mapping[str, int]](512)


class DcpLayout:
    """A folder with ``.metadata``, or with shards for which it is still to come."""

    @property
    def name(self) -> LayoutName:
        """``dcp``."""
        return "dcp"

    def recognise(self, storage: Storage, folder: Folder) -> Checkpoint | None:
        """Return the checkpoint, complete when each shard can hold what the metadata says."""
        infos = {info.path: info for info in folder.files}
        if not is_dcp(storage, folder.path, infos):
            return None
        metadata = metadata_files(infos)
        lengths = needed_lengths(storage, folder.path, [infos[name] for name in metadata])
        of_ranks = metadata and METADATA not in infos
        return Checkpoint(
            path=folder.path,
            layout=self.name,
            step=step_of(folder.path),
            files=files_of(infos, lengths, last=metadata),
            missing=_unready(infos, metadata) or shortfall(infos, lengths),
            marker=None if of_ranks else METADATA,
            pointer=iteration_pointer(folder),
        )

    def pieces(self, storage: Storage, checkpoint: Checkpoint) -> Sequence[Piece]:
        """Return all shards and objects."""
        return stored_pieces(storage, checkpoint)

    def readings(
        self, storage: Storage, checkpoint: Checkpoint, world_size: int
    ) -> Sequence[Reading]:
        """Return what each rank reads, by the rule that this module states."""
        require_ranks(world_size)
        by_path = {file.path: file for file in checkpoint.files}
        names = metadata_files(by_path)
        if METADATA in names or not names:
            pieces = stored_pieces(storage, checkpoint)
            everybody = range(world_size)
            found = [whole_file(by_path[METADATA], everybody, "metadata")]
            return found + [
                reading for one in by_name(pieces) for reading in _divide(one, world_size)
            ]
        _require_same_size(checkpoint, len(names), world_size)
        return list(_each_its_own(storage, checkpoint, [by_path[name] for name in names]))


def require_ranks(world_size: int) -> None:
    """Return if a job can have so many ranks.

    Raises:
        CallerError: it cannot.
    """
    if world_size < 1:
        raise CallerError(f"a job of {world_size} ranks reads nothing; it has at least 1")


def is_dcp(storage: Storage, path: str, infos: Mapping[str, FileInfo]) -> bool:
    """Tell whether a folder holds shards of DCP, or a ``.metadata`` that is DCP's."""
    if any(name.endswith(SHARD_SUFFIX) and "/" not in name for name in infos):
        return True
    if METADATA not in infos:
        return False
    head = storage.read(join(path, METADATA), 0, min(infos[METADATA].size, 512))
    return b"checkpoint" in head and b"Metadata" in head


def require_metadata_size(path: str, size: int) -> None:
    """Return if a file can be metadata, by its length [bytes].

    Raises:
        CorruptDataError: it is longer than any is.
    """
    if size > MOST_METADATA_BYTES:
        raise CorruptDataError(
            f"{path} has {size:,} bytes, more than the {MOST_METADATA_BYTES:,} that are read of "
            "metadata; it is something else"
        )


def metadata_files(paths: Iterable[str]) -> list[str]:
    """Return ``.metadata``, or else each rank's own, by rank; neither: no names."""
    paths = set(paths)
    if METADATA in paths:
        return [METADATA]
    found = [
        (int(match.group(1)), match.string) for match in map(_RANK_METADATA.match, paths) if match
    ]
    return [name for _, name in sorted(found)]


def files_of(
    infos: Mapping[str, FileInfo], lengths: Mapping[str, int], *, last: Sequence[str]
) -> tuple[CheckpointFile, ...]:
    """Return the files of a checkpoint, those last that say that all others are there.

    Args:
        infos: Of its folder and those below it.
        lengths: Has the shards that its metadata names.
        last: Names in their order.
    """
    others = {name.rpartition("/")[0] for name in infos if "/" in name and _is_stored(name)}
    names = [name for name in infos if name in lengths or _belongs(name, others)]
    shown = [name for name in sorted(names) if name not in last] + [n for n in last if n in infos]
    return tuple(CheckpointFile.of(infos[name], _role(name)) for name in shown)


def needed_lengths(storage: Storage, path: str, metadata: Sequence[FileInfo]) -> dict[str, int]:
    """Return how long each shard must be, by what metadata files of a folder say [bytes].

    Raises:
        CorruptDataError: they are damaged or hostile.
        StorageError: they cannot be read.
    """
    lengths: dict[str, int] = {}
    for info in metadata:
        for name, length in _lengths(storage, replace(info, path=join(path, info.path))).items():
            lengths[name] = max(lengths.get(name, 0), length)
    return lengths


def shortfall(infos: Mapping[str, FileInfo], lengths: Mapping[str, int]) -> str:
    """Return which file is not there or too short; empty: none."""
    absent = sorted(name for name in lengths if name not in infos)
    if absent:
        more = f" and {len(absent) - 1:,} others" if len(absent) > 1 else ""
        return f"no {absent[0]}{more} yet"
    for name, length in lengths.items():
        if infos[name].size < length:
            return f"{name} has {infos[name].size:,} of {length:,} bytes"
    return ""


def stored_pieces(storage: Storage, checkpoint: Checkpoint) -> list[Piece]:
    """Return all shards and objects, by file and offset; files are long enough for them.

    Raises:
        CorruptDataError: the metadata is damaged or hostile, or a file is not there or too short.
    """
    infos = {f.path: FileInfo(f.path, f.size, f.version) for f in checkpoint.files}
    metadata = metadata_files(infos)
    found = [_pieces(storage, checkpoint.file_path(name), infos[name].size) for name in metadata]
    pieces = [piece for one in found for piece in one]
    short = shortfall(infos, lengths_of(pieces))
    if short or not metadata:
        raise CorruptDataError(
            f"{checkpoint.path or storage.url}: {short or 'no .metadata yet'}, so the checkpoint "
            "cannot be read; wait until it is written, or use another"
        )
    return pieces


def by_name(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Return the chunks of each tensor or object, in the order of their places in it."""
    ordered = sorted(pieces, key=lambda piece: (piece.name, piece.origin))
    return [list(group) for _, group in groupby(ordered, key=lambda piece: piece.name)]


def reading_of(piece: Piece, ranks: range) -> Reading:
    """Return that some ranks read a piece."""
    return Reading(
        file=piece.file, offset=piece.offset, length=piece.length, ranks=ranks, what=piece.name
    )


def _lengths(storage: Storage, file: FileInfo) -> Mapping[str, int]:
    return _LENGTHS.of(storage, file, lambda: lengths_of(_pieces(storage, file.path, file.size)))


def _pieces(storage: Storage, path: str, size: int) -> tuple[Piece, ...]:
    require_metadata_size(path, size)
    return _parsed(storage.read(path, 0, size), path, path.rpartition("/")[2] == METADATA)


@lru_cache(maxsize=1)
def _parsed(data: bytes, what: str, whole: bool) -> tuple[Piece, ...]:
    return pieces_of(parse_metadata(data, what=what), what=what, whole=whole)


def _divide(chunks: Sequence[Piece], world_size: int) -> Iterator[Reading]:
    filled = [chunk for chunk in chunks if prod(chunk.shape) > 0]
    if len(chunks) == 1:
        yield reading_of(chunks[0], range(world_size))
    elif len(filled) == world_size:
        for rank, chunk in enumerate(filled):
            yield reading_of(chunk, range(rank, rank + 1))
    elif filled:
        rows = -(-filled[0].whole[0] // world_size)
        for chunk in filled:
            first, last = chunk.origin[0], chunk.origin[0] + chunk.shape[0] - 1
            yield reading_of(chunk, range(first // rows, last // rows + 1))


def _each_its_own(
    storage: Storage, checkpoint: Checkpoint, metadata: Sequence[CheckpointFile]
) -> Iterator[Reading]:
    for rank, file in enumerate(metadata):
        ranks = range(rank, rank + 1)
        yield whole_file(file, ranks, "metadata")
        for piece in _pieces(storage, checkpoint.file_path(file.path), file.size):
            yield reading_of(piece, ranks)


def _require_same_size(checkpoint: Checkpoint, saved_by: int, world_size: int) -> None:
    if world_size != saved_by:
        raise CallerError(
            f"{checkpoint.name} was written by {saved_by} ranks without collectives, each with "
            f"metadata of its own, so {world_size} ranks cannot load it; load it with {saved_by}"
        )


def _unready(infos: Mapping[str, FileInfo], metadata: Sequence[str]) -> str:
    """Return which metadata is not there yet; empty: all is."""
    if metadata == [METADATA]:
        return ""
    if not metadata:
        return "no .metadata yet"
    ranks = {name[2:].partition("_")[0] for name in infos if name.endswith(SHARD_SUFFIX)}
    absent = sorted(
        f"__{rank}{METADATA}" for rank in ranks if f"__{rank}{METADATA}" not in metadata
    )
    return f"no {absent[0]} yet" if absent else ""


def _is_stored(path: str) -> bool:
    return path.endswith(SHARD_SUFFIX) or path.rpartition("/")[2] == METADATA


def _belongs(path: str, others: Set[str]) -> bool:
    """Tell whether a file is part of the checkpoint, and not hidden, temporary or of another."""
    if path == METADATA:
        return True
    if path.endswith(".tmp") or is_hidden(path):
        return False
    parts = path.split("/")
    return others.isdisjoint("/".join(parts[:depth]) for depth in range(1, len(parts)))


def _role(path: str) -> Role:
    if path.endswith(SHARD_SUFFIX):
        return "weights"
    if path.endswith(METADATA) or path == "metadata.json":
        return "metadata"
    return "state" if path.endswith((".pt", ".pth")) else "other"
