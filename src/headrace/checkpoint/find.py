"""Finds checkpoints below a folder, and tells how many ranks read which bytes of one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import numpy.typing as npt

from headrace.checkpoint.arriving import ARRIVING
from headrace.checkpoint.dcp import DcpLayout
from headrace.checkpoint.deepspeed import POINTER as DEEPSPEED_POINTER
from headrace.checkpoint.deepspeed import UNIVERSAL_POINTER, DeepSpeedLayout
from headrace.checkpoint.huggingface import HuggingFaceLayout
from headrace.checkpoint.iterations import POINTER as MEGATRON_POINTER
from headrace.checkpoint.layout import Checkpoint, CheckpointFile, Folder, Layout, Reading
from headrace.checkpoint.megatron_dist import MegatronDistLayout
from headrace.checkpoint.megatron_legacy import MegatronLegacyLayout
from headrace.checkpoint.naming import is_hidden, step_of
from headrace.checkpoint.safetensors_folder import SafetensorsLayout
from headrace.core.errors import AccessError, CorruptDataError, HeadraceError, NotFoundError
from headrace.storage.paths import join
from headrace.storage.port import FileInfo, Storage

LAYOUTS: tuple[Layout, ...] = (
    MegatronDistLayout(),
    DcpLayout(),
    MegatronLegacyLayout(),
    DeepSpeedLayout(),
    HuggingFaceLayout(),
    SafetensorsLayout(),
)
"""All that are known; where several would take a folder, the first does."""

_POINTERS = (DEEPSPEED_POINTER, UNIVERSAL_POINTER, MEGATRON_POINTER)

OnFolder = Callable[[int, int], None]
"""Told how many folders were looked at, and of how many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FanIn:
    """Consecutive bytes of a file that the same number of ranks read."""

    file: str
    """Relative to the checkpoint's folder."""

    offset: int
    length: int
    readers: int
    what: str
    """For people: the largest tensor's name, and how many others there are."""


def open_checkpoint(storage: Storage, path: str = "") -> Checkpoint:
    """Return the checkpoint that a folder is, complete or not.

    Args:
        storage: Where it is.
        path: Its folder, relative to the storage's root; empty: the root itself.

    Raises:
        NotFoundError: there is no such folder, or it is none of a layout that is known.
        CorruptDataError: what describes the checkpoint is damaged or hostile.
        StorageError: it cannot be read.
    """
    path = path.strip("/")
    infos = list(storage.list(path))
    folder = _folder(path, infos, tuple(_pointers(storage, path)))
    for layout in LAYOUTS:
        found = _recognised_by(layout, storage, folder)
        if found is not None:
            return found
    raise NotFoundError(_unknown(storage, path, infos))


def find_checkpoints(
    storage: Storage, root: str = "", *, on_folder: OnFolder | None = None
) -> list[Checkpoint]:
    """Return all checkpoints in and below a folder, by step, the newest last.

    A part of one that is a checkpoint of another layout, as the Trainer of Hugging Face leaves
    some, is not told of again. One whose description is damaged or hostile, or closed to this user,
    is returned as well: as incomplete, and ``missing`` says what is wrong. Folders whose names
    start with a dot are not looked into.

    Args:
        storage: Where they are.
        root: The folder, relative to the storage's root.
        on_folder: Told after each folder.

    Raises:
        NotFoundError: there is no such folder.
        StorageError: something cannot be read.
    """
    listing = _Listing(storage, root.strip("/"))
    found: list[Checkpoint] = []
    taken: set[str] = set()
    for done, path in enumerate(listing.paths, start=1):
        for one in _recognised(storage, listing.folder(path)):
            paths = {one.file_path(file.path) for file in one.files}
            found += [one] if not paths <= taken else []
            taken |= paths
        if on_folder is not None:
            on_folder(done, len(listing.paths))
    return sorted(found, key=lambda one: (one.step_order, one.path))


def layout_of(checkpoint: Checkpoint) -> Layout:
    """Return the layout of a checkpoint that was found here."""
    return next(layout for layout in LAYOUTS if layout.name == checkpoint.layout)


def fan_in(readings: Iterable[Reading]) -> list[FanIn]:
    """Return how many ranks read which bytes, by file and offset; neighbours alike are joined."""
    events: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for one in readings:
        events[one.file].append((one.offset, len(one.ranks), one.what))
        events[one.file].append((one.offset + one.length, -len(one.ranks), ""))
    return [part for file in sorted(events) for part in _joined(_swept(file, events[file]))]


def hot_ranges(readings: Iterable[Reading], least_readers: int) -> list[FanIn]:
    """Return the bytes that at least so many ranks read, by file and offset."""
    return [part for part in fan_in(readings) if part.readers >= least_readers]


def bytes_by_rank(readings: Iterable[Reading], world_size: int) -> npt.NDArray[np.int64]:
    """Return how much each rank reads, int64 [world_size]."""
    read = np.zeros(world_size, dtype=np.int64)
    for one in readings:
        read[one.ranks.start : one.ranks.stop : one.ranks.step] += one.length
    return read


def bytes_once_per_host(readings: Iterable[Reading], ranks_per_host: int) -> int:
    """Return how much is read when ranks of one host read what they share once.

    Args:
        readings: What ranks read.
        ranks_per_host: So many consecutive ranks are on one host.
    """
    return sum(one.length * _hosts(one.ranks, ranks_per_host) for one in readings)


