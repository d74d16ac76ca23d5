"""A controller, agents that enforce and loaders that report: real processes, all of them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

import pytest

from headrace import Batch, Loader, Pipeline, ops
from headrace.agent.local import LocalAgent
from headrace.controller.local import LocalController
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.estate import Estate, JobView, TierShare
from waiting import eventually

TOKEN = "e" * 20
PIPELINE = Pipeline([ops.DecodeImage(), ops.CenterCrop(32), ops.ToFloat()])

S = TypeVar("S")


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[LocalController]:
    with LocalController(tmp_path / "journal.db", token=TOKEN) as running:
        yield running


@pytest.fixture(scope="module")
def photos(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of its own, for its index lies in it."""
    folder = tmp_path_factory.mktemp("controller") / "photos"
    shutil.copytree(dataset / "cat", folder, ignore=shutil.ignore_patterns(".*"))
    return folder


@contextmanager
def agent_of(root: Path, controller: LocalController, *options: str) -> Iterator[LocalAgent]:
    given = ("--workers", "1", "--cpu-threshold", "1", "--controller", controller.address)
    with LocalAgent([root], token=TOKEN, options=(*given, *options)) as agent:
        yield agent


@contextmanager
def job_of(
    root: Path, controller: LocalController, *agents: LocalAgent, **more: object
) -> Iterator[Loader]:
    given: dict[str, object] = {
        "pipeline": PIPELINE, "batch_size": 4, "agents": [a.address for a in agents],
        "token": TOKEN, "workers": 1, "prefetch_steps": 3, "controller": controller.address,
    }  # fmt: skip
    with Loader(root, **{**given, **more}) as loader:  # type: ignore[arg-type]
        yield loader


def estate_of(controller: LocalController) -> Estate:
    link = Connection(Endpoint(address=controller.address, token=TOKEN, service="controller"))
    try:
        return link.call("GET", "/v1/estate", Estate)
    finally:
        link.close()


def steps(loader: Loader) -> Iterator[Batch]:
    while True:
        yield from loader


def walk(batches: Iterator[Batch], until: Callable[[], S | None], *, most_s: float = 30.0) -> S:
    """Train at 25 steps a second until something is true; return it."""
    deadline = time.monotonic() + most_s
    while True:
        next(batches)
        time.sleep(0.04)  # an accelerator's step
        found = until()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not come true"


def enforced(controller: LocalController) -> JobView | None:
    """Return the job once agents enforce what was granted."""
    for job in estate_of(controller).jobs:
        for share in job.tiers.values():
            if 0.8 * share.granted_bytes_per_s < share.enforced_bytes_per_s:
                return job
    return None


def test_a_job_is_seen_given_a_quota_and_held_to_it(
    photos: Path, controller: LocalController
) -> None:
    with (
        agent_of(photos, controller, "--tier", "hdd=40MB/s") as agent,
        job_of(photos, controller, agent, job_title="pictures", job_weight=2.0) as loader,
    ):
        job = walk(steps(loader), lambda: enforced(controller))
        assert (job.title, job.weight, job.hosts_reporting) == ("pictures", 2.0, 1)
        assert 0 < job.tiers["hdd"].enforced_bytes_per_s <= 40e6
        control = loader.statistics().control
        assert control is not None
        assert control.score is not None
        assert control.level == job.level
        (seen,) = estate_of(controller).agents
        assert (seen.agent, seen.workers) == (agent.name, 1)
    eventually(lambda: not estate_of(controller).jobs)  # the loader says goodbye
    eventually(lambda: not estate_of(controller).agents)  # so does the agent


def test_of_the_link_that_samples_leave_by_a_job_gets_more_than_its_even_part_if_it_needs_it(
    photos: Path, controller: LocalController
) -> None:
    tiers = ("--tier", "hdd=40MB/s", "--tier", "uplink:link=600kB/s")
    with (
        agent_of(photos, controller, *tiers) as agent,
        job_of(photos, controller, agent, job_title="large", batch_size=12) as large,
        job_of(photos, controller, agent, job_title="small", batch_size=1) as small,
    ):
        both = map(itemgetter(0), zip(steps(large), steps(small), strict=False))
        found = walk(both, lambda: _most_of(controller, "uplink", "large", least=400e3))
    for share in found.values():
        assert share.asked_bytes_per_s >= 0.5 * share.used_bytes_per_s
        assert share.granted_bytes_per_s >= 0.7 * share.used_bytes_per_s


def _most_of(
    controller: LocalController, tier: str, title: str, *, least: float
) -> dict[str, TierShare] | None:
    """Return title → share of a tier once a job is given, and held to, so much of it."""
    found = {job.title: job.tiers[tier] for job in estate_of(controller).jobs if tier in job.tiers}
    enforced = found[title].enforced_bytes_per_s if title in found else 0.0
    return found if enforced >= least else None


def test_a_controller_that_is_killed_under_load_is_not_missed_and_finds_all_as_it_was(
    photos: Path, controller: LocalController
) -> None:
    with ExitStack() as stack:
        agents = [
            stack.enter_context(agent_of(photos, controller, "--tier", "hdd=40MB/s"))
            for _ in range(3)
        ]
        jobs = [
            steps(stack.enter_context(job_of(photos, controller, *agents, seed=seed)))
            for seed in range(3)
        ]

        def walk_all(until: Callable[[], S | None], most_s: float = 40.0) -> S:
            for batches in jobs[1:]:
                next(batches)
            return walk(jobs[0], lambda: [next(b) for b in jobs[1:]] and until(), most_s=most_s)

        before = walk_all(lambda: _all_enforced(controller, jobs=3))
        controller.kill()
        away_until = time.monotonic() + 3.0
        walk_all(lambda: time.monotonic() > away_until)
        controller.start()
        after = walk_all(lambda: _all_enforced(controller, jobs=3))
        assert after.keys() == before.keys()
        for job, quotas in after.items():
            assert quotas == pytest.approx(before[job], rel=0.5)
        assert sum(sum(quotas.values()) for quotas in after.values()) <= 3 * 40e6


def _all_enforced(controller: LocalController, *, jobs: int) -> dict[str, dict[str, float]] | None:
    """Return job → tier → quota once all agents enforce what the controller grants."""
    estate = estate_of(controller)
    found = {
        job.job: {tier: share.granted_bytes_per_s for tier, share in job.tiers.items()}
        for job in estate.jobs
        if job.tiers
        and all(
            0.8 * share.granted_bytes_per_s
            <= share.enforced_bytes_per_s
            <= 1.001 * share.granted_bytes_per_s
            for share in job.tiers.values()
        )
    }
    settled = not estate.controller.settling and len(estate.agents) == 3
    return found if settled and len(found) == jobs else None
