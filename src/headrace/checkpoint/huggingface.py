"""The layout of Hugging Face Transformers: a saved model, or a ``Trainer``'s ``checkpoint-N``.

``save_pretrained`` writes the weights, and their index after them when they are in several shards;
``Trainer`` adds the optimizer, the scheduler and each process's random numbers, and writes
``trainer_state.json`` last. So that is the marker of a ``checkpoint-N``; elsewhere it is the index.
No file tells how many random numbers there are to be: a rank slower than the first may write its
own after the marker.

**Who reads what.** ``from_pretrained`` and ``Trainer``'s resumption read all weights in each
process. Each process also reads the whole ``optimizer.pt``, ``scheduler.pt``, ``scaler.pt`` and
JSON files, and random numbers of its own: ``rng_state_R.pth`` is read by rank R of several,
``rng_state.pth`` by a process that is alone. ``training_args.bin`` and what a tokenizer has saved
are not read to resume. What lies in folders below (FSDP's and DeepSpeed's shards) is read as the
layout says that it is of. Source: ``transformers.Trainer``, methods
``_load_from_checkpoint``, ``_load_optimizer_and_scheduler``, ``_load_rng_state``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.checkpoint.dcp import METADATA, DcpLayout
from headrace.checkpoint.deepspeed import DeepSpeedLayout
from headrace.checkpoint.jsonobject import parse_object, shown
from headrace.checkpoint.layout import (
    Checkpoint,
    CheckpointFile,
    Folder,
    Layout,
    LayoutName,
    Piece,
    Reading,
    Role,
    whole_file,
)
from headrace.checkpoint.naming import is_hidden, is_plain, step_of
from headrace.checkpoint.safetensors_folder import SUFFIX, shortfall, tensors_of
from headrace.core.errors import CorruptDataError
from headrace.storage.paths import join
from headrace.storage.port import FileInfo, Storage

INDEX_SUFFIX = ".safetensors.index.json"
MOST_INDEX_BYTES = 100_000_000
"""An index is not read beyond this; that of a model with 100,000 tensors takes 10 MB [bytes]."""

_MOST_LETTERS = 255
"""Of a file's name, as file systems have it."""

_TRAINER_STATE = "trainer_state.json"
_CHECKPOINT = re.compile(r"checkpoint-\d{1,18}$")
_OTHER_CHECKPOINT = re.compile(r"checkpoint-\d{1,18}/")
_SHARD = re.compile(r"-\d{5}-of-\d{5}\.safetensors$")
_RANDOM = re.compile(r"rng_state(?:_(\d{1,9}))?\.pth$")
_SINGLE = "model.safetensors"
_BELOW: tuple[Layout, ...] = (DcpLayout(), DeepSpeedLayout())
_STATES = frozenset({"optimizer.pt", "scheduler.pt", "scaler.pt", _TRAINER_STATE})


