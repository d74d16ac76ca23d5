"""Values that describe a checkpoint, and what each layout must be able to tell.

A layout is how a framework lays a training state out in files. Everything here is told by the
names of files, by headers and by metadata; tensors are never read, and nothing is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from headrace.checkpoint.naming import is_hidden
from headrace.core.errors import CorruptDataError
from headrace.storage.paths import join
from headrace.storage.port import FileInfo, Storage

LayoutName = Literal[
    "dcp",  # torch.distributed.checkpoint; torchtitan's step-N
    "megatron-dist",  # Megatron-Core torch_dist: DCP's files beside its own
    "megatron-legacy",  # mp_rank_XX/model_optim_rng.pt
    "deepspeed",  # ZeRO: mp_rank_XX_model_states.pt, zero_pp_rank_…_optim_states.pt
    "huggingface",  # Trainer's checkpoint-N, or a model in shards with an index
    "safetensors",  # files without an index
]

Role = Literal["metadata", "weights", "optimizer", "state", "other"]
"""What a file holds; ``weights`` may hold an optimizer's state as well where a layout mixes them,
``state`` is what else a trainer resumes from (random numbers, data position)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointFile:
    """One file of a checkpoint."""

    path: str
    """Relative to the checkpoint's folder."""

    size: int
    version: str
    """As ``FileInfo.version``."""

    role: Role

    @classmethod
    def of(cls, info: FileInfo, role: Role) -> CheckpointFile:
        """Return a file that was listed; its path there is relative to the checkpoint's folder."""
        return cls(path=info.path, size=info.size, version=info.version, role=role)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pointer:
    """A file beside checkpoints that names the newest one (``latest`` and the like)."""

    path: str
    """Relative to the checkpoints' root, as are the checkpoints' own paths."""

    content: bytes
    """What it holds when it points to this checkpoint."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """One checkpoint, complete or not."""

    path: str
    """Its folder, relative to the storage's root; empty: the root itself."""

    layout: LayoutName
    step: int | None
    """None: its name does not tell."""

    files: tuple[CheckpointFile, ...]
    """In the order in which a copy must appear: the marker, if there is one, is the last."""

    missing: str
    """Why it is not complete, such as ``no .metadata yet``; empty when it is."""

    marker: str | None = None
    """The file whose presence says that all others are there; None: the layout has none, and it
    is complete when all that its files name is there and a pointer names it."""

    pointer: Pointer | None = None
    """To be moved after the marker is there; None: the layout has none."""

    @property
    def complete(self) -> bool:
        """Whether it can be read."""
        return not self.missing

    @property
    def step_order(self) -> int:
        """What sorts checkpoints, the newest last: the step; -1 where its name tells none."""
        return -1 if self.step is None else self.step

    @property
    def nbytes(self) -> int:
        """Of all files [bytes]."""
        return sum(file.size for file in self.files)

    @property
    def name(self) -> str:
        """Last part of its folder's name."""
        return self.path.rpartition("/")[2] or "."

    def file_path(self, file: str) -> str:
        """Return a file's path relative to the storage's root."""
        return join(self.path, file)


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """A folder as it was listed, with all that lies below it."""

    path: str
    """Relative to the storage's root."""

    files: tuple[FileInfo, ...]
    """Paths are relative to this folder."""

    beside: tuple[FileInfo, ...] = ()
    """Files in the folder above it, without those in its other folders: pointers lie there.
    Paths are relative to the folder above."""

    arriving: bool = False
    """Files are just being moved into it: whatever it is, it is not complete."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """Consecutive bytes of a file that hold one shard of a tensor, or one other object."""

    name: str
    """Of the tensor or object, as the checkpoint calls it."""

    file: str
    """Relative to the checkpoint's folder."""

    offset: int
    length: int
    """With whatever wraps the numbers (DCP stores each shard as a small ``torch.save`` file)."""

    dtype: str | None = None
    """As torch calls it, such as ``bfloat16``; None: it is no tensor."""

    shape: tuple[int, ...] = ()
    """Of this shard."""

    origin: tuple[int, ...] = ()
    """Where the shard begins in the whole tensor; one number for each dimension."""

    whole: tuple[int, ...] = ()
    """Shape of the whole tensor."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """Some ranks read some bytes."""

    file: str
    """Relative to the checkpoint's folder."""

    offset: int
    length: int
    ranks: range
    what: str
    """For people: a tensor's name, ``metadata`` …"""


def shown_files(folder: Folder, role_of: Callable[[str], Role]) -> tuple[CheckpointFile, ...]:
    """Return the files of a folder that are not hidden, in the order of the listing.

    Args:
        folder: The checkpoint.
        role_of: Tells a file's role by its path.
    """
    return tuple(
        CheckpointFile.of(info, role_of(info.path))
        for info in folder.files
        if not is_hidden(info.path)
    )


def require_whole(checkpoint: Checkpoint, absent: str) -> None:
    """Return if nothing is absent.

    Args:
        checkpoint: Who needs it.
        absent: What is, for people; empty: nothing.

    Raises:
        CorruptDataError: something is.
    """
    if absent:
        raise CorruptDataError(
            f"{checkpoint.path}: {absent}; wait until it is written, or use another"
        )


def whole_file(file: CheckpointFile, ranks: range, what: str) -> Reading:
    """Return that some ranks read all of a file."""
    return Reading(file=file.path, offset=0, length=file.size, ranks=ranks, what=what)


class Layout(Protocol):
    """What is known of one layout. Stateless."""

    @property
    def name(self) -> LayoutName:
        """What it is called."""
        ...

    def recognise(self, storage: Storage, folder: Folder) -> Checkpoint | None:
        """Return the checkpoint that a folder is, complete or not; None: it is not of this layout.

        Names and sizes decide where they can; small files may be read (an index in JSON, a
        header), never more than ``MOST_METADATA_BYTES``.

        Raises:
            CorruptDataError: it is of this layout, and what describes it is damaged or hostile.
            StorageError: it cannot be read.
        """
        ...

    def pieces(self, storage: Storage, checkpoint: Checkpoint) -> Sequence[Piece]:
        """Return all tensors' shards and objects, by file and offset.

        Raises:
            CorruptDataError: its metadata is damaged or hostile; says which file and why.
        """
        ...

    def readings(
        self, storage: Storage, checkpoint: Checkpoint, world_size: int
    ) -> Sequence[Reading]:
        """Return what each rank of a job of this size reads when it loads the checkpoint.

        Ranks of one reading are all that read exactly these bytes. The rule by which a layout
        divides tensors is in its module's docstring.

        Raises:
            CallerError: the layout cannot be loaded by so many ranks; says by how many it can.
            CorruptDataError: as ``pieces``.
        """
        ...


MOST_METADATA_BYTES = 1 << 30
"""A file that describes a checkpoint is not read beyond this [bytes]."""
