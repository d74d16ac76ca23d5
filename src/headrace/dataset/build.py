"""Builds an index: lists the dataset, scans what is new, keeps what is unchanged.

The dataset is only read; the previous index stays in place until the new one is saved,
so an interrupted build loses nothing but its own work.
"""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from headrace.core.errors import CallerError, HeadraceError, NotFoundError
from headrace.dataset.arrow import scan_arrow
from headrace.dataset.captions import Captions, kept_captions, read_captions, with_captions
from headrace.dataset.classes import agreed_names
from headrace.dataset.folder import scan_media_file, with_labels
from headrace.dataset.index import FileProblem, Index, IndexMeta
from headrace.dataset.jsonl import scan_jsonl
from headrace.dataset.listing import Listing, list_dataset
from headrace.dataset.location import Container, SampleLocation
from headrace.dataset.mds import scan_mds
from headrace.dataset.mdsdirectory import Promise, read_promises
from headrace.dataset.media import LOOKED_FOR, container_of
from headrace.dataset.megatron import scan_megatron
from headrace.dataset.namedfiles import files_that_name_others, with_named_files
from headrace.dataset.parquet import scan_parquet
from headrace.dataset.rows import RowBuilder
from headrace.dataset.savedfolders import missing_shards
from headrace.dataset.scan import ClassNames, Scan, ScanOptions, ScanSource
from headrace.dataset.side import SideFiles
from headrace.dataset.tar import scan_tar
from headrace.dataset.tfrecord import scan_tfrecord
from headrace.storage.port import FileInfo, Storage

SCANNERS: dict[Container, Callable[[ScanSource], Scan]] = {
    "file": scan_media_file,
    "tar": scan_tar,
    "parquet": scan_parquet,
    "jsonl": scan_jsonl,
    "mds": scan_mds,
    "megatron": scan_megatron,
    "tfrecord": scan_tfrecord,
    "arrow": scan_arrow,
}

