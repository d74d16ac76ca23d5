"""Who stands in for a sample that cannot be decoded: the same answer on every host."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from headrace.core.draws import SampleKey
from headrace.core.job import JobSpec, ScheduleSpec, SourceSpec
from headrace.dataset.build import build_index
from headrace.prepare.job import OpenJob, open_job
from headrace.prepare.substitute import Substitutes
from headrace.storage.opening import open_storage
from headrace.transform import ops
from headrace.transform.pipeline import Pipeline

PICTURES, TEXTS = 5, 1


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> OpenJob:
    """Two sources, each of five pictures and one text."""
    sources = []
    for name in "ab":
        root = tmp_path_factory.mktemp(name)
        for number in range(PICTURES):
            Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(root / f"{number}.png")
        (root / "words.jsonl").write_text('{"text": "one"}\n')
        storage = open_storage(str(root))
        index = build_index(storage)
        index.save(storage)
        sources.append(
            SourceSpec(url=str(root), index_digest=index.digest, samples=len(index))
        )  # fmt: skip
    return open_job(
        JobSpec(
            sources=tuple(sources),
            schedule=ScheduleSpec(seed=1, batch_size=2),
            pipeline=Pipeline((ops.DecodeImage(),)).to_json(),
        )
    )


def of_kind(job: OpenJob, kind: str, source: int) -> list[int]:
    return [sample for sample in job.source_range(source) if job.kind(sample) == kind]


def tried(job: OpenJob, sample: int, epoch: int = 0) -> list[int]:
    key = SampleKey(seed=1, epoch=epoch, sample=sample)
    return [other.sample for other in Substitutes(job).of(key)]


def test_samples_of_the_same_source_stand_in_those_of_the_same_kind_first(job: OpenJob) -> None:
    for source in (0, 1):
        alike = of_kind(job, "image", source)
        assert len(alike) == PICTURES
        for sample in alike:
            found = tried(job, sample)
            assert sample not in found
            assert set(found) <= set(job.source_range(source))
            assert set(found[: PICTURES - 1]) == set(alike) - {sample}
            assert len(set(found)) == len(found)


def test_every_host_tries_them_in_the_same_order_and_other_epochs_in_another(job: OpenJob) -> None:
    sample = of_kind(job, "image", 1)[0]
    orders = [tried(job, sample, epoch) for epoch in range(8)]
    assert orders == [tried(job, sample, epoch) for epoch in range(8)]
    assert len({tuple(order) for order in orders}) > 2


def test_every_other_sample_of_a_source_is_tried_where_there_are_few(job: OpenJob) -> None:
    """It must not give up while one is untried that could be decoded."""
    for epoch in range(50):
        sample = of_kind(job, "image", 0)[epoch % PICTURES]
        found = tried(job, sample, epoch)
        assert set(found) >= set(of_kind(job, "image", 0)) - {sample}, (sample, epoch)


def test_another_kind_stands_in_for_the_only_sample_of_its_kind(job: OpenJob) -> None:
    (only,) = of_kind(job, "text", 0)
    assert set(tried(job, only)) <= set(of_kind(job, "image", 0))
    assert tried(job, only)