class HuggingFaceLayout:
    """A folder with an index, a ``trainer_state.json``, or a model beside its ``config.json``."""

    @property
    def name(self) -> LayoutName:
        """``huggingface``."""
        return "huggingface"

    def recognise(self, storage: Storage, folder: Folder) -> Checkpoint | None:
        """Return the checkpoint; of shards, those that the index names must be there, whole."""
        infos = {info.path: info for info in folder.files if _belongs(info.path)}
        if not _is_huggingface(folder.path, infos):
            return None
        index = _index_of(infos)
        shards = {} if index is None else read_index(storage, folder.path, infos[index])
        weights = _weights(infos, shards)
        trained = _CHECKPOINT.search(folder.path) is not None or _TRAINER_STATE in infos
        marker = _TRAINER_STATE if trained else index
        return Checkpoint(
            path=folder.path,
            layout=self.name,
            step=step_of(folder.path),
            files=_marker_last(infos.values(), marker, weights),
            missing=_absent(infos, weights, marker)
            or shortfall(storage, folder.path, [infos[name] for name in sorted(weights)]),
            marker=marker,
        )

    def pieces(self, storage: Storage, checkpoint: Checkpoint) -> Sequence[Piece]:
        """Return the weights' tensors; what else there is has no parts that are read alone."""
        weights = {f.path: f for f in checkpoint.files if _is_shard(f)}
        pieces = tensors_of(storage, checkpoint, weights)
        _require_named(storage, checkpoint, pieces)
        for folder, layout, below in _shards_below(storage, checkpoint):
            found = layout.pieces(storage, below)
            pieces += [replace(piece, file=f"{folder}/{piece.file}") for piece in found]
        return pieces

    def readings(
        self,
        storage: Storage,
        checkpoint: Checkpoint,
        world_size: int,
    ) -> Sequence[Reading]:
        """Return that all ranks read all that is read, but for random numbers and FSDP's shards."""
        found = []
        for file in checkpoint.files:
            ranks = _readers(file, world_size)
            if ranks:
                found.append(whole_file(file, ranks, _shown(file)))
        for folder, layout, below in _shards_below(storage, checkpoint):
            readings = layout.readings(storage, below, world_size)
            found += [replace(reading, file=f"{folder}/{reading.file}") for reading in readings]
        return found


def read_index(storage: Storage, path: str, file: FileInfo) -> dict[str, str]:
    """Return which shard each tensor is in, as the index of a folder says.

    Args:
        storage: Where it is.
        path: The folder's.
        file: The index, its path relative to the folder.

    Raises:
        CorruptDataError: it is damaged, or names something that is no file of its folder.
        StorageError: it cannot be read.
    """
    whole = join(path, file.path)
    require_index_size(file, whole)
    return parse_index(storage.read(whole), whole)


def require_index_size(file: FileInfo, name: str) -> None:
    """Refuse an index that is longer than any is, before it is read.

    Args:
        file: The index.
        name: What it is called in errors.

    Raises:
        CorruptDataError: it is longer than ``MOST_INDEX_BYTES``.
    """
    if file.size > MOST_INDEX_BYTES:
        raise CorruptDataError(
            f"{name} has {file.size} bytes, an index has at most {MOST_INDEX_BYTES}"
        )


def parse_index(text: bytes, name: str) -> dict[str, str]:
    """Return which shard each tensor is in, as an index says.

    Args:
        text: The whole index.
        name: What it is called in errors.

    Raises:
        CorruptDataError: as ``read_index``.
    """
    shards = parse_object(text, file=name, what="index").get("weight_map")
    if not isinstance(shards, dict):
        raise CorruptDataError(f"{name}: it has no weight_map of tensors' shards; save it again")
    for tensor, shard in shards.items():
        _require_plain(shard, tensor, name)
    return shards


def _require_plain(shard: Any, tensor: str, index: str) -> None:
    plain = isinstance(shard, str) and shard.isprintable() and is_plain(shard, SUFFIX)
    if not plain or "\\" in shard or len(shard) > _MOST_LETTERS:
        raise CorruptDataError(
            f"{index}: tensor {shown(tensor)} is said to be in {shown(shard)}, which is no "
            "safetensors file directly in the index's folder; do not load this checkpoint"
        )


def _belongs(path: str) -> bool:
    """Return whether a file below a folder is part of its checkpoint and not of another one."""
    if path.endswith(f"/{METADATA}"):  # of FSDP's shards, which are DCP's
        path = path.removesuffix(METADATA)
    return not is_hidden(path) and _OTHER_CHECKPOINT.match(path) is None


def _is_huggingface(path: str, infos: Mapping[str, FileInfo]) -> bool:
    if _TRAINER_STATE in infos or _index_of(infos) is not None:
        return True
    models = [name for name in infos if is_plain(name, SUFFIX)]
    if any(_SHARD.search(name) for name in models):
        return True
    return "config.json" in infos and (bool(models) or _CHECKPOINT.search(path) is not None)


