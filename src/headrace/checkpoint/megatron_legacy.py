"""The layout that Megatron-LM calls ``torch``: ``iter_NNNNNNN/mp_rank_TT[_PPP]/…``.

Each part of the model has a folder with ``model_optim_rng.pt`` and, with the distributed optimizer,
``distrib_optim.pt``. There is no marker: ``latest_checkpointed_iteration.txt`` beside the folder
is moved when all ranks are done.

**Who reads what.** Every rank reads the whole ``model_optim_rng.pt`` of its part of the model, so
all data parallel ranks read the same; the first of them reads ``distrib_optim.pt`` and sends the
others their shares. The job must have as many tensor parallel ranks and stages as wrote it.
What cannot be known from the names: whether the second number is a stage, or, in a job without
stages, an expert parallel rank; it is taken for a stage.

Source: ``megatron.training.checkpointing``, ``get_checkpoint_name``;
``megatron.core.optimizer.distrib_optimizer``, ``load_parameter_state``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from headrace.checkpoint.grid import Grid, grid_of, pairs
from headrace.checkpoint.iterations import POINTER, RELEASE, iteration_pointer
from headrace.checkpoint.layout import (
    Checkpoint,
    Folder,
    LayoutName,
    Piece,
    Reading,
    Role,
    require_whole,
    shown_files,
    whole_file,
)
from headrace.checkpoint.naming import step_of
from headrace.checkpoint.pointers import read_pointer
from headrace.checkpoint.torchfile import pieces_of_files
from headrace.core.errors import CorruptDataError
from headrace.storage.port import Storage

_MODEL, _OPTIMIZER = "model_optim_rng.pt", "distrib_optim.pt"
_FILE = re.compile(rf"mp_rank_(\d{{2,9}})(?:_(\d{{3,9}}))?/({_MODEL}|{_OPTIMIZER})$")


class MegatronLegacyLayout:
    """A folder ``iter_NNNNNNN`` or ``release`` with ``mp_rank_…`` folders in it."""

    @property
    def name(self) -> LayoutName:
        """``megatron-legacy``."""
        return "megatron-legacy"

    def recognise(self, storage: Storage, folder: Folder) -> Checkpoint | None:
        """Return the checkpoint, complete when no part is missing and the pointer has moved."""
        pointer = iteration_pointer(folder)
        parts = _parts(info.path for info in folder.files)
        if pointer is None or not parts:
            return None
        iteration = step_of(folder.path)
        pointed = read_pointer(storage, folder, POINTER)
        return Checkpoint(
            path=folder.path,
            layout=self.name,
            step=iteration,
            files=shown_files(folder, _role),
            missing=_absent(parts) or _unpointed(pointed, iteration),
            pointer=pointer,
        )

    def pieces(self, storage: Storage, checkpoint: Checkpoint) -> Sequence[Piece]:
        """Return the tensors of all files; how a tensor is divided over files is not told."""
        names = [file.path for file in checkpoint.files if _FILE.match(file.path)]
        return pieces_of_files(storage, checkpoint, names)

    def readings(
        self,
        storage: Storage,  # noqa: ARG002 - the files' names and lengths tell all
        checkpoint: Checkpoint,
        world_size: int,
    ) -> Sequence[Reading]:
        """Return that each file is read whole, by the ranks that this module states."""
        parts = _parts(file.path for file in checkpoint.files)
        require_whole(checkpoint, _absent(parts))
        grid = grid_of(
            world_size,
            tensors=1 + max(tensor for tensor, _ in parts),
            stages=1 + max(stage for _, stage in parts),
            path=checkpoint.path,
        )
        return [
            whole_file(file, _readers(match, grid), file.path)
            for file in checkpoint.files
            if (match := _FILE.match(file.path))
        ]


Parts = Mapping[tuple[int, int], set[str]]
"""Names of the files of each part of the model, by tensor parallel rank and stage."""


def _parts(paths: Iterable[str]) -> Parts:
    parts: dict[tuple[int, int], set[str]] = defaultdict(set)
    for match in filter(None, map(_FILE.match, paths)):
        parts[int(match.group(1)), int(match.group(2) or 0)].add(match.group(3))
    return parts


def _absent(parts: Parts) -> str:
    """Return which file of a part is not there although others have it; empty: none."""
    tensors, stages = (1 + max(numbers) for numbers in zip(*parts, strict=True))
    names = set().union(*parts.values(), {_MODEL})
    for part in pairs(tensors, stages):
        lacking = sorted(names - parts.get(part, set()))
        if lacking:
            return f"no {lacking[0]} of tensor parallel rank {part[0]} in stage {part[1]} yet"
    return ""


def _unpointed(pointed: str | None, iteration: int | None) -> str:
    """Return why the pointer does not say that a checkpoint is complete; empty: it does."""
    if pointed is None:
        return f"no {POINTER} beside it yet"
    if pointed == RELEASE or iteration is None:
        return "" if pointed == RELEASE and iteration is None else f"{POINTER} names {pointed}"
    if not pointed.isdecimal():
        raise CorruptDataError(f"{POINTER} holds {pointed[:40]!r}, which is no iteration")
    return "" if iteration <= int(pointed) else f"{POINTER} still names {pointed}"


def _role(path: str) -> Role:
    match = _FILE.match(path)
    if match is None:
        return "other"
    return "weights" if match.group(3) == _MODEL else "optimizer"


def _readers(match: re.Match[str], grid: Grid) -> range:
    replicas = grid.ranks_of(int(match.group(1)), int(match.group(2) or 0))
    return replicas if match.group(3) == _MODEL else replicas[:1]
