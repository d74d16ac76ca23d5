"""The index: one row per sample, held as Arrow columns, kept as one Parquet file.

It has no Python object per sample: a million samples take about two hundred bytes each.
``digest`` names which samples there are and where their bytes are. It is the same for
every copy of a dataset, whenever and with however many threads it was scanned; the
modification stamps, which do differ, serve only to notice files that changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.core.digest import name_digest
from headrace.core.errors import CallerError, CorruptDataError, NotFoundError
from headrace.dataset.location import Kind, SampleLocation
from headrace.dataset.media import KINDS
from headrace.dataset.rowaccess import RowAccess, single_columns
from headrace.dataset.rows import PLACE_COLUMNS, SCHEMA, SCHEMA_VERSION, canonical_buffers
from headrace.storage.opening import open_storage
from headrace.storage.port import FileInfo, Storage

DEFAULT_PATH = ".headrace-index"
"""Where an index lies below its dataset's root, or below another folder that it was put into.

A file, hidden and without an ending: what takes folders for classes (torchvision's ImageFolder)
or reads all that ends in .parquet finds the dataset as it was."""

_META_KEY = b"headrace"


class FileProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong with a whole file, or with a part of it that makes no sample."""

    file: str
    size: int
    version: str
    reason: str
    severity: Literal["broken", "slow", "empty"] = "broken"
    """``slow``: every sample can be read, but not in a reasonable way; ``empty``: there are none,
    and nothing is wrong."""


class IndexMeta(msgspec.Struct, frozen=True, kw_only=True):
    """What an index says about the dataset as a whole."""

    schema_version: int = SCHEMA_VERSION
    digest: str = ""
    classes: tuple[str, ...] = ()
    """Class folders in the order of their numbers."""

    text_field: str = "text"
    """Name of the text in files whose fields have names."""

    window: int | None = None
    """Tokens of a sample of Megatron's files; None: documents."""

    document_seed: int | None = None
    """Seed of the order of sequences from which windows were cut; None: that of the file."""

    companions: dict[str, str] = {}
    """File → size and version of the other file that tells where its samples are; files of
    captions → what tells whether they changed."""

    problems: tuple[FileProblem, ...] = ()
    ignored: dict[str, int] = {}
    """Extension → number of files that were not understood as samples."""


class Index:
    """All samples of one dataset. Immutable, thread-safe."""

    def __init__(self, table: pa.Table, meta: IndexMeta) -> None:
        """Take over a table with the columns of ``rows.SCHEMA``; computes a missing digest."""
        self._table = table.combine_chunks().unify_dictionaries()
        self._columns = single_columns(self._table)
        self.meta = (
            meta if meta.digest else msgspec.structs.replace(meta, digest=self._digest(meta))
        )
        self._rows = RowAccess(self._columns)

    def __len__(self) -> int:
        """Return the number of samples."""
        return int(self._table.num_rows)

    @property
    def digest(self) -> str:
        """Name of the content: samples and places, not time stamps."""
        return self.meta.digest

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in the order of their numbers; empty without class folders."""
        return self.meta.classes

    @property
    def problems(self) -> tuple[FileProblem, ...]:
        """What is wrong with whole files."""
        return self.meta.problems

    @property
    def table(self) -> pa.Table:
        """All rows, as ``rows.SCHEMA`` describes them."""
        return self._table

    @cached_property
    def kinds(self) -> npt.NDArray[np.uint8]:
        """Code of each sample's kind, uint8 [samples]; ``KINDS[code]`` is its name."""
        column = self._columns["kind"]
        codes = pc.index_in(column.dictionary, value_set=pa.array(KINDS)).to_numpy()
        kinds: npt.NDArray[np.uint8] = codes.astype(np.uint8)[column.indices.to_numpy()]
        return kinds

    @cached_property
    def field_names(self) -> frozenset[str]:
        """Fields that samples have, each of them in at least one sample."""
        layouts = self._columns["fields"].dictionary.to_pylist()
        names = {field for layout in layouts for field, _ in msgspec.json.decode(layout)}
        own = {name for name in ("label", "text") if self._columns[name].null_count < len(self)}
        return frozenset(names | own)

    @cached_property
    def costs(self) -> npt.NDArray[np.float64]:
        """Estimated CPU to decode each sample [s], float64 [samples]."""
        return self.column("cost_s")  # type: ignore[return-value]

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Encoded bytes of each sample, int64 [samples]."""
        return self.column("length")  # type: ignore[return-value]

    def column(self, name: str) -> npt.NDArray[np.generic]:
        """Return a numeric column; a missing value is NaN."""
        values: npt.NDArray[np.generic] = self._columns[name].to_numpy(zero_copy_only=False)
        return values

    def kind(self, sample: int) -> Kind:
        """Return the kind of one sample."""
        return KINDS[int(self.kinds[self._checked(sample)])]

    def location(self, sample: int) -> SampleLocation:
        """Return where one sample's bytes are and what is known about them (about 4 µs).

        Raises:
            CallerError: there is no such sample.
        """
        return self._rows.location(self._checked(sample))

    def start(self, sample: int) -> tuple[str, int]:
        """Return the file of a sample and where it starts there, without reading its whole row.

        Raises:
            IndexError: there is no such sample.
        """
        return self._rows.start(self._checked(sample))

    def files(self) -> Iterator[FileInfo]:
        """Yield each file that has samples or problems, as it was when it was indexed."""
        stamps = self._table.select(["file", "file_size", "file_version"])
        taken = stamps.take(self.file_starts())
        rows = zip(*(column.to_pylist() for column in taken.columns), strict=True)
        known = {path: FileInfo(path, size, version) for path, size, version in rows}
        for problem in self.problems:
            known.setdefault(problem.file, FileInfo(problem.file, problem.size, problem.version))
        yield from known.values()

    def file_starts(self) -> npt.NDArray[np.int64]:
        """Return the first row of each file; a file's rows are neighbours."""
        codes = self._columns["file"].indices.to_numpy()
        return np.flatnonzero(np.diff(codes, prepend=-1)).astype(np.int64)

    def to_bytes(self) -> bytes:
        """Return the index as a Parquet file."""
        sink = pa.BufferOutputStream()
        meta = {_META_KEY: msgspec.json.encode(self.meta)}
        pq.write_table(
            self._table.replace_schema_metadata(meta),
            sink,
            compression="zstd",
            write_page_checksum=True,
        )
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, data: bytes, *, source: str = "the given bytes") -> Index:
        """Read an index from a Parquet file's bytes; who has the same ones already shares it.

        Raises:
            CorruptDataError: it is not an index, damaged, or of another version.
        """
        name = name_digest(data)
        if (known := _in_use.get(name)) is not None:
            return known
        try:
            table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
            meta = msgspec.json.decode((table.schema.metadata or {})[_META_KEY], type=IndexMeta)
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise CorruptDataError(
                f"{source} is not a headrace index ({error}); build it again with `headrace index`"
            ) from error
        if meta.schema_version != SCHEMA_VERSION:
            raise CorruptDataError(
                f"{source} has index version {meta.schema_version}, this headrace reads "
                f"{SCHEMA_VERSION}; build it again with `headrace index`"
            )
        if not table.schema.equals(SCHEMA):
            raise CorruptDataError(
                f"{source} is damaged: its columns are others than those of an index; build it "
                "again with `headrace index`"
            )
        index = _in_use[name] = cls(table.replace_schema_metadata(None), meta)
        return index

    def save(self, target: Storage | str | Path) -> FileInfo:
        """Write the index atomically: into a dataset (a storage, its URL) or any other folder."""
        return _opened(target).write(DEFAULT_PATH, self.to_bytes())

    @classmethod
    def load(cls, source: Storage | str | Path, *, of: str = "") -> Index:
        """Read the index in a dataset (a storage, its URL) or in any other folder.

        Args:
            source: Where it lies.
            of: The dataset's URL, where that is not ``source``.

        Raises:
            NotFoundError: there is no index; says how to build one.
        """
        storage = _opened(source)
        return cls.from_bytes(stored_index(storage, of=of), source=_place(storage))

    def _checked(self, sample: int) -> int:
        if not 0 <= sample < len(self):
            raise CallerError(f"sample {sample} is not in [0, {len(self)}), the size of this index")
        return sample

    def _digest(self, meta: IndexMeta) -> str:
        head = msgspec.json.encode((SCHEMA_VERSION, meta.classes, len(self)))
        buffers = (b for name in PLACE_COLUMNS for b in canonical_buffers(self._columns[name]))
        return name_digest(head, *buffers)


_in_use: WeakValueDictionary[str, Index] = WeakValueDictionary()
"""Digest of a file's bytes → the index in it. It takes 250 B per sample, and 1 s per million to
read: jobs of a sweep over one dataset would each hold, and wait for, their own."""


def stored_index(storage: Storage, *, of: str = "") -> bytes:
    """Return the file of an index as it lies in a store; nobody looks into it.

    Args:
        storage: Where it lies.
        of: The dataset's URL, where that is not the store's.

    Raises:
        NotFoundError: there is no index; says how to build one.
    """
    try:
        return storage.read(DEFAULT_PATH)
    except NotFoundError as error:
        command = index_command(of or storage.url, storage.url)
        raise NotFoundError(f"no index at {_place(storage)}; build it with `{command}`") from error


def _place(storage: Storage) -> str:
    return f"{storage.url}/{DEFAULT_PATH}"


def index_command(url: str, place: str = "") -> str:
    """Return the command that indexes a dataset, into another folder if one is given."""
    return f"headrace index {url}{f' --out {place}' if place not in ('', url) else ''}"


def _opened(where: Storage | str | Path) -> Storage:
    return open_storage(str(where)) if isinstance(where, (str, Path)) else where
