"""A job with its indexes open: from a global sample id to the place of its bytes."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from headrace.core.errors import ConfigError, StaleIndexError
from headrace.core.job import JobSpec, SourceSpec
from headrace.dataset.index import Index, index_command
from headrace.dataset.location import Kind, SampleLocation
from headrace.dataset.media import KINDS
from headrace.dataset.reader import SampleReader
from headrace.dataset.side import SideFiles
from headrace.prepare.foreseen import Foreseen
from headrace.prepare.sample import Preparer
from headrace.schedule.schedule import Schedule
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage
from headrace.transform.partial import divided_by
from headrace.transform.pipeline import Pipeline
from headrace.transform.program import Program

N = TypeVar("N", bound=np.generic)


@dataclass(frozen=True, slots=True)
class OpenSource:
    """One dataset of a job: its index and, where this host can see the files, a reader."""

    index: Index
    reader: SampleReader | None
    """None on a trainer that cannot see the storage and relies on agents for bytes."""

    storage: Storage | None = None
    """What the reader reads; whoever opened it closes it."""

    beside: Storage | None = None
    """What index and derived files are read from where they lie apart, to be closed as well."""

    def close(self) -> None:
        """Close reader and storages; for whoever opened them, once nothing reads any more."""
        if self.reader is not None:
            self.reader.close()
        for storage in (self.storage, self.beside):
            if storage is not None:
                storage.close()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a global sample id leads."""

    source: int
    """Position of the sample's source in the job."""

    location: SampleLocation


class OpenJob:
    """What a job reads, ready to be asked. Thread-safe: it holds no state that changes."""

    def __init__(
        self, spec: JobSpec, sources: Sequence[OpenSource], *, allowed_ops: Sequence[str] = ()
    ) -> None:
        self.spec = spec
        self.sources = tuple(sources)
        self.program = Program(Pipeline.from_json(spec.pipeline, allowed=tuple(allowed_ops)))
        self.schedule = Schedule(spec.schedule, spec.sources)
        self._ends = _running_totals(spec.sources)

    def place(self, sample: int) -> Place:
        """Return the source and location of a global sample id.

        Raises:
            IndexError: there is no such sample.
        """
        source, local = self._split(sample)
        return Place(source=source, location=self.sources[source].index.location(local))

    def source_of(self, sample: int) -> int:
        """Return the position of a sample's source in the job.

        Raises:
            IndexError: there is no such sample.
        """
        return self._split(sample)[0]

    def kind(self, sample: int) -> Kind:
        """Return the media kind of a sample without reading its whole row."""
        source, local = self._split(sample)
        return self.sources[source].index.kind(local)

    def kinds(self, samples: npt.NDArray[np.int64]) -> list[Kind]:
        """Return the media kind of each of some global sample ids."""
        codes = self._looked_up(samples, [source.index.kinds for source in self.sources])
        return [KINDS[code] for code in codes.tolist()]

    def start(self, sample: int) -> tuple[str, int]:
        """Return the URL of a sample's file and where it starts there [bytes].

        Raises:
            IndexError: there is no such sample.
        """
        source, local = self._split(sample)
        file, offset = self.sources[source].index.start(local)
        return f"{self.spec.sources[source].url.rstrip('/')}/{file}", offset

    @cached_property
    def foreseen(self) -> tuple[Foreseen, ...]:
        """What the pipeline makes of each source's samples, by their headers."""
        return tuple(Foreseen(source.index, self.program) for source in self.sources)

    def costs(self, samples: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the estimated CPU to prepare each of some global sample ids [s], ``[N]``."""
        return self._looked_up(samples, [foreseen.costs for foreseen in self.foreseen])

    def part_counts(
        self, samples: npt.NDArray[np.int64], cuts: Mapping[str, int]
    ) -> npt.NDArray[np.int64]:
        """Return in how many parts each of some samples is made, ``[N]``, 1 for a whole.

        Args:
            samples: Global sample ids.
            cuts: Media kind → number of leading ops that are run on parts.
        """
        if divided_by(self.program, cuts.get("video", 0)) is None:
            return np.ones(samples.size, np.int64)
        return self._looked_up(samples, [foreseen.parts for foreseen in self.foreseen])

    def lengths(self, samples: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the encoded bytes of each of some global sample ids, ``int64 [N]``."""
        return self._looked_up(samples, [source.index.lengths for source in self.sources])

    def source_range(self, source: int) -> range:
        """Return the global ids of one source's samples."""
        end = self._ends[source]
        return range(end - self.spec.sources[source].samples, end)

    def preparer(self, source: int) -> Preparer | None:
        """Return what brings this source's samples to a cut here; None without access to it."""
        reader = self.sources[source].reader
        return None if reader is None else Preparer(self.program, reader)

    def close(self) -> None:
        """Close readers and storages; for whoever opened them, once nothing reads any more."""
        for source in self.sources:
            source.close()

    def _looked_up(
        self, samples: npt.NDArray[np.int64], columns: Sequence[npt.NDArray[N]]
    ) -> npt.NDArray[N]:
        """Return the values of some global sample ids, from a column for each source."""
        values = np.empty(samples.size, dtype=columns[0].dtype)
        sources = np.searchsorted(self._ends, samples, side="right")
        for source in np.unique(sources).tolist():
            chosen = sources == source
            rows = samples[chosen] - self.source_range(source).start
            values[chosen] = columns[source][rows]
        return values

    def _split(self, sample: int) -> tuple[int, int]:
        if not 0 <= sample < self._ends[-1]:
            raise IndexError(f"sample {sample} is not in [0, {self._ends[-1]})")
        source = bisect.bisect_right(self._ends, sample)
        return source, sample - self.source_range(source).start


def open_source(
    source: SourceSpec, *, open_url: Callable[[str], Storage] = open_storage
) -> OpenSource:
    """Open one dataset of a job and check that it is the one the job was planned with.

    Raises:
        NotFoundError: the dataset, or its index, does not exist.
        StaleIndexError: the index is not the one the job names.
        ConfigError: the job counts other samples than its index has.
    """
    storage = open_url(source.url)
    beside = open_url(source.index) if source.index else None
    index = Index.load(beside, of=source.url) if beside else Index.load(storage)
    if index.digest != source.index_digest:
        raise StaleIndexError(
            f"the index of {source.url} is {index.digest[:12]}, the job was planned with "
            f"{source.index_digest[:12]}; run `{index_command(source.url, source.index)}` "
            "and start the job again"
        )
    if len(index) != source.samples:
        raise ConfigError(
            f"the job counts {source.samples} samples in {source.url}, its index has {len(index)}"
        )
    reader = SampleReader(storage, side=SideFiles(beside or storage))
    return OpenSource(index=index, reader=reader, storage=storage, beside=beside)


def open_job(
    spec: JobSpec,
    *,
    allowed_ops: Sequence[str] = (),
    open_url: Callable[[str], Storage] = open_storage,
) -> OpenJob:
    """Open all datasets of a job.

    Args:
        spec: The job.
        allowed_ops: Import paths of users' own ops that may be run (``module:*`` for all of one).
        open_url: Opens a source's storage; an agent passes one that keeps to its roots.
    """
    sources = [open_source(source, open_url=open_url) for source in spec.sources]
    return OpenJob(spec, sources, allowed_ops=allowed_ops)


def _running_totals(sources: Sequence[SourceSpec]) -> list[int]:
    totals, total = [], 0
    for source in sources:
        total += source.samples
        totals.append(total)
    return totals
