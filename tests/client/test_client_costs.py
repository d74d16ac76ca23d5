"""What a loader learns of its heavy samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.client.costs import Costs
from headrace.client.shares import Piece
from headrace.core.draws import SampleKey
from headrace.core.job import JobSpec, ScheduleSpec, SourceSpec
from headrace.core.parts import WHOLE
from headrace.dataset.index import Index
from headrace.prepare.job import open_job
from longclips import PIPELINE, long_clips


def piece(sample: int, cost_s: float) -> Piece:
    return Piece(SampleKey(0, 0, sample), WHOLE, cost_s)


def test_heavy_samples_are_corrected_by_what_others_of_their_kind_took(tmp_path: Path) -> None:
    root = long_clips(tmp_path / "data", clips=2, pictures=2)
    index = Index.load(str(root))
    source = SourceSpec(url=str(root), index_digest=index.digest, samples=len(index))
    schedule = ScheduleSpec(seed=0, batch_size=1)
    job = open_job(JobSpec(sources=(source,), schedule=schedule, pipeline=PIPELINE.to_json()))
    clips = [sample for sample in range(4) if job.kind(sample) == "video"]
    picture = next(sample for sample in range(4) if job.kind(sample) == "image")
    costs = Costs(job)
    costs.learn(clips[0], foreseen_s=0.5, seconds=1.5)
    assert costs.seconds(piece(clips[1], 0.5)) == pytest.approx(1.5)
    assert costs.seconds(piece(picture, 0.5)) == 0.5
    costs.learn(picture, foreseen_s=0.001, seconds=5.0)
    assert costs.seconds(piece(picture, 0.002)) == 0.002, "a picture was late for another reason"
