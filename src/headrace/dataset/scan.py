"""What every scanner is given and what it yields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.core.errors import ConfigError
from headrace.dataset.gziptext import GzipText
from headrace.dataset.index import FileProblem
from headrace.dataset.location import Container, Kind, Member, SampleLocation
from headrace.dataset.mdsdirectory import Promise
from headrace.dataset.probe import IMAGE_READ_BYTES, Headers, probe
from headrace.dataset.rows import Rows
from headrace.dataset.side import SideFiles
from headrace.storage.port import FileInfo, Storage
from headrace.storage.rangefile import RangeFile

WINDOW_TOKENS = 1 << 27
"""Longest window: of four bytes each, so many tokens are what is read of a sample at most."""


@dataclass(frozen=True, slots=True)
class ClassNames:
    """What the classes are called that a file's labels number."""

    file: FileInfo
    names: tuple[str, ...]
    """In the order of their numbers; empty where the file does not tell."""


Found = SampleLocation | Rows | FileProblem | ClassNames
"""A scanner yields samples in file order, one or many at a time, what is wrong with a file, and
what its classes are called."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanOptions:
    """How a dataset is scanned."""

    text_field: str = "text"
    """Name of the text in files whose fields have names."""

    window: int | None = None
    """Tokens of a sample of Megatron's files: the length of a training sequence plus 1; None takes
    documents as they are."""

    document_seed: int | None = None
    """Seed by which Megatron shuffles sequences before it cuts windows; None leaves their order."""

    workers: int = 8
    """Files that are read at the same time."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ConfigError(f"workers={self.workers} must be at least 1")
        if not self.text_field:
            raise ConfigError("text_field is empty; name a JSON key or a Parquet column")
        if self.window is not None and not 2 <= self.window <= WINDOW_TOKENS:
            raise ConfigError(
                f"window={self.window} must lie in [2, {WINDOW_TOKENS}]: a training sequence and "
                "one token more"
            )
        if self.document_seed is not None and (
            self.window is None or not 0 <= self.document_seed < 1 << 32
        ):
            raise ConfigError(
                f"document_seed={self.document_seed} must lie in [0, 2**32) and needs a window"
            )


@dataclass(frozen=True, slots=True)
class ScanSource:
    """One file to scan."""

    storage: Storage
    file: FileInfo
    options: ScanOptions
    side: SideFiles
    promise: Promise | None = None
    """What the manifest of an MDS directory says of the file."""

    def open(self, offset: int = 0, length: int | None = None, **options: int) -> RangeFile:
        """Open a range of the file, or all of it.

        Raises:
            HeadraceError: nothing can be read of it, not even nothing.
        """
        length = self.file.size - offset if length is None else length
        if length == 0:
            self.storage.read(self.file.path, offset, 0)
        return RangeFile(self.storage, self.file.path, offset, length, **options)

    def probe(self, kind: Kind, offset: int, length: int) -> Headers:
        """Read the headers of the medium in a range of the file."""
        buffer = {"buffer_bytes": IMAGE_READ_BYTES} if kind == "image" else {}
        return probe(kind, lambda: self.open(offset, length, **buffer))

    def restart_points(self) -> bytes:
        """Return where reading can go on in the middle of a gzip file, to be kept beside the index.

        Raises:
            CorruptDataError: the file is damaged.
        """
        if not self.file.size:
            return b""
        with self.open() as stream:
            return GzipText(stream).find_restart_points()

    def sample(
        self,
        *,
        key: str,
        kind: Kind,
        container: Container,
        members: tuple[Member, ...],
        offset: int,
        length: int,
        headers: Headers,
        row: int = 0,
        block: int = -1,
        label: int | None = None,
    ) -> SampleLocation:
        """Return the row of a sample of the file, with what its headers say."""
        return SampleLocation(
            key=key,
            kind=kind,
            container=container,
            file=self.file.path,
            file_size=self.file.size,
            file_version=self.file.version,
            members=members,
            offset=offset,
            length=length,
            row=row,
            block=block,
            label=label,
            width=headers.width,
            height=headers.height,
            duration_s=headers.duration_s,
            frames=headers.frames,
            keyframes=headers.keyframes,
            cost_s=headers.cost_s,
            broken=headers.broken,
        )

    def broken(self, reason: str) -> FileProblem:
        """Describe something wrong with the file."""
        return self._problem(reason, "broken")

    def slow(self, reason: str) -> FileProblem:
        """Describe something that makes the file slow to read."""
        return self._problem(reason, "slow")

    def _problem(self, reason: str, severity: str) -> FileProblem:
        file = self.file
        return FileProblem(
            file=file.path,
            size=file.size,
            version=file.version,
            reason=reason,
            severity="slow" if severity == "slow" else "broken",
        )


Scan = Iterator[Found]
