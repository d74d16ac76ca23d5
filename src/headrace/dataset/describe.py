"""What a dataset looks like, summed up from its index: pure, no file is touched."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from headrace.dataset.index import FileProblem, Index
from headrace.dataset.listing import Listing
from headrace.dataset.namedfiles import named_sizes

Numbers = npt.NDArray[np.float64]

HISTOGRAM_BINS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """How a positive quantity is spread over samples."""

    total: float
    p50: float
    p90: float
    p99: float
    largest: float
    histogram: tuple[int, ...]
    """Samples per bin; bins are equally wide in the logarithm, from ``lowest`` to ``largest``."""

    lowest: float
    """Smallest value above zero."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """All samples of one kind in one sort of container."""

    kind: str
    container: str
    samples: int
    broken: int
    size_bytes: Distribution
    """Encoded bytes of a sample."""

    cost_s: Distribution
    """Estimated CPU to decode a sample [s]."""

    duration_s: float
    """Sum of the playing times [s]; 0 for what has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokenSamples:
    """Samples that are broken for the same reason."""

    reason: str
    count: int
    example: str
    """Key of the first one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """A dataset at a glance."""

    samples: int
    files: int
    file_bytes: int
    digest: str
    groups: tuple[Group, ...]
    classes: dict[str, int]
    """Class folder → samples."""

    broken: tuple[BrokenSamples, ...]
    """Most frequent reason first."""

    problems: tuple[FileProblem, ...]
    ignored: dict[str, int]
    """Extension → files that are no samples."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Staleness:
    """What happened to the files since they were indexed."""

    changed: tuple[str, ...]
    gone: tuple[str, ...]
    new: tuple[str, ...]

    def __bool__(self) -> bool:
        """Whether anything happened."""
        return bool(self.changed or self.gone or self.new)


def describe(index: Index) -> Description:
    """Sum up an index."""
    files = list(index.files())
    return Description(
        samples=len(index),
        files=len(files),
        file_bytes=sum(file.size for file in files),
        digest=index.digest,
        groups=_groups(index),
        classes=_classes(index),
        broken=_broken(index),
        problems=index.problems,
        ignored=index.meta.ignored,
    )


def compare_files(index: Index, listing: Listing) -> Staleness:
    """Compare an index with the files that are there now.

    A file whose companion changed has changed as well. Manifests are only looked at where the
    index found something wrong with them: new ones are nothing new. Lists of captions are always.
    Media files that samples name are known by their sizes.
    """
    indexed = {file.path: file for file in index.files()}
    helpers = (file for file in listing.helpers() if file.path in indexed)
    now = {file.path: file for file in (*listing.named(), *helpers)}
    before, after = index.meta.companions, listing.companions
    stamped = {path: before.get(path) != after.get(path) for path in (*before, *after)}
    captions = (path for path in stamped if path not in indexed and path not in now)
    named = named_sizes(index.table)
    return Staleness(
        changed=(
            *(p for p, f in indexed.items() if p in now and (now[p] != f or stamped.get(p))),
            *(path for path in captions if stamped[path]),
            *(path for path, size in named.items() if path in now and now[path].size != size),
        ),
        gone=(
            *(path for path in indexed if path not in now),
            *(path for path, size in named.items() if size and path not in now),
        ),
        new=tuple(path for path in now if path not in indexed and path not in named),
    )


def distribution(values: npt.NDArray[np.generic]) -> Distribution:
    """Return how values >= 0 are spread; all zeros of an empty array."""
    known: Numbers = values.astype(np.float64)
    positive = known[known > 0]
    if not len(positive):
        return Distribution(
            total=0.0, p50=0.0, p90=0.0, p99=0.0, largest=0.0, histogram=(), lowest=0.0
        )
    p50, p90, p99 = (float(value) for value in np.percentile(known, (50, 90, 99)))
    lowest, largest = float(positive.min()), float(positive.max())
    bins = HISTOGRAM_BINS if largest > lowest else 1
    counts, _ = np.histogram(np.log(positive), bins=bins)
    return Distribution(
        total=float(known.sum()),
        p50=p50,
        p90=p90,
        p99=p99,
        largest=largest,
        histogram=tuple(int(count) for count in counts),
        lowest=lowest,
    )


def _groups(index: Index) -> tuple[Group, ...]:
    pairs = index.table.group_by(["kind", "container"]).aggregate([]).to_pylist()
    found = sorted((str(pair["kind"]), str(pair["container"])) for pair in pairs)
    return tuple(_group(index, kind, container) for kind, container in found)


def _group(index: Index, kind: str, container: str) -> Group:
    table = index.table
    here = pc.and_(pc.equal(table["kind"], kind), pc.equal(table["container"], container))
    rows = table.filter(here)
    return Group(
        kind=kind,
        container=container,
        samples=rows.num_rows,
        broken=rows.num_rows - rows["broken"].null_count,
        size_bytes=distribution(rows["length"].to_numpy()),
        cost_s=distribution(rows["cost_s"].to_numpy()),
        duration_s=float(pc.sum(rows["duration_s"]).as_py() or 0.0),
    )


def _classes(index: Index) -> dict[str, int]:
    labels = index.table["label"].drop_null().to_numpy()
    counts = np.bincount(labels, minlength=len(index.classes))
    return {name: int(count) for name, count in zip(index.classes, counts, strict=True)}


def _broken(index: Index) -> tuple[BrokenSamples, ...]:
    rows = index.table.filter(pc.is_valid(index.table["broken"])).select(["broken", "key"])
    counts, examples = Counter[str](), dict[str, str]()
    for batch in rows.to_batches():
        for reason, key in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            counts[reason] += 1
            examples.setdefault(reason, key)
    return tuple(
        BrokenSamples(reason=reason, count=count, example=examples[reason])
        for reason, count in counts.most_common()
    )
