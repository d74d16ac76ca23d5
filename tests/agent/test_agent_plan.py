"""What an agent knows of a job's samples before it prepares them."""

from __future__ import annotations

from pathlib import Path

import pytest
from client_for_tests import PLAIN, make_dataset

from headrace.agent.plan import AgentPlan
from headrace.core.job import JobSpec, ScheduleSpec, SourceSpec
from headrace.core.roster import RosterEntry
from headrace.dataset.index import Index
from headrace.prepare.job import open_job
from headrace.transform import ops
from headrace.transform.pipeline import Pipeline
from headrace.wire.messages import Fingerprint, RegisterJob

OTHER_END = Pipeline((*PLAIN.ops[:2], ops.ToFloat(fields=("image",))))
SMALLER = Pipeline((PLAIN.ops[0], ops.RandomResizedCrop(32), PLAIN.ops[2]))


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("plans")
    return [make_dataset(root / name, count=8) for name in ("one", "two")]


def plan(
    *datasets: Path, pipeline: Pipeline = PLAIN, cut: int = 2, run: str = "", **schedule: int
) -> AgentPlan:
    spec = JobSpec(
        sources=tuple(
            SourceSpec(url=str(path), index_digest=Index.load(str(path)).digest, samples=8)
            for path in datasets
        ),
        schedule=ScheduleSpec(**{"seed": 3, "batch_size": 4, **schedule}),
        pipeline=pipeline.to_json(),
        run=run,
    )
    message = RegisterJob(
        spec=spec,
        world=1,
        cuts={"image": cut},
        fingerprint=Fingerprint(versions={}, golden={}),
        roster=(RosterEntry(name="me"),),
    )
    return AgentPlan(open_job(spec), message, "me")


def test_a_recipe_is_equal_where_the_bytes_are(datasets: list[Path]) -> None:
    recipe = plan(datasets[0]).recipe(0)
    assert plan(datasets[0], batch_size=2, run="another").recipe(1) == recipe
    assert plan(datasets[0], pipeline=OTHER_END).recipe(0) == recipe, "they differ behind the cut"
    assert plan(*datasets).recipe(0) == recipe


def test_a_recipe_differs_where_bytes_may(datasets: list[Path]) -> None:
    one, two = datasets
    recipes = [
        plan(one).recipe(0),
        plan(one, seed=4).recipe(0),
        plan(one, cut=3).recipe(0),
        plan(one, cut=3, pipeline=OTHER_END).recipe(0),
        plan(one, pipeline=SMALLER).recipe(0),
        plan(two).recipe(0),
        plan(one, two).recipe(8),
    ]
    assert len(set(recipes)) == len(recipes)


def test_what_is_sent_encoded_has_no_recipe(datasets: list[Path]) -> None:
    assert plan(datasets[0], cut=0).recipe(0) == ""
