"""What jobs over the same data hold in memory once."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest

from headrace.core.job import JobSpec, ScheduleSpec, SourceSpec
from headrace.dataset.build import build_index
from headrace.dataset.index import Index
from headrace.prepare.job import OpenJob, open_job
from headrace.storage.local import LocalStorage
from headrace.transform.pipeline import Pipeline


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return indexed(tmp_path, ["a", "b", "c"])


def indexed(root: Path, texts: list[str]) -> Path:
    (root / "t.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))
    build_index(LocalStorage(root)).save(LocalStorage(root))
    return root


def opened(root: Path, seed: int) -> OpenJob:
    index = Index.load(root)
    source = SourceSpec(url=str(root), index_digest=index.digest, samples=len(index))
    schedule = ScheduleSpec(seed=seed, batch_size=1)
    return open_job(JobSpec(sources=(source,), schedule=schedule, pipeline=Pipeline([]).to_json()))


def test_jobs_of_a_sweep_share_one_index_and_its_costs(root: Path) -> None:
    first, second = opened(root, 1), opened(root, 2)
    assert first.sources[0].index is second.sources[0].index
    assert np.shares_memory(first.foreseen[0].costs, second.foreseen[0].costs)


def test_an_index_that_was_built_anew_is_another(root: Path) -> None:
    before = opened(root, 1)
    indexed(root, ["a", "b", "c", "d"])
    after = opened(root, 1)
    assert (len(before.sources[0].index), len(after.sources[0].index)) == (3, 4)


def test_an_index_goes_with_the_last_job_that_has_it(root: Path) -> None:
    jobs = [opened(root, 1), opened(root, 2)]
    index = weakref.ref(jobs[0].sources[0].index)
    del jobs[0]
    gc.collect()
    assert index() is not None
    jobs.clear()
    gc.collect()
    assert index() is None
