"""The layout of DeepSpeed: a folder such as ``global_step100`` beside the pointer ``latest``.

Each model parallel rank has ``mp_rank_MM_model_states.pt`` (with ZeRO 3, each rank has
``zero_pp_rank_D_mp_rank_MM_model_states.pt``), and with ZeRO each rank has a share of the
optimizer, ``[bf16_]zero_pp_rank_D_mp_rank_MM_optim_states.pt``. Pipelines have
``layer_LL-model_TT-model_states.pt`` for each layer. There is no marker: ``latest`` is moved when
all ranks are done, so what is older than what it names is taken for complete if no file lacks.

**Who reads what.** A rank reads the whole model states of its part of the model, so all its
replicas read the same, and the optimizer's share that it wrote. So a checkpoint of ZeRO is loaded
by as many ranks as wrote it. Layers are taken to be divided evenly over the stages, in their
order. A universal checkpoint (``zero/PARAMETER/fp32.pt`` …, pointer ``latest_universal``) is loaded
by any number: each rank holds a part of all parameters laid end to end, taken to be in the order
of their names, and reads whole the parameters that its part touches; all read the model states.
Experts' files are listed, but who reads them cannot be told.

Source: ``deepspeed.runtime.engine`` (``_get_ckpt_name``, ``_get_zero_ckpt_name``,
``_get_all_zero_checkpoint_state_dicts``), ``deepspeed.checkpoint.universal_checkpoint``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from headrace.checkpoint.grid import Grid, grid_of, pairs
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
from headrace.checkpoint.pointers import pointer_beside, read_pointer
from headrace.checkpoint.torchfile import pieces_of_files
from headrace.core.errors import CallerError
from headrace.storage.port import Storage

POINTER, UNIVERSAL_POINTER = "latest", "latest_universal"

_UNIVERSAL = "_universal"
_MODEL = re.compile(r"mp_rank_(?P<mp>\d{2,9})_model_states\.pt$")
_ZERO = re.compile(
    r"(?:bf16_|fp16_)?zero_pp_rank_(?P<dp>\d{1,9})_mp_rank_(?P<mp>\d{2,9})"
    r"_(?P<kind>model|optim)_states\.pt$"
)
_LAYER = re.compile(r"layer_(?P<layer>\d{1,9})-model_(?P<tp>\d{2,9})-model_states\.pt$")
_EXPERT = re.compile(r"(?:layer_\d+_expert_\d+_|expert_\d+_|(?:bf16_)?expp_rank_).*_states\.pt$")
_PARAMETER = re.compile(r"(?P<parameter>zero/.+)/(?:fp32|exp_avg|exp_avg_sq|step)\.pt$")


class DeepSpeedLayout:
    """A folder with ``…_model_states.pt`` files, or with the parameters of a universal one."""

    @property
    def name(self) -> LayoutName:
        """``deepspeed``."""
        return "deepspeed"

    def recognise(self, storage: Storage, folder: Folder) -> Checkpoint | None:
        """Return the checkpoint, complete when no file lacks and the pointer has moved."""
        sorted_files = _sort(info.path for info in folder.files)
        if not sorted_files.models and not sorted_files.zeros and not sorted_files.parameters:
            return None
        pointer = UNIVERSAL_POINTER if sorted_files.parameters else POINTER
        tag = folder.path.rpartition("/")[2]
        return Checkpoint(
            path=folder.path,
            layout=self.name,
            step=_step(tag),
            files=shown_files(folder, _role),
            missing=_absent(sorted_files)
            or _unpointed(read_pointer(storage, folder, pointer), tag, pointer),
            pointer=pointer_beside(folder, pointer, tag),
        )

    def pieces(self, storage: Storage, checkpoint: Checkpoint) -> Sequence[Piece]:
        """Return the tensors of all files; of ZeRO's flat ones, not which parameters they hold."""
        names = [file.path for file in checkpoint.files if _role(file.path) != "other"]
        return pieces_of_files(storage, checkpoint, names)

    def readings(
        self,
        storage: Storage,  # noqa: ARG002 - the files' names and lengths tell all
        checkpoint: Checkpoint,
        world_size: int,
    ) -> Sequence[Reading]:
        """Return that each file is read whole, by the ranks that this module states."""
        found = _sort(file.path for file in checkpoint.files)
        if found.experts:
            raise CallerError(
                f"{checkpoint.path} has files of experts, such as {found.experts[0]}; which ranks "
                "read them cannot be told from a checkpoint of DeepSpeed"
            )
        require_whole(checkpoint, _absent(found))
        if found.parameters:
            return list(_universal_readings(checkpoint, found, world_size))
        return list(_readings(checkpoint, found, world_size))


@dataclass(frozen=True, slots=True)
class _Zero:
    """A file that one rank wrote."""

    path: str
    dp: int
    mp: int
    kind: str


@dataclass(frozen=True, slots=True)
class _Layer:
    """A file of one layer of a pipeline."""

    path: str
    layer: int
    tp: int


