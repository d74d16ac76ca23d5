"""The dataset: made once on this machine and kept, then put into HDFS and indexed there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bench.offload.scale import DATASET, SEED
from headrace.dataset.build import BuildProgress, build_index
from headrace.dataset.index import Index
from headrace.demo.dataset import DemoDataset, build_dataset
from headrace.demo.recipes import plan_dataset
from headrace.demo.sources import carried_sources
from headrace.demo.view import View
from headrace.devhdfs import artefacts
from headrace.report.units import bytes_
from headrace.storage.opening import open_storage
from headrace.storage.port import Storage

UPLOADS = 4
"""Files on their way at once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """The dataset as it lies in HDFS."""

    url: str
    samples: int
    size_bytes: int
    origin: str
    """Where its pictures come from, for people."""


def cache_directory() -> Path:
    """Return where the dataset is kept between runs."""
    return artefacts.cache_directory() / "bench-offload"


def make_dataset(view: View) -> DemoDataset:
    """Make what is missing of the dataset, on all CPUs."""
    sources = carried_sources()
    return build_dataset(
        cache_directory(),
        sources=sources,
        recipes=plan_dataset(sources, DATASET, seed=SEED),
        progress=lambda done, total: view.progress("dataset", done, total),
        workers=len(os.sched_getaffinity(0)),
    )


def store(dataset: DemoDataset, root: str, folder: str, view: View) -> Stored:
    """Copy the dataset into a new folder of a store, and index it there."""
    files, url = list(_files(dataset.root)), f"{root}/{folder}"
    with closing(open_storage(root)) as storage, ThreadPoolExecutor(UPLOADS) as pool:
        copies = pool.map(lambda path: _copy(dataset.root, path, storage, folder), files)
        for done, _ in enumerate(copies, start=1):
            view.progress("upload", done, len(files))
    with closing(open_storage(url)) as storage:
        index = _index(storage, view)
    view.note(f"dataset: {len(index)} samples, {bytes_(dataset.size_bytes)}, in {url}")
    return Stored(url=url, samples=len(index), size_bytes=dataset.size_bytes, origin=dataset.origin)


def _files(root: Path) -> Iterator[str]:
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_file() and not any(part.startswith(".") for part in name.split("/")):
            yield name


def _copy(root: Path, path: str, storage: Storage, folder: str) -> None:
    storage.write(f"{folder}/{path}", (root / path).read_bytes())


def _index(storage: Storage, view: View) -> Index:
    def told(progress: BuildProgress) -> None:
        view.progress("index", progress.files_done, progress.files_total)

    index = build_index(storage, on_progress=told)
    index.save(storage)
    return index
