"""In how many parts samples are made, and that parts put together are the sample."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from headrace.core.digest import record_digest
from headrace.core.draws import SampleKey
from headrace.core.errors import CorruptSampleError
from headrace.core.job import JobSpec, ScheduleSpec, SourceSpec
from headrace.core.parts import MOST_PARTS, parts_of
from headrace.dataset.index import Index
from headrace.prepare.foreseen import PART_S
from headrace.prepare.job import OpenJob, open_job
from headrace.transform import ops
from headrace.transform.partial import divided_by, joined
from headrace.transform.pipeline import Pipeline
from headrace.transform.program import Program
from longclips import PARTS, PIPELINE, long_clips, save_clip, set_costs


def opened(root: Path, pipeline: Pipeline = PIPELINE) -> OpenJob:
    index = Index.load(str(root))
    source = SourceSpec(url=str(root), index_digest=index.digest, samples=len(index))
    schedule = ScheduleSpec(seed=3, batch_size=1)
    return open_job(JobSpec(sources=(source,), schedule=schedule, pipeline=pipeline.to_json()))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return long_clips(tmp_path_factory.mktemp("parts") / "data")


def counts(job: OpenJob, cut: int = 3) -> list[int]:
    samples = np.arange(job.spec.sources[0].samples)
    return job.part_counts(samples, {"image": cut, "video": cut}).tolist()


def test_costly_clips_are_made_in_parts_and_pictures_are_not(root: Path) -> None:
    job = opened(root)
    clips = [kind == "video" for kind in map(job.kind, range(8))]
    assert counts(job) == [PARTS if clip else 1 for clip in clips]
    assert counts(job, cut=0) == [1] * 8, "nothing is decoded"


@pytest.mark.parametrize("stop", [3, 4, 6])
def test_parts_put_together_are_the_sample(root: Path, stop: int) -> None:
    job = opened(root)
    preparer, decoder = job.preparer(0), divided_by(job.program, stop)
    assert preparer is not None
    assert decoder is not None
    for sample in range(8):
        if job.kind(sample) == "video":
            location, key = job.place(sample).location, SampleKey(3, 1, sample)
            location = msgspec.structs.replace(location, label=4)
            records = [
                preparer.prepare(location, key, stop=stop, part=part).record
                for part in parts_of(PARTS)
            ]
            assert [set(record) for record in records[1:]] == [{"video"}] * (PARTS - 1)
            whole = preparer.prepare(location, key, stop=stop).record
            assert record_digest(joined(records, decoder)) == record_digest(whole)


def test_a_sample_that_cannot_be_divided_is_not_made_in_parts(root: Path) -> None:
    job = opened(root)
    preparer = job.preparer(0)
    assert preparer is not None
    picture = next(sample for sample in range(8) if job.kind(sample) == "image")
    with pytest.raises(CorruptSampleError, match="as a whole"):
        preparer.prepare(
            job.place(picture).location, SampleKey(3, 0, picture), stop=3, part=parts_of(2)[1]
        )


def test_a_pipeline_that_needs_all_frames_at_once_divides_nothing() -> None:
    whole = ops.UserOp("builtins:list", fields=("video",))
    for stop, program in ((2, [ops.DecodeVideo(4), whole]), (1, [whole, ops.DecodeVideo(4)])):
        assert divided_by(Program(Pipeline(program)), stop) is None
    behind = Program(Pipeline([ops.DecodeVideo(4), ops.ToFloat(), whole]))
    assert divided_by(behind, 2) == behind.ops[0]
    assert divided_by(behind, 3) is None


@pytest.mark.parametrize(
    ("cost_s", "frames", "expected"),
    [
        (0.9, 12, 2),
        (PART_S, 12, 1),
        (100.0, 12, 4),  # eight groups: each part has some of them, wherever the moments fall
        (100.0, 4, 2),
        (100.0, 1, 1),
    ],
)
def test_parts_are_as_many_as_pay(
    tmp_path: Path, cost_s: float, frames: int, expected: int
) -> None:
    save_clip(tmp_path / "v.mp4")
    set_costs(tmp_path, cost_s)
    assert counts(opened(tmp_path, Pipeline([ops.DecodeVideo(frames)])), 1) == [expected]
    assert expected <= MOST_PARTS


def test_a_clip_costs_what_is_decoded_of_it(tmp_path: Path) -> None:
    save_clip(tmp_path / "v.mp4")
    set_costs(tmp_path, 10.0)

    def cost_s(decode: ops.DecodeVideo) -> float:
        return float(opened(tmp_path, Pipeline([decode])).costs(np.array([0]))[0])

    few, many = cost_s(ops.DecodeVideo(2)), cost_s(ops.DecodeVideo(64))
    assert 0.5 < few < 2 < 8 < many < 10
    assert cost_s(ops.DecodeVideo(8, "fps", fps=24)) < cost_s(ops.DecodeVideo(8)) / 2