def _index_of(infos: Mapping[str, FileInfo]) -> str | None:
    """Return the index's name: the plain model's where variants of it are there too."""
    names = sorted(name for name in infos if is_plain(name, INDEX_SUFFIX))
    return min(names, key=lambda name: (len(name), name), default=None)


def _weights(infos: Mapping[str, FileInfo], shards: Mapping[str, str]) -> set[str]:
    """Return the files that are loaded: there may be others with the same tensors beside them."""
    if shards:
        return set(shards.values())
    if _SINGLE in infos:
        return {_SINGLE}
    return {name for name in infos if is_plain(name, SUFFIX)}


def _absent(infos: Mapping[str, FileInfo], weights: set[str], marker: str | None) -> str:
    """Return what is not there at all, and should be; empty: nothing."""
    absent = sorted(weights - infos.keys())
    if absent:
        return f"no {absent[0]} yet, which its index names{_and_more(len(absent) - 1)}"
    if _index_of(infos) is None and any(_SHARD.search(name) for name in weights):
        return "no index of its shards yet"
    return "" if marker is None or marker in infos else f"no {marker} yet"


def _and_more(count: int) -> str:
    return f", nor {count} more" if count else ""


def _marker_last(
    infos: Iterable[FileInfo], marker: str | None, weights: set[str]
) -> tuple[CheckpointFile, ...]:
    ordered = sorted(infos, key=lambda info: (info.path == marker, info.path))
    return tuple(CheckpointFile.of(info, _role(info.path, weights)) for info in ordered)


def _shards_below(
    storage: Storage, checkpoint: Checkpoint
) -> Iterator[tuple[str, Layout, Checkpoint]]:
    """Yield the folders with checkpoints of other layouts, as FSDP and DeepSpeed leave them."""
    folders: dict[str, list[FileInfo]] = defaultdict(list)
    for file in checkpoint.files:
        folder, _, name = file.path.partition("/")
        if name:
            folders[folder].append(FileInfo(name, file.size, file.version))
    for folder, infos in folders.items():
        below = Folder(path=checkpoint.file_path(folder), files=tuple(infos))
        found = ((layout, layout.recognise(storage, below)) for layout in _BELOW)
        yield from ((folder, layout, one) for layout, one in found if one is not None)


def _role(path: str, weights: set[str]) -> Role:
    if path.endswith(f"/{METADATA}"):
        return "metadata"
    if path.startswith("optimizer") or path.endswith("_optim_states.pt"):
        return "optimizer"
    if path in weights or path.startswith("pytorch_model") or path.endswith("_model_states.pt"):
        return "weights"
    if path in _STATES or _RANDOM.match(path):
        return "state"
    return "metadata" if path.endswith((INDEX_SUFFIX, "config.json")) else "other"


def _is_shard(file: CheckpointFile) -> bool:
    return file.role == "weights" and is_plain(file.path, SUFFIX)


def _require_named(storage: Storage, checkpoint: Checkpoint, pieces: Sequence[Piece]) -> None:
    """Refuse an index that names a tensor in a file that does not have it."""
    infos = {f.path: FileInfo(f.path, f.size, f.version) for f in checkpoint.files}
    index = _index_of(infos)
    if index is None:
        return
    homes = {piece.name: piece.file for piece in pieces}
    for tensor, shard in read_index(storage, checkpoint.path, infos[index]).items():
        if homes.get(tensor) != shard:
            raise CorruptDataError(
                f"{checkpoint.file_path(index)}: tensor {shown(tensor)} is said to be in {shard}, "
                "which has none of that name; save the checkpoint again"
            )


def _readers(file: CheckpointFile, world_size: int) -> range:
    random = _RANDOM.match(file.path)
    if random is not None:
        alone, rank = random.group(1) is None, int(random.group(1) or 0)
        reads = rank < world_size and alone == (world_size == 1)
        return range(rank, rank + 1) if reads else range(0)
    return range(world_size if file.role != "other" and "/" not in file.path else 0)


def _shown(file: CheckpointFile) -> str:
    return "random numbers" if _RANDOM.match(file.path) else file.path