def _hosts(ranks: range, ranks_per_host: int) -> int:
    if not ranks:
        return 0
    if ranks.step >= ranks_per_host:
        return len(ranks)
    return ranks[-1] // ranks_per_host - ranks[0] // ranks_per_host + 1


def _recognised(storage: Storage, folder: Folder) -> Iterator[Checkpoint]:
    for layout in LAYOUTS:
        try:
            found = _recognised_by(layout, storage, folder)
        except (CorruptDataError, AccessError) as error:
            found = _not_understood(layout, folder, error)
        except NotFoundError:  # it was removed since it was listed
            return
        if found is not None:
            yield found
            return


def _not_understood(layout: Layout, folder: Folder, error: HeadraceError) -> Checkpoint:
    return Checkpoint(
        path=folder.path,
        layout=layout.name,
        step=step_of(folder.path),
        files=tuple(
            CheckpointFile.of(info, "other") for info in folder.files if "/" not in info.path
        ),
        missing=str(error),
    )


class _Listing:
    """What lies below a folder, by each folder in it."""

    def __init__(self, storage: Storage, root: str) -> None:
        self._below: dict[str, list[FileInfo]] = defaultdict(list)
        self._direct: dict[str, list[FileInfo]] = defaultdict(list)
        for info in storage.list(root):
            if info.path == root:
                raise NotFoundError(f"{_place(storage, root)} is a file; name the folder it is in")
            self._add(info, root)
        self.paths = sorted(self._below, key=lambda path: (path.count("/"), path))
        """Folders that have files in or below them; upper ones first."""

    def _add(self, info: FileInfo, root: str) -> None:
        folder = info.path.rpartition("/")[0]
        if not is_hidden(folder.removeprefix(root)):
            self._direct[folder].append(info)
            for above in _with_parents(folder, root):
                self._below[above].append(info)

    def folder(self, path: str) -> Folder:
        above = path.rpartition("/")[0]
        beside = self._direct.get(above, ()) if path else ()
        return _folder(path, self._below[path], _below(beside, above))


def _place(storage: Storage, path: str) -> str:
    return f"{storage.url.rstrip('/')}/{path}" if path else storage.url


def _with_parents(folder: str, root: str) -> Iterator[str]:
    yield folder
    while folder not in ("", root):
        folder = folder.rpartition("/")[0]
        yield folder


def _folder(path: str, infos: Sequence[FileInfo], beside: Sequence[FileInfo]) -> Folder:
    below = _below(infos, path)
    return Folder(
        path=path,
        files=tuple(info for info in below if "/.headrace" not in f"/{info.path}"),
        beside=tuple(beside),
        arriving=any(info.path == ARRIVING for info in below),
    )


def _recognised_by(layout: Layout, storage: Storage, folder: Folder) -> Checkpoint | None:
    found = layout.recognise(storage, folder)
    if found is None or not folder.arriving:
        return found
    return replace(found, missing=found.missing or "its files are still being moved into place")


def _below(infos: Iterable[FileInfo], folder: str) -> tuple[FileInfo, ...]:
    cut = len(folder) + 1 if folder else 0
    return tuple(replace(info, path=info.path[cut:]) for info in infos)


def _pointers(storage: Storage, path: str) -> Iterator[FileInfo]:
    if not path:
        return
    above = path.rpartition("/")[0]
    for name in _POINTERS:
        try:
            info = storage.stat(join(above, name))
        except NotFoundError:
            continue
        yield replace(info, path=name)


def _unknown(storage: Storage, path: str, infos: Sequence[FileInfo]) -> str:
    place = _place(storage, path)
    if len(infos) == 1 and infos[0].path == path:
        return f"{place} is a file; name the folder it is in"
    below = find_checkpoints(storage, path) if infos else []
    if below:
        example = next((one for one in reversed(below) if one.complete), below[-1])
        return (
            f"{place} is no checkpoint itself but holds {len(below)}; name one, such as "
            f"{_place(storage, example.path)}"
        )
    known = ", ".join(layout.name for layout in LAYOUTS)
    count = "one file is" if len(infos) == 1 else f"{len(infos):,} files are"
    return f"no checkpoint at {place}: its {count} of none of the layouts {known}"


def _swept(file: str, events: list[tuple[int, int, str]]) -> Iterator[FanIn]:
    readers, begin, what = 0, 0, ""
    for offset, together in groupby(sorted(events), key=lambda event: event[0]):
        if readers and offset > begin:
            yield FanIn(file=file, offset=begin, length=offset - begin, readers=readers, what=what)
        begin = offset
        for _, change, name in together:
            readers += change
            what = name or what


def _joined(parts: Iterable[FanIn]) -> Iterator[FanIn]:
    run: list[FanIn] = []
    for part in parts:
        if run and _continues(run[-1], part):
            run.append(part)
            continue
        yield from _as_one(run)
        run = [part]
    yield from _as_one(run)


def _continues(before: FanIn, part: FanIn) -> bool:
    return part.readers == before.readers and part.offset == before.offset + before.length


def _as_one(run: Sequence[FanIn]) -> Iterator[FanIn]:
    if not run:
        return
    first, last = run[0], run[-1]
    more = f" and {len(run) - 1:,} more" if len(run) > 1 else ""
    yield FanIn(
        file=first.file,
        offset=first.offset,
        length=last.offset + last.length - first.offset,
        readers=first.readers,
        what=max(run, key=lambda part: part.length).what + more,
    )
