"""Captions of media files, from lists in their folders and from texts beside them.

A list (``captionlists``) speaks of the files in its folder and below; of several that have a file
the nearest counts. A text beside a file has its name with ``.txt`` at the end, and counts where no
list has the file. Names are only looked up among the dataset's own files, never used as paths.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.digest import name_digest
from headrace.core.errors import CorruptDataError, HeadraceError
from headrace.dataset.captionlists import CAPTION_LISTS, LINE_BYTES, caption_lines
from headrace.dataset.index import FileProblem, Index
from headrace.dataset.media import container_of
from headrace.storage.port import FileInfo, Storage
from headrace.storage.rangefile import RangeFile

BESIDE = "*.txt"
"""Stands for all texts beside files where what an index was made of is told."""

PAIRS_AT_ONCE = 65_536
"""Captions that are held as Python values before they become Arrow."""

_SCHEMA = pa.schema([("path", pa.string()), ("text", pa.large_string())])
_ORDER = {name: number for number, name in enumerate(CAPTION_LISTS)}
_LISTS = tuple(CAPTION_LISTS)


@dataclass(frozen=True, slots=True)
class CaptionFiles:
    """The files of a dataset that hold captions of others."""

    lists: Sequence[FileInfo]
    """Lists, the deepest first."""

    beside: Mapping[str, FileInfo]
    """Path of a media file without its ending → the text beside it."""

    def stamps(self) -> dict[str, str]:
        """Return what tells whether any of them changed, by their names."""
        stamps = {file.path: f"{file.size} {file.version}" for file in self.lists}
        if self.beside:
            beside = (f"{f.path} {f.size} {f.version}".encode() for f in self.beside.values())
            stamps[BESIDE] = name_digest(*beside)
        return stamps


@dataclass(frozen=True, slots=True)
class Captions:
    """What was read of them."""

    table: pa.Table
    """``path`` of a media file and its ``text``; the first of a path counts."""

    problems: Sequence[FileProblem]


def take_captions(
    files: Sequence[FileInfo], others: dict[str, FileInfo]
) -> tuple[list[FileInfo], CaptionFiles]:
    """Take the files of captions out of those that may hold samples and out of the others.

    Returns:
        The files that may hold samples, without lists of captions; and the files of captions.
    """
    media = [file.path for file in files if container_of(file.path) == "file"]
    folders = _above(media)
    lists = [file for file in (*files, *others.values()) if _is_list(file.path, folders)]
    taken = {file.path for file in lists}
    for path in taken & others.keys():
        del others[path]
    lists.sort(key=lambda file: (-file.path.count("/"), _order(file.path), file.path))
    left = [file for file in files if file.path not in taken]
    return left, CaptionFiles(lists, _beside(media, others))


def read_captions(
    storage: Storage,
    found: CaptionFiles,
    files: Iterable[FileInfo],
    *,
    text_field: str,
    workers: int,
) -> Captions:
    """Return the captions of a dataset's media files, and what is wrong with them.

    Args:
        storage: Where they are.
        found: The files of captions.
        files: Those that may hold samples.
        text_field: Column of the captions in lists that have several.
        workers: Files that are read at the same time.
    """
    media = _media(files)
    tables, problems = [_SCHEMA.empty_table()], []
    for file in found.lists:
        table, faults = _listed(storage, file, media, text_field)
        tables.append(table)
        problems += [_problem(file, fault) for fault in faults]
    left = _without(media, pa.concat_tables(tables))
    table, faulty = _texts_beside(storage, found.beside, left, workers)
    problems += faulty
    problems += _speechless(found.lists, _without(left, table))
    return Captions(pa.concat_tables([*tables, table]), problems)


def kept_captions(
    previous: Index, found: CaptionFiles, files: Iterable[FileInfo]
) -> Captions | None:
    """Return the captions that an index has; None: some were faulty, or are of other media files.

    Args:
        previous: An index that was made of the same files of captions.
        found: These.
        files: Those that may hold samples now.
    """
    told = {file.path for file in (*found.lists, *found.beside.values())}
    if any(problem.file in told for problem in previous.problems):
        return None
    table = previous.table
    single = table.filter(pc.equal(table.column("container").cast(pa.string()), "file"))
    paths = single.column("file").cast(pa.string())
    if not paths.equals(pa.chunked_array([_media(files)])):
        return None
    captions = pa.table([paths, single.column("text").cast(pa.large_string())], schema=_SCHEMA)
    return Captions(captions, [])


def _media(files: Iterable[FileInfo]) -> pa.Array:
    """Return the paths of media files."""
    return pa.array([f.path for f in files if container_of(f.path) == "file"], pa.string())


def with_captions(table: pa.Table, captions: Captions) -> pa.Table:
    """Put captions into the rows of media files; other rows keep the text that they have."""
    single = pc.equal(table.column("container").cast(pa.string()), "file")
    paths = table.column("file").cast(pa.string())
    place = pc.index_in(paths, value_set=captions.table.column("path").combine_chunks())
    texts = captions.table.column("text").combine_chunks().take(place.combine_chunks())
    at = table.schema.get_field_index("text")
    text = pc.if_else(single.combine_chunks(), texts, table.column(at).combine_chunks())
    return table.set_column(at, table.schema.field(at), text)


def _above(paths: Iterable[str]) -> set[str]:
    """Return all folders that the paths lie in, the root as ''."""
    folders: set[str] = set()
    for path in paths:
        folder = posixpath.dirname(path)
        while folder not in folders:
            folders.add(folder)
            folder = posixpath.dirname(folder)
    return folders


def _is_list(path: str, folders: set[str]) -> bool:
    return path.endswith(_LISTS) and (
        posixpath.basename(path) in CAPTION_LISTS and posixpath.dirname(path) in folders
    )


def _order(path: str) -> int:
    return _ORDER[posixpath.basename(path)]


def _beside(media: Iterable[str], others: dict[str, FileInfo]) -> dict[str, FileInfo]:
    """Take the texts beside media files out of the other files."""
    texts = [path for path in others if path.endswith(".txt")]
    stems = {posixpath.splitext(path)[0] for path in media} if texts else set()
    named = ((posixpath.splitext(path)[0], path) for path in texts)
    return {stem: others.pop(path) for stem, path in named if stem in stems}


def _listed(
    storage: Storage, file: FileInfo, media: pa.Array, text_field: str
) -> tuple[pa.Table, list[str]]:
    """Return the captions in a list that are of media files, and what is wrong with it."""
    pairs, faults = _Pairs(), []
    folder = posixpath.dirname(file.path)
    try:
        with RangeFile(storage, file.path, 0, file.size) as stream:
            for name, text in caption_lines(file.path, stream, text_field):
                pairs.append(posixpath.normpath(posixpath.join(folder, name)), text)
    except HeadraceError as error:
        faults.append(f"only the captions before the damage are taken; then: {error}")
    table = pairs.finish()
    known = pc.is_in(table.column("path"), value_set=media)
    faults += _unknown(table.filter(pc.invert(known)))
    table = table.filter(known)
    faults += _repeated(table)
    return table.filter(pc.is_valid(table.column("text"))), faults


class _Pairs:
    """Collects paths and texts."""

    def __init__(self) -> None:
        self._tables = [_SCHEMA.empty_table()]
        self._paths: list[str] = []
        self._texts: list[str | None] = []

    def append(self, path: str, text: str | None) -> None:
        self._paths.append(path)
        self._texts.append(text)
        if len(self._paths) >= PAIRS_AT_ONCE:
            self._flush()

    def finish(self) -> pa.Table:
        self._flush()
        return pa.concat_tables(self._tables)

    def _flush(self) -> None:
        paths = [path.encode("utf-8", "backslashreplace") for path in self._paths]
        columns = [pa.array(paths, pa.binary()).cast(pa.string()), self._texts]
        self._tables.append(pa.table(columns, schema=_SCHEMA))
        self._paths, self._texts = [], []


def _unknown(table: pa.Table) -> Iterator[str]:
    if table.num_rows:
        yield (
            f"lines that name no media file of this dataset: {table.num_rows}, "
            f"{table.column('path')[0].as_py()} for one"
        )


def _repeated(table: pa.Table) -> Iterator[str]:
    counts = pc.value_counts(table.column("path"))
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        yield (
            f"files with several lines: {len(repeated)}, {repeated[0]['values']} for one; "
            "the first of each is taken"
        )


def _without(media: pa.Array, table: pa.Table) -> pa.Array:
    """Return the media files that have no caption yet."""
    captioned = pc.is_in(media, value_set=table.column("path").combine_chunks())
    return media.filter(pc.invert(captioned))


def _texts_beside(
    storage: Storage, beside: Mapping[str, FileInfo], media: pa.Array, workers: int
) -> tuple[pa.Table, list[FileProblem]]:
    pairs, problems = _Pairs(), []
    paths = media.to_pylist() if beside else []
    stems = [(path, posixpath.splitext(path)[0]) for path in paths]
    wanted = [(path, beside[stem]) for path, stem in stems if stem in beside]
    with ThreadPoolExecutor(workers, "headrace-captions") as pool:
        for begin in range(0, len(wanted), PAIRS_AT_ONCE):
            some = wanted[begin : begin + PAIRS_AT_ONCE]
            read = pool.map(lambda pair: _text_of(storage, pair[1]), some)
            for (path, file), text in zip(some, read, strict=True):
                if isinstance(text, str):
                    pairs.append(path, text)
                else:
                    problems.append(_problem(file, str(text)))
    return pairs.finish(), problems


def _text_of(storage: Storage, file: FileInfo) -> str | Exception:
    if file.size > LINE_BYTES:
        return CorruptDataError(f"it is no caption: it is longer than {LINE_BYTES >> 20} MiB")
    try:
        return storage.read(file.path, 0, file.size).decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        return CorruptDataError(f"it is no caption: it is not UTF-8: {error}")
    except HeadraceError as error:
        return error


def _speechless(lists: Sequence[FileInfo], media: pa.Array) -> Iterator[FileProblem]:
    """Name the lists that lack files in their folder or below, each file in its nearest list."""
    folders = {posixpath.dirname(file.path): file for file in reversed(lists)}
    missing: dict[str, list[str]] = {}
    for path in media.to_pylist() if lists else ():
        folder = posixpath.dirname(path)
        while folder and folder not in folders:
            folder = posixpath.dirname(folder)
        if folder in folders:
            missing.setdefault(folder, []).append(path)
    for folder, paths in missing.items():
        reason = f"files below that have no caption in it: {len(paths)}, {paths[0]} for one"
        yield _problem(folders[folder], reason)


def _problem(file: FileInfo, reason: str) -> FileProblem:
    return FileProblem(file=file.path, size=file.size, version=file.version, reason=reason)