@dataclass(frozen=True, slots=True)
class _Files:
    """A checkpoint's files by what they are."""

    models: dict[int, str] = field(default_factory=dict)
    """By model parallel rank."""

    zeros: list[_Zero] = field(default_factory=list)
    layers: list[_Layer] = field(default_factory=list)
    experts: list[str] = field(default_factory=list)
    parameters: dict[str, list[str]] = field(default_factory=dict)
    """By parameter's folder."""

    @property
    def mp_size(self) -> int:
        """Model parallel ranks that wrote it: tensor parallel ones times stages."""
        return 1 + max((*self.models, *(zero.mp for zero in self.zeros)), default=0)

    @property
    def dp_size(self) -> int | None:
        """Data parallel ranks that wrote it; None: they wrote nothing of their own."""
        return 1 + max(zero.dp for zero in self.zeros) if self.zeros else None

    @property
    def tp_size(self) -> int:
        """Tensor parallel ranks that wrote it, which only a pipeline's layers tell apart."""
        return 1 + max((layer.tp for layer in self.layers), default=self.mp_size - 1)


def _sort(paths: Iterable[str]) -> _Files:
    files = _Files()
    for path in paths:
        if match := _MODEL.match(path):
            files.models[int(match["mp"])] = path
        elif match := _ZERO.match(path):
            files.zeros.append(_Zero(path, int(match["dp"]), int(match["mp"]), match["kind"]))
        elif match := _LAYER.match(path):
            files.layers.append(_Layer(path, int(match["layer"]), int(match["tp"])))
        elif match := _PARAMETER.match(path):
            files.parameters.setdefault(match["parameter"], []).append(path)
        elif _EXPERT.match(path):
            files.experts.append(path)
    return files


def _role(path: str) -> Role:
    if path.endswith(("_optim_states.pt", "/exp_avg.pt", "/exp_avg_sq.pt", "/step.pt")):
        return "optimizer"
    return "weights" if path.endswith(("_model_states.pt", "/fp32.pt")) else "other"


def _step(tag: str) -> int | None:
    return step_of(tag.removesuffix(_UNIVERSAL))


def _absent(files: _Files) -> str:
    """Return which rank's or parameter's file lacks although others have one; empty: none."""
    if files.parameters:
        lacking = (one for one in files.parameters if f"{one}/fp32.pt" not in files.parameters[one])
        return next((f"no {parameter}/fp32.pt yet" for parameter in lacking), "")
    kinds = {zero.kind for zero in files.zeros}
    there = {(zero.kind, zero.dp, zero.mp) for zero in files.zeros}
    for kind in sorted(kinds):
        for dp, mp in pairs(files.dp_size or 0, files.mp_size):
            if (kind, dp, mp) not in there:
                return f"no {kind} states of data parallel rank {dp}, model parallel rank {mp} yet"
    if "model" in kinds:
        return ""
    absent = (mp for mp in range(files.mp_size) if mp not in files.models)
    return next((f"no model states of model parallel rank {mp} yet" for mp in absent), "")


def _unpointed(pointed: str | None, tag: str, pointer: str) -> str:
    """Return why the pointer does not say that a checkpoint is complete; empty: it does."""
    if pointed is None:
        return f"no {pointer} beside it yet"
    here, there = _step(tag), _step(pointed)
    is_older = here is not None and there is not None and here < there
    return "" if pointed == tag or is_older else f"{pointer} names {pointed[:99]}"


def _readings(checkpoint: Checkpoint, files: _Files, world_size: int) -> Iterator[Reading]:
    grid = _grid(checkpoint, files, world_size)
    by_path = {file.path: file for file in checkpoint.files}

    def ranks_of(mp: int) -> range:
        stage, tensor = divmod(mp, grid.tensors)
        return grid.ranks_of(tensor, stage)

    for mp, path in files.models.items():
        yield whole_file(by_path[path], ranks_of(mp), path)
    for zero in files.zeros:
        yield whole_file(by_path[zero.path], ranks_of(zero.mp)[zero.dp : zero.dp + 1], zero.path)
    for layer, stage in _staged(files.layers, grid.stages):
        yield whole_file(by_path[layer.path], grid.ranks_of(layer.tp, stage), layer.path)


def _grid(checkpoint: Checkpoint, files: _Files, world_size: int) -> Grid:
    wrote = None if files.dp_size is None else files.dp_size * files.mp_size
    if wrote is not None and wrote != world_size:
        raise CallerError(
            f"{checkpoint.path} holds the optimizer's shares of {wrote} ranks and can be loaded by "
            f"as many, not by {world_size}; make a universal checkpoint of it (ds_to_universal)"
        )
    return grid_of(
        world_size,
        tensors=files.tp_size,
        stages=max(1, files.mp_size // files.tp_size),
        path=checkpoint.path,
    )


def _staged(layers: Iterable[_Layer], stages: int) -> Iterator[tuple[_Layer, int]]:
    """Yield layers' files with the stages that hold them."""
    ordered = sorted(layers, key=lambda one: (one.layer, one.tp))
    count = len({one.layer for one in ordered})
    for place, (_, alike) in enumerate(groupby(ordered, key=lambda one: one.layer)):
        for layer in alike:
            yield layer, place * stages // count


def _universal_readings(
    checkpoint: Checkpoint, files: _Files, world_size: int
) -> Iterator[Reading]:
    by_path = {file.path: file for file in checkpoint.files}
    for path in files.models.values():
        yield whole_file(by_path[path], range(world_size), path)
    weights = {name: by_path[f"{name}/fp32.pt"].size for name in sorted(files.parameters)}
    total = sum(weights.values())
    begin = 0
    for name, length in weights.items():
        first = begin * world_size // max(1, total)
        begin += length
        end = -(-begin * world_size // max(1, total))
        for path in files.parameters[name]:
            yield whole_file(by_path[path], range(first, max(first + 1, end)), path)