GROUP_FILES = 64
"""Media files that one task scans; other containers are tasks of their own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildProgress:
    """How far a build is."""

    files_done: int
    files_total: int
    files_reused: int
    """Files whose samples were taken over from the previous index."""

    bytes_done: int
    bytes_total: int
    samples: int
    """Samples found in the files scanned so far."""


OnProgress = Callable[[BuildProgress], None]


def build_index(
    storage: Storage,
    *,
    options: ScanOptions | None = None,
    previous: Index | None = None,
    side: SideFiles | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Index:
    """Return the index of all samples below the storage's root; save it with ``Index.save``.

    Args:
        storage: Where the dataset is. Files and folders whose name starts with a dot are
            not looked at.
        options: How to scan.
        previous: Rows of files whose size and version have not changed since are taken
            over from it; a file with anything broken, or that names media files, is always
            scanned again. Captions are taken over if neither their files nor the paths of
            media files changed.
        side: Where to keep what is derived from compressed text files; None is
            ``.headrace`` below the root.
        on_progress: Called in this thread after each file.

    Raises:
        CallerError: windows are asked for, but there are no tokens.
        NotFoundError: there is no sample and nothing broken either; says what was looked for.
        StorageError: the root cannot be listed.
    """
    options = options or ScanOptions()
    listing = list_dataset(storage)
    _require_tokens(options, listing)
    shards = [file.path for file in listing.files if container_of(file.path) == "mds"]
    promises = read_promises(storage, listing.manifests, {*shards} if shards else ())
    kept = _reusable(previous, options, listing)
    fresh = [
        file
        for file in listing.files
        if kept.get(file.path) != file or not promises.are_kept_by(file)
    ]
    reused = {file.path for file in listing.files} - {file.path for file in fresh}
    build = _Build(storage, options, side or SideFiles(storage), promises.files)
    progress = _Progress(listing.files, fresh, on_progress)
    found = build.scan(fresh, progress)
    if previous is not None:
        found.add(_kept(previous, reused))
    names, faults = agreed_names(found.names)
    problems = [*found.problems, *faults, *promises.problems]
    problems += missing_shards(storage, listing.states, listing.files)
    problems += [_misnamed(file) for file in listing.misnamed]
    problems += [_closed(storage, folder) for folder in listing.closed]
    captions = _captions(storage, options, listing, previous)
    problems += captions.problems
    table = with_captions(_in_order(found.table(), listing.files), captions)
    table, classes = with_labels(_with_own_names(with_named_files(table)), names)
    if not table.num_rows and all(p.severity == "empty" for p in problems):
        raise NotFoundError(_nothing(storage, listing))
    return Index(
        table,
        IndexMeta(
            classes=classes,
            text_field=options.text_field,
            window=options.window,
            document_seed=options.document_seed,
            companions=listing.companions,
            problems=tuple(sorted(problems, key=lambda p: p.file)),
            ignored=dict(sorted(listing.ignored.items())),
        ),
    )


def _captions(
    storage: Storage, options: ScanOptions, listing: Listing, previous: Index | None
) -> Captions:
    kept = None
    if previous is not None and (previous.meta.text_field, previous.meta.companions) == (
        options.text_field,
        listing.companions,
    ):
        kept = kept_captions(previous, listing.captions, listing.files)
    return kept or read_captions(
        storage,
        listing.captions,
        listing.files,
        text_field=options.text_field,
        workers=options.workers,
    )


def _require_tokens(options: ScanOptions, listing: Listing) -> None:
    tokens = any(container_of(file.path) == "megatron" for file in listing.files)
    if options.window is not None and not tokens:
        raise CallerError(
            f"window={options.window} cuts Megatron's tokens, but no .bin has an .idx beside it; "
            "leave it out, or check the path"
        )


def _misnamed(file: FileInfo) -> FileProblem:
    reason = "its name is not UTF-8, so no index can hold it; rename the file"
    return FileProblem(file=file.path, size=file.size, version=file.version, reason=reason)


def _closed(storage: Storage, folder: FileInfo) -> FileProblem:
    reason = "its files were left out: it could not be looked into for a moment; index again"
    try:
        next(storage.list(folder.path), None)
    except HeadraceError as error:
        reason = f"its files are left out: {error}"
    return FileProblem(file=folder.path, size=folder.size, version=folder.version, reason=reason)


def _empty(file: FileInfo) -> FileProblem:
    reason = "there are no samples in it"
    return FileProblem(
        file=file.path, size=file.size, version=file.version, reason=reason, severity="empty"
    )


def _nothing(storage: Storage, listing: Listing) -> str:
    parts = [f"{count} x .{ending}" for ending, count in listing.ignored.most_common(5)]
    if listing.files:
        parts.insert(0, f"{len(listing.files)} empty, {listing.files[0].path} for one")
    seen = ", ".join(parts)
    return (
        f"no samples below {storage.url}: looked for {LOOKED_FOR}; "
        f"found {seen or 'no files at all'}; check the path"
    )


def _reusable(
    previous: Index | None, options: ScanOptions, listing: Listing
) -> dict[str, FileInfo]:
    if previous is None or _options_of(previous) != (
        options.text_field,
        options.window,
        options.document_seed,
    ):
        return {}
    broken = pc.unique(_paths(previous.table.filter(pc.is_valid(previous.table["broken"]))))
    spoilt = {*broken.to_pylist(), *(p.file for p in previous.problems if p.severity == "broken")}
    spoilt |= files_that_name_others(previous.table)
    companions = previous.meta.companions
    return {
        file.path: file
        for file in previous.files()
        if file.path not in spoilt
        and companions.get(file.path) == listing.companions.get(file.path)
    }


def _options_of(index: Index) -> tuple[str, int | None, int | None]:
    return index.meta.text_field, index.meta.window, index.meta.document_seed


def _paths(table: pa.Table) -> pa.ChunkedArray:
    return table.column("file").cast(pa.string())


def _rows_of(index: Index, files: set[str]) -> pa.Table:
    wanted = pa.array(sorted(files), pa.string())
    return index.table.filter(pc.is_in(_paths(index.table), value_set=wanted))


def _kept(previous: Index, files: set[str]) -> _Found:
    """Return what a previous index has of some files."""
    rows = _rows_of(previous, files)
    found = _Found([rows], [p for p in previous.problems if p.file in files])
    labelled = rows.filter(pc.is_valid(rows["label"]))
    numbered = labelled.filter(pc.not_equal(labelled["container"].cast(pa.string()), "file"))
    if numbered.num_rows:
        first = numbered.slice(0, 1).select(["file", "file_size", "file_version"]).to_pylist()[0]
        found.names.append(ClassNames(FileInfo(*first.values()), previous.classes))
    return found


def _in_order(table: pa.Table, files: Sequence[FileInfo]) -> pa.Table:
    """Sort the rows by the order of their files; inside a file they keep theirs."""
    paths = pa.array([file.path for file in files], pa.string())
    ordinal = pc.index_in(_paths(table), value_set=paths).to_numpy()
    return table.take(np.argsort(ordinal, kind="stable"))


def _with_own_names(table: pa.Table) -> pa.Table:
    """Renew the dictionaries: names in order of appearance, none of rows that are gone."""
    for at, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            names = table.column(at).cast(pa.string()).combine_chunks().dictionary_encode()
            table = table.set_column(at, column, names)
    return table


class _Progress:
    def __init__(
        self, files: Sequence[FileInfo], fresh: Sequence[FileInfo], report: OnProgress
    ) -> None:
        self._report = report
        self._total = len(files), sum(file.size for file in files)
        self._reused = len(files) - len(fresh)
        self._files = self._reused
        self._bytes = self._total[1] - sum(file.size for file in fresh)
        self._samples = 0
        self.add((), 0)

    def add(self, files: Iterable[FileInfo], samples: int) -> None:
        for file in files:
            self._files += 1
            self._bytes += file.size
        self._samples += samples
        self._report(
            BuildProgress(
                files_done=self._files,
                files_total=self._total[0],
                files_reused=self._reused,
                bytes_done=self._bytes,
                bytes_total=self._total[1],
                samples=self._samples,
            )
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """What scans found."""

    tables: list[pa.Table] = field(default_factory=list)
    problems: list[FileProblem] = field(default_factory=list)
    names: list[ClassNames] = field(default_factory=list)

    @property
    def samples(self) -> int:
        """Return how many samples there are."""
        return sum(table.num_rows for table in self.tables)

    def add(self, more: _Found) -> None:
        """Take over what another scan found."""
        self.tables.extend(more.tables)
        self.problems.extend(more.problems)
        self.names.extend(more.names)

    def table(self) -> pa.Table:
        """Return all rows."""
        return pa.concat_tables(self.tables)


class _Interrupted(Exception):  # noqa: N818 - not an error: the build was told to stop
    """Ends a scan in a worker thread."""


class _Build:
    """Scans groups of files in threads and puts the results together in path order."""

    def __init__(
        self,
        storage: Storage,
        options: ScanOptions,
        side: SideFiles,
        promises: Mapping[str, Promise],
    ) -> None:
        self._storage = storage
        self._options = options
        self._side = side
        self._promises = promises
        self._stop = threading.Event()

    def scan(self, files: Sequence[FileInfo], progress: _Progress) -> _Found:
        found = _Found([RowBuilder().finish()])
        # Large pictures are what people train on: their size is judged when they are decoded.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            for group, more in self._in_threads(list(_groups(files))):
                progress.add(group, more.samples)
                found.add(more)
        return found

    def _in_threads(self, groups: list[list[FileInfo]]) -> Iterator[_Scanned]:
        waiting: deque[tuple[list[FileInfo], Future[_Found]]] = deque()
        with ThreadPoolExecutor(self._options.workers, "headrace-index") as pool:
            try:
                for group in groups:
                    waiting.append((group, pool.submit(self._scan_group, group)))
                    if len(waiting) > 2 * self._options.workers:
                        yield _result(*waiting.popleft())
                while waiting:
                    yield _result(*waiting.popleft())
            finally:
                self._stop.set()
                pool.shutdown(cancel_futures=True)

    def _scan_group(self, group: list[FileInfo]) -> _Found:
        rows, result = RowBuilder(), _Found()
        for file in group:
            empty = True
            for found in self._scan_file(file):
                if self._stop.is_set():
                    raise _Interrupted
                if isinstance(found, ClassNames):
                    result.names.append(found)
                    continue
                empty = False
                if isinstance(found, FileProblem):
                    result.problems.append(found)
                elif isinstance(found, SampleLocation):
                    rows.append(found)
                else:
                    rows.extend(found)
            if empty:
                result.problems.append(_empty(file))
        result.tables.append(rows.finish())
        return result

    def _scan_file(self, file: FileInfo) -> Scan:
        promise = self._promises.get(file.path)
        source = ScanSource(self._storage, file, self._options, self._side, promise)
        container = container_of(file.path)
        assert container is not None
        return SCANNERS[container](source)


_Scanned = tuple[list[FileInfo], _Found]


def _result(group: list[FileInfo], future: Future[_Found]) -> _Scanned:
    return group, future.result()


def _groups(files: Sequence[FileInfo]) -> Iterator[list[FileInfo]]:
    group: list[FileInfo] = []
    for file in files:
        if container_of(file.path) != "file":
            yield [file]
            continue
        group.append(file)
        if len(group) == GROUP_FILES:
            yield group
            group = []
    if group:
        yield group
