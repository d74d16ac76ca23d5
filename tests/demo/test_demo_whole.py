"""The whole demo, small: real agents, real trainers, real host work."""

from __future__ import annotations

import io
import os
from pathlib import Path

import msgspec
import psutil
import pytest
from rich.console import Console

from headrace.demo.dataset import build_dataset
from headrace.demo.proof import batch_digest
from headrace.demo.protocol import SegmentPlan
from headrace.demo.recipes import DatasetSize, plan_dataset
from headrace.demo.run import DemoSettings, demo_pipeline, run_demo
from headrace.demo.sources import carried_sources
from headrace.demo.trainer import feed_type
from headrace.demo.view import PlainView

SMALL = DatasetSize(photos=15, captioned=2, clips=2, truncated=1)


@pytest.mark.slow
def test_both_loaders_make_the_same_batches_and_nothing_is_left_running(tmp_path: Path) -> None:
    settings = DemoSettings(
        directory=tmp_path,
        size=SMALL,
        batch_size=2,
        host_work=0.2,
        budget_s=0.1,
        pairs=1,
        warmup_steps=1,
        calibration_steps=1,
        off_steps=2,
    )
    before, log = os.sched_getaffinity(0), io.StringIO()
    others = {child.pid for child in psutil.Process().children(recursive=True)}
    with PlainView(Console(file=log)) as view:
        result = run_demo(settings, view)
    assert result.unequal == []
    assert result.main.baseline.steps == result.main.headrace.steps == 8
    assert "left to data loading" in log.getvalue()
    assert os.sched_getaffinity(0) == before
    children = psutil.Process().children(recursive=True)
    left = [child.cmdline() for child in children if child.pid not in others]
    assert not [command for command in left if any("headrace" in part for part in command)]


@pytest.mark.slow
def test_a_torch_dataloader_makes_the_same_batches_and_substitutes(tmp_path: Path) -> None:
    sources = carried_sources()
    dataset = build_dataset(
        tmp_path,
        sources=sources,
        recipes=plan_dataset(sources, SMALL, seed=1),
        progress=lambda *_: None,
        workers=2,
    )
    plan = SegmentPlan(
        mode="local",
        root=str(dataset.root),
        pipeline=demo_pipeline().to_json(),
        batch_size=4,
        seed=1,
        first_step=2,
        warmup_steps=0,
        steps=6,
        step_s=0.0,
        first_step_s=0.0,
        workers=1,
        cpus=(),
    )
    ours, theirs = (told(msgspec.structs.replace(plan, mode=mode)) for mode in ("local", "torch"))
    assert ours == theirs


def told(plan: SegmentPlan) -> tuple[dict[int, str], set[int]]:
    """Return the digest of every batch, and which samples were replaced."""
    digests = {}
    with feed_type(plan)(plan) as feed:
        for fed in feed:
            digests[fed.step] = batch_digest(fed.columns, fed.rows)
            if len(digests) == plan.steps:
                break
        return digests, set(feed.end().substituted)
