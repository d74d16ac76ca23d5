"""Lists a dataset: which files may hold samples, and which say something about these."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from headrace.dataset.captions import CaptionFiles, take_captions
from headrace.dataset.jsonarray import ENDING, take_arrays
from headrace.dataset.mdsdirectory import MANIFEST
from headrace.dataset.media import container_of, extension
from headrace.dataset.megatron import index_path
from headrace.dataset.savedfolders import is_derived, take_states
from headrace.storage.port import CLOSED_FOLDER, FileInfo, Storage


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a dataset."""

    files: Sequence[FileInfo]
    """Those that may hold samples, in path order."""

    misnamed: Sequence[FileInfo]
    """Those that may, but have names that are not UTF-8; here these are escaped."""

    closed: Sequence[FileInfo]
    """Folders that cannot be looked into."""

    manifests: Sequence[FileInfo]
    """Those that may say which shards an MDS directory has."""

    states: Sequence[FileInfo]
    """Those that say which shards a folder of Hugging Face's has."""

    captions: CaptionFiles
    """Those that hold captions of media files."""

    companions: dict[str, str]
    """File → size and version of the other file that tells where its samples are; files of
    captions → what tells whether they changed."""

    ignored: Counter[str]
    """Extension → number of the other files."""

    def named(self) -> Iterator[FileInfo]:
        """Yield the files and folders that an index of this dataset may name."""
        yield from (*self.files, *self.misnamed, *self.closed)

    def helpers(self) -> Iterator[FileInfo]:
        """Yield the files that say something about others, of which an index may name faults."""
        yield from (
            *self.manifests,
            *self.states,
            *self.captions.lists,
            *self.captions.beside.values(),
        )


def list_dataset(storage: Storage) -> Listing:
    """List the files below the root, but for those whose name or folder starts with a dot."""
    files, misnamed, closed, manifests, others = [], [], [], [], {}
    for file in storage.list(hidden=False):
        path = file.path.encode("utf-8", "backslashreplace").decode()
        if file.version == CLOSED_FOLDER:
            closed.append(FileInfo(path, file.size, file.version))
        elif posixpath.basename(path) == MANIFEST:
            manifests.append(file)
        elif container_of(path) is None or is_derived(path) or path.lower().endswith(ENDING):
            others[path] = file
        elif path == file.path:
            files.append(file)
        else:
            misnamed.append(FileInfo(path, file.size, file.version))
    paired, lone, companions = _paired(files, others)
    states = take_states(paired, others)
    if arrays := take_arrays(storage, paired, others):
        paired = sorted([*paired, *arrays], key=attrgetter("path"))
    samples, captions = take_captions(_without_copies(paired), others)
    return Listing(
        samples,
        misnamed,
        closed,
        manifests,
        states,
        captions,
        companions | captions.stamps(),
        Counter(map(extension, (*lone, *others))),
    )


def _paired(
    files: Sequence[FileInfo], others: dict[str, FileInfo]
) -> tuple[list[FileInfo], list[str], dict[str, str]]:
    """Take out of ``files`` those of tokens that have no index, and of ``others`` the indexes."""
    paired, lone, companions = [], [], {}
    for file in files:
        if container_of(file.path) != "megatron":
            paired.append(file)
        elif index := others.pop(index_path(file.path), None):
            paired.append(file)
            companions[file.path] = f"{index.size} {index.version}"
        else:
            lone.append(file.path)
    return paired, lone, companions


def _without_copies(files: Sequence[FileInfo]) -> list[FileInfo]:
    """Leave out compressed shards that lie there without compression as well."""
    plain = {file.path for file in files if file.path.endswith(".mds")}
    return [file for file in files if posixpath.splitext(file.path)[0] not in plain]
